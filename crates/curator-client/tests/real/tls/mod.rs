//! Connections over TLS: which are accepted, which are refused and why, and that sessions work like
//! sessions without TLS.

mod connecting;
mod refused;
mod sessions;

use curator_client::{CuratorClientBuilder, TlsOptions};
use curator_test::{
    ClientAuth, ServerTls, TestingCa, TestingCertificate, TestingServer, TestingServerBuilder,
};
use tokio::sync::OnceCell;

use crate::support::builder;

/// A server that speaks TLS, and the authority that issued its certificate and that it trusts.
struct Setup {
    ca: TestingCa,
    server: TestingServer,
}

/// The address in the certificates of the servers.
const ADDRESS: &str = "127.0.0.1";

/// A server that grants session timeouts of up to an hour.
fn server() -> TestingServerBuilder {
    TestingServer::builder()
        .kind(curator_test::ServerKind::Real)
        .property("maxSessionTimeout", "3600000")
}

impl Setup {
    async fn start(client_auth: ClientAuth) -> Self {
        let ca = TestingCa::new("ours").unwrap();
        let TestingCertificate {
            certificate_pem,
            key_pem,
            ..
        } = ca.issue(&[ADDRESS]).unwrap();
        let tls = ServerTls::new(certificate_pem, key_pem).client_auth(client_auth, ca.pem());
        Self {
            server: server().tls(tls).start().await.unwrap(),
            ca,
        }
    }

    /// A server that requests no client certificate, shared by all tests.
    async fn open() -> &'static Self {
        static OPEN: OnceCell<Setup> = OnceCell::const_new();
        OPEN.get_or_init(|| Self::start(ClientAuth::None)).await
    }

    /// A server that requires a client certificate, shared by all tests.
    async fn mutual() -> &'static Self {
        static MUTUAL: OnceCell<Setup> = OnceCell::const_new();
        MUTUAL.get_or_init(|| Self::start(ClientAuth::Need)).await
    }

    fn connect_string(&self) -> String {
        self.server.secure_connect_string().unwrap()
    }

    /// Options that trust the server.
    fn trust(&self) -> TlsOptions {
        TlsOptions::from_pem(self.ca.pem()).unwrap()
    }

    /// Options that trust the server, with a client certificate of this authority.
    fn identity_by(&self, ca: &TestingCa) -> TlsOptions {
        let client = ca.issue(&["orders"]).unwrap();
        self.trust()
            .with_identity(&client.certificate_pem, &client.key_pem)
            .unwrap()
    }

    fn builder(&self) -> CuratorClientBuilder {
        builder(self.connect_string()).tls(self.trust())
    }
}
