//! Handshakes with a `rustls` server, and with servers that do not speak TLS.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream as StdStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::SystemTime;

use curator_test::{TestingCa, TestingCertificate};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, ServerConnection, Stream, SupportedProtocolVersion};

use super::*;
use crate::connect_string::ConnectString;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A server for one connection.
struct Server {
    address: SocketAddr,
    thread: JoinHandle<()>,
}

impl Server {
    fn start(serve: impl FnOnce(StdStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || serve(listener.accept().unwrap().0));
        Self { address, thread }
    }

    /// Speaks TLS, and answers a four-letter word. If `client_ca` is given, requires client
    /// certificates that this authority has issued.
    fn of_tls(certificate: &TestingCertificate, client_ca: Option<&TestingCa>) -> Self {
        Self::of_version(&TLS13, certificate, client_ca)
    }

    fn of_version(
        version: &'static SupportedProtocolVersion,
        certificate: &TestingCertificate,
        client_ca: Option<&TestingCa>,
    ) -> Self {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[version]);
        let config = match client_ca {
            None => config.unwrap().with_no_client_auth(),
            Some(ca) => {
                let mut roots = RootCertStore::empty();
                roots
                    .add(CertificateDer::from_pem_slice(ca.pem().as_bytes()).unwrap())
                    .unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                config
                    .unwrap()
                    .with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let chain =
            vec![CertificateDer::from_pem_slice(certificate.certificate_pem.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes()).unwrap();
        let config = Arc::new(config.with_single_cert(chain, key).unwrap());
        Self::start(move |mut tcp| {
            let mut tls = ServerConnection::new(config).unwrap();
            let mut stream = Stream::new(&mut tls, &mut tcp);
            let mut word = [0; WORD.len()];
            if stream.read_exact(&mut word).is_ok() {
                assert_eq!(&word, WORD);
                stream.write_all(b"words").unwrap();
            }
        })
    }

    /// The result of a handshake in which the client expects the host name `host`.
    async fn handshake_as(self, host: &str, options: &TlsOptions) -> Handshake {
        let servers = ConnectString::parse(&format!("{host}:{}", self.address.port())).unwrap();
        let handshake = shake_hands(self.connection().await, &servers.hosts()[0], options).await;
        self.thread.join().unwrap();
        handshake
    }

    async fn handshake(self, options: &TlsOptions) -> Handshake {
        self.handshake_as("127.0.0.1", options).await
    }

    async fn connection(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

/// An authority, and a certificate that it has issued for a server on loopback.
fn authority() -> (TestingCa, TestingCertificate) {
    let ca = TestingCa::new("ours").unwrap();
    let certificate = ca.issue(&["127.0.0.1"]).unwrap();
    (ca, certificate)
}

fn trusting(ca: &TestingCa) -> TlsOptions {
    TlsOptions::from_pem(ca.pem()).unwrap()
}

#[track_caller]
fn problem(handshake: Handshake) -> TlsProblem {
    match handshake {
        Handshake::Failed(problem) => problem,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_invalid_server_certificate_is_reported_with_its_problem() {
    let ((ca, certificate), (namesake, _), now) = (authority(), authority(), SystemTime::now());
    let theirs = TestingCa::new("theirs").unwrap();
    let result = Server::of_tls(&certificate, None)
        .handshake(&trusting(&theirs))
        .await;
    assert_eq!(problem(result), TlsProblem::UnknownIssuer);
    // An authority of the same name, with another key.
    let result = problem(
        Server::of_tls(&certificate, None)
            .handshake(&trusting(&namesake))
            .await,
    );
    assert!(
        matches!(&result, TlsProblem::InvalidCertificate { reason } if reason.contains("signature")),
        "{result}"
    );
    let expired = ca
        .issue_for(&["127.0.0.1"], now - 2 * DAY..now - DAY)
        .unwrap();
    let result = problem(
        Server::of_tls(&expired, None)
            .handshake(&trusting(&ca))
            .await,
    );
    assert!(
        matches!(&result, TlsProblem::Expired { ago } if (DAY..DAY * 2).contains(ago)),
        "{result}"
    );
    let future = ca
        .issue_for(&["127.0.0.1"], now + DAY..now + 2 * DAY)
        .unwrap();
    let result = problem(
        Server::of_tls(&future, None)
            .handshake(&trusting(&ca))
            .await,
    );
    assert!(
        matches!(&result, TlsProblem::NotValidYet { after } if (DAY / 2..=DAY).contains(after)),
        "{result}"
    );
    let others = ca.issue(&["zk1.example.org", "10.0.0.1"]).unwrap();
    let result = Server::of_tls(&others, None)
        .handshake_as("localhost", &trusting(&ca))
        .await;
    let presented = vec!["zk1.example.org".to_owned(), "10.0.0.1".to_owned()];
    assert_eq!(
        problem(result),
        TlsProblem::WrongName {
            expected: "localhost".to_owned(),
            presented
        }
    );
}

#[tokio::test]
async fn a_certificate_in_the_revocation_list_is_refused() {
    let (ca, certificate) = authority();
    let revoked = ca.issue(&["127.0.0.1"]).unwrap();
    let list = ca.revocation_list(&[&revoked]).unwrap();
    let options = TlsOptions::from_pem(format!("{}{list}", ca.pem())).unwrap();
    assert_eq!(
        problem(Server::of_tls(&revoked, None).handshake(&options).await),
        TlsProblem::Revoked
    );
    let result = Server::of_tls(&certificate, None).handshake(&options).await;
    assert!(matches!(result, Handshake::Accepted), "{result:?}");
}

#[tokio::test]
async fn a_missing_or_refused_client_certificate_is_reported_and_a_good_one_accepted() {
    let (ca, certificate) = authority();
    let with = |client: TestingCertificate| {
        trusting(&ca)
            .with_identity(&client.certificate_pem, &client.key_pem)
            .unwrap()
    };
    // With TLS 1.3, the client's handshake ends before the server has checked the client's
    // certificate; with TLS 1.2, after that.
    for version in [&TLS13, &TLS12] {
        let requiring = || Server::of_version(version, &certificate, Some(&ca));
        let result = problem(requiring().handshake(&trusting(&ca)).await);
        assert!(
            matches!(result, TlsProblem::ClientCertificateRequired { .. }),
            "{result}"
        );
        let stranger = TestingCa::new("theirs")
            .unwrap()
            .issue(&["orders"])
            .unwrap();
        let result = problem(requiring().handshake(&with(stranger)).await);
        assert!(
            matches!(result, TlsProblem::ClientCertificateRefused { .. }),
            "{result}"
        );
        let result = requiring()
            .handshake(&with(ca.issue(&["orders"]).unwrap()))
            .await;
        assert!(matches!(result, Handshake::Accepted), "{result:?}");
    }
}

#[tokio::test]
async fn an_alert_about_a_name_with_an_underscore_names_that_name() {
    let (ca, _) = authority();
    // The alert `illegal_parameter`, as Java sends it.
    let refusing = || {
        Server::start(|mut tcp| {
            tcp.read_exact(&mut [0; 1]).unwrap();
            tcp.write_all(&[0x15, 3, 3, 0, 2, 2, 47]).unwrap();
            drop(tcp.read_to_end(&mut Vec::new()));
        })
    };
    let problem_of = async |host| problem(refusing().handshake_as(host, &trusting(&ca)).await);
    let refused = problem_of("zk_1").await;
    assert_eq!(
        refused.to_string(),
        "it refuses the name \"zk_1\" (alert IllegalParameter): for TLS, a name must not contain '_'; use an alias \
         without it"
    );
    assert!(refused.is_lasting());
    assert_eq!(
        problem_of("zk-1").await,
        TlsProblem::Refused {
            alert: "IllegalParameter".to_owned()
        }
    );
}

#[tokio::test]
async fn a_plain_reply_is_distinguished_from_a_closed_connection() {
    let (ca, _) = authority();
    let talks = Server::start(|mut tcp| {
        tcp.read_exact(&mut [0; 1]).unwrap();
        tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        // Reads until the client has understood the reply and closes the connection.
        drop(tcp.read_to_end(&mut Vec::new()));
    });
    assert_eq!(
        problem(talks.handshake(&trusting(&ca)).await),
        TlsProblem::NotTls
    );
    let result = Server::start(drop).handshake(&trusting(&ca)).await;
    assert!(matches!(result, Handshake::Ended), "{result:?}");
}
