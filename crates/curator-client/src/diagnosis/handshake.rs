//! Makes a separate TLS handshake with a server that rejects a client, to find out which side
//! refuses, and why.
//!
//! `zookeeper-client` logs a TLS error without returning it. So this file makes a handshake with
//! the same certificates, but opens no session. Once `zookeeper-client` returns the error, this
//! file can be deleted; the test of the port in `diagnosis.rs` is still needed.

use std::io;
use std::time::Duration;

use async_net::TcpStream;
use futures_rustls::TlsConnector;
use futures_util::{AsyncReadExt as _, AsyncWriteExt as _};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, Error as RustlsError, InvalidMessage};

use super::WORD;
use crate::connect_string::HostPort;
use crate::tls::{CertificateRequest, HandshakeConfig, TlsOptions, TlsProblem};

/// The result of a handshake.
#[derive(Debug)]
pub(super) enum Handshake {
    /// The server has answered the four-letter word over the connection.
    Accepted,
    Failed(TlsProblem),
    /// The connection was closed or broke without a TLS alert.
    Ended,
}

/// Makes a TLS handshake with a server over a new connection, like `zookeeper-client`.
///
/// In TLS 1.3 the client finishes its handshake before the server has seen the client's
/// certificate, or that there is none. So the server counts as accepting the client only when it
/// has answered a request.
pub(super) async fn shake_hands(
    stream: TcpStream,
    server: &HostPort,
    options: &TlsOptions,
) -> Handshake {
    let other = |reason: String| Handshake::Failed(TlsProblem::Other { reason });
    let Ok(name) = ServerName::try_from(server.host().to_owned()) else {
        return other(format!(
            "{:?} cannot be the name of a server in a certificate",
            server.host()
        ));
    };
    let config = match options.current().handshake_config() {
        Ok(config) => config,
        Err(error) => return other(error.to_string()),
    };
    let mut stream = match TlsConnector::from(config.config.clone())
        .connect(name, stream)
        .await
    {
        Ok(stream) => stream,
        Err(error) => return failed(&error, server, &config),
    };
    // Errors are ignored: a server that refuses the client may have closed the connection, and the
    // read below returns the alert that it sent before.
    drop(stream.write_all(WORD).await);
    drop(stream.flush().await);
    match stream.read(&mut [0; 64]).await {
        Ok(1..) => Handshake::Accepted,
        Ok(0) => Handshake::Ended,
        Err(error) => failed(&error, server, &config),
    }
}

fn failed(error: &io::Error, server: &HostPort, config: &HandshakeConfig) -> Handshake {
    tls_problem(error, server, config).map_or(Handshake::Ended, Handshake::Failed)
}

/// The problem that has ended a TLS connection; `None` if the error is not a TLS error.
pub(crate) fn tls_problem(
    error: &io::Error,
    server: &HostPort,
    config: &HandshakeConfig,
) -> Option<TlsProblem> {
    let error = error
        .get_ref()
        .and_then(|error| error.downcast_ref::<RustlsError>())?;
    Some(match error {
        RustlsError::InvalidCertificate(error) => certificate_problem(error),
        RustlsError::AlertReceived(alert)
            if is_about_name(*alert) && server.host().contains('_') =>
        {
            TlsProblem::NameRefused {
                name: server.host().to_owned(),
                alert: format!("{alert:?}"),
            }
        }
        RustlsError::AlertReceived(alert) => {
            let is_about_certificates = is_about_certificates(*alert);
            let alert = format!("{alert:?}");
            match config.certificate_request() {
                CertificateRequest::Presented if is_about_certificates => {
                    TlsProblem::ClientCertificateRefused { alert }
                }
                CertificateRequest::WithoutIdentity if is_about_certificates => {
                    TlsProblem::ClientCertificateRequired { alert }
                }
                CertificateRequest::WithoutSignature if is_about_certificates => {
                    TlsProblem::Other {
                        reason: format!(
                            "it asks for a client certificate, and supports no signature that this client's key can make \
                         (alert {alert})"
                        ),
                    }
                }
                _ => TlsProblem::Refused { alert },
            }
        }
        // The first bytes of the reply are not TLS.
        RustlsError::InvalidMessage(
            InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion,
        ) => TlsProblem::NotTls,
        error => TlsProblem::Other {
            reason: error.to_string(),
        },
    })
}

