//! Makes a separate TLS handshake with a server that rejects a client, to find out which side
//! refuses, and why.
//!
//! `zookeeper-client` logs a TLS error without returning it. So this makes a handshake with the
//! same certificates, but opens no session. Once `zookeeper-client` returns the error, this file
//! can be deleted; `port_test.rs` is still needed.

use std::io;
use std::time::Duration;

use async_net::TcpStream;
use futures_rustls::TlsConnector;
use futures_util::{AsyncReadExt as _, AsyncWriteExt as _};
use rustls::pki_types::{ServerName, UnixTime};
use rustls::{AlertDescription, CertificateError, Error as RustlsError, InvalidMessage};

use super::port_test::WORD;
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

/// The problem that has ended a TLS connection; `None` if it is not one of TLS.
pub(crate) fn tls_problem(
    error: &io::Error,
    server: &HostPort,
    config: &HandshakeConfig,
) -> Option<TlsProblem> {
    let error = error
        .get_ref()
        .and_then(|error| error.downcast_ref::<RustlsError>())?;
    Some(match error {
        RustlsError::InvalidCertificate(error) => of_certificate(error),
        RustlsError::AlertReceived(alert)
            if is_about_name(*alert) && server.host().contains('_') =>
        {
            TlsProblem::NameRefused {
                name: server.host().to_owned(),
                alert: format!("{alert:?}"),
            }
        }
        RustlsError::AlertReceived(alert) => {
            let (is_about_certificates, alert) =
                (is_about_certificates(*alert), format!("{alert:?}"));
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

fn of_certificate(error: &CertificateError) -> TlsProblem {
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

#[cfg(test)]
mod tests;
