//! A server that speaks TLS: a proxy before the shared server, whose certificate a test can
//! replace.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_net::{TcpListener, TcpStream};
use curator_test::{TestingCa, TestingServer};
use futures_rustls::TlsAcceptor;
use futures_rustls::pki_types::pem::PemObject as _;
use futures_rustls::pki_types::{CertificateDer, PrivateKeyDer};
use futures_rustls::rustls::ServerConfig;
use futures_rustls::rustls::crypto::aws_lc_rs::default_provider;
use futures_util::AsyncReadExt as _;
use futures_util::io::copy;
use tokio::sync::watch;

/// The proxy. It ends with the runtime of the test.
pub(crate) struct TlsServer {
    address: SocketAddr,
    config: watch::Sender<Arc<ServerConfig>>,
    accepted: watch::Receiver<usize>,
}

impl TlsServer {
    /// Starts with a certificate that `ca` has issued.
    pub(crate) async fn start(ca: &TestingCa) -> Self {
        let upstream = TestingServer::shared().await.address();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (config, configs) = watch::channel(issued_by(ca));
        let (accepting, accepted) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, upstream, configs.clone(), accepting.clone()));
            }
        });
        Self {
            address,
            config,
            accepted,
        }
    }

    /// Presents another certificate from now on, and ends all connections.
    pub(crate) fn rotate(&self, ca: &TestingCa) {
        self.config.send_replace(issued_by(ca));
    }

    /// How many handshakes have succeeded.
    pub(crate) fn accepted(&self) -> usize {
        *self.accepted.borrow()
    }

    /// Writes a configuration file for this server, which trusts the authority in `ca.pem` of the
    /// same directory.
    pub(crate) fn write_config(&self, directory: &Path) -> PathBuf {
        let file = directory.join("config.toml");
        let ca = directory.join("ca.pem");
        let text = format!(
            "connect = \"{}\"\n[tls]\nca = \"{}\"\n",
            self.address,
            ca.display()
        );
        std::fs::write(&file, text).unwrap();
        file
    }
}

fn issued_by(ca: &TestingCa) -> Arc<ServerConfig> {
    let issued = ca.issue(&["127.0.0.1"]).unwrap();
    let chain = CertificateDer::pem_slice_iter(issued.certificate_pem.as_bytes())
        .map(Result::unwrap)
        .collect();
    let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(default_provider().into());
    let config = config
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    Arc::new(config.with_single_cert(chain, key).unwrap())
}

/// Serves one connection until either side ends it, or until the certificate is replaced.
async fn serve(
    stream: TcpStream,
    upstream: SocketAddr,
    mut configs: watch::Receiver<Arc<ServerConfig>>,
    accepting: watch::Sender<usize>,
) {
    let config = Arc::clone(&configs.borrow_and_update());
    let Ok(stream) = TlsAcceptor::from(config).accept(stream).await else {
        return;
    };
    accepting.send_modify(|accepted| *accepted += 1);
    let (from_client, mut to_client) = stream.split();
    let Ok(upstream) = TcpStream::connect(upstream).await else {
        return;
    };
    let mut from_server = upstream.clone();
    let mut to_server = upstream;
    tokio::select! {
        _ = copy(from_client, &mut to_server) => {}
        _ = copy(&mut from_server, &mut to_client) => {}
        _ = configs.changed() => {}
    }
}