/// Whether a server may send this alert because of the server name indication. Java's `SNIHostName`
/// accepts only letters, digits, hyphens and dots; `rustls` also sends a name with an underscore.
fn is_about_name(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::IllegalParameter | AlertDescription::UnrecognisedName
    )
}

/// Whether a server that requested a certificate may send this alert because of the client's
/// certificate.
fn is_about_certificates(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::NoCertificate
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::CertificateRequired
            // The alert of TLS 1.2 for a missing certificate.
            | AlertDescription::HandshakeFailure
    )
}

fn certificate_problem(error: &CertificateError) -> TlsProblem {
    match error {
        CertificateError::UnknownIssuer => TlsProblem::UnknownIssuer,
        CertificateError::ExpiredContext { time, not_after } => TlsProblem::Expired {
            ago: between(*not_after, *time),
        },
        CertificateError::NotValidYetContext { time, not_before } => TlsProblem::NotValidYet {
            after: between(*time, *not_before),
        },
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => TlsProblem::WrongName {
            expected: expected.to_str().into_owned(),
            presented: presented.iter().map(|name| plain(name)).collect(),
        },
        CertificateError::Revoked => TlsProblem::Revoked,
        // For example after an authority has changed its key and kept its name.
        CertificateError::BadSignature => TlsProblem::InvalidCertificate {
            reason: "a signature was not made with the expected key".to_owned(),
        },
        error => TlsProblem::InvalidCertificate {
            reason: error.to_string(),
        },
    }
}

fn between(earlier: UnixTime, later: UnixTime) -> Duration {
    Duration::from_secs(later.as_secs().saturating_sub(earlier.as_secs()))
}

/// `zk1` from `DnsName("zk1")`, the format of `rustls`.
fn plain(name: &str) -> String {
    let inner = name
        .split_once('(')
        .and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"').to_owned()
}

/// Handshakes with a `rustls` server, and with servers that do not speak TLS.
#[cfg(test)]
mod tests {
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
        fn with_tls(certificate: &TestingCertificate, client_ca: Option<&TestingCa>) -> Self {
            Self::with_version(&TLS13, certificate, client_ca)
        }

        fn with_version(
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
                    let verifier =
                        WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                    config
                        .unwrap()
                        .with_client_cert_verifier(verifier.build().unwrap())
                }
            };
            let chain = vec![
                CertificateDer::from_pem_slice(certificate.certificate_pem.as_bytes()).unwrap(),
            ];
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

        /// The result of a handshake of a client that expects the host name `host`.
        async fn handshake_as(self, host: &str, options: &TlsOptions) -> Handshake {
            let servers = ConnectString::parse(&format!("{host}:{}", self.address.port())).unwrap();
            let handshake =
                shake_hands(self.connection().await, &servers.hosts()[0], options).await;
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
        let (ca, certificate) = authority();
        let (namesake, _) = authority();
        let now = SystemTime::now();
        let theirs = TestingCa::new("theirs").unwrap();
        let result = Server::with_tls(&certificate, None)
            .handshake(&trusting(&theirs))
            .await;
        assert_eq!(problem(result), TlsProblem::UnknownIssuer);
        // An authority with the same name and another key.
        let result = problem(
            Server::with_tls(&certificate, None)
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
            Server::with_tls(&expired, None)
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
            Server::with_tls(&future, None)
                .handshake(&trusting(&ca))
                .await,
        );
        assert!(
            matches!(&result, TlsProblem::NotValidYet { after } if (DAY / 2..=DAY).contains(after)),
            "{result}"
        );
        let others = ca.issue(&["zk1.example.org", "10.0.0.1"]).unwrap();
        let result = Server::with_tls(&others, None)
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
            problem(Server::with_tls(&revoked, None).handshake(&options).await),
            TlsProblem::Revoked
        );
        let result = Server::with_tls(&certificate, None)
            .handshake(&options)
            .await;
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
            let requiring = || Server::with_version(version, &certificate, Some(&ca));
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
}
