//! TLS: what a client trusts and presents, and why a handshake failed.

#[cfg(feature = "tls")]
mod options;

use std::fmt;
use std::time::Duration;

#[cfg(all(feature = "tls", feature = "zookeeper-client"))]
pub(crate) use self::options::Certificates;
#[cfg(feature = "tls")]
pub use self::options::TlsOptions;
#[cfg(feature = "tls")]
pub(crate) use self::options::{CertificateRequest, HandshakeConfig};
use crate::connect_string::HostPort;
use crate::text::debug_as_text;

/// The TLS failure of one server. `Display` names the server and the problem.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsFailure {
    /// The server, as the connect string names it.
    pub server: HostPort,
    /// The problem with this server.
    pub problem: TlsProblem,
}

impl TlsFailure {
    pub(crate) fn new(server: &HostPort, problem: TlsProblem) -> Self {
        Self {
            server: server.clone(),
            problem,
        }
    }
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.server, self.problem)
    }
}

impl std::error::Error for TlsFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.problem)
    }
}

/// A TLS problem between a client and a server. In `Display`, "it" is the server.
///
/// Alerts have the names of [RFC 8446](https://www.rfc-editor.org/rfc/rfc8446#section-6), as
/// `rustls` spells them: `CertificateUnknown`. They are for people; do not rely on their spelling.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsProblem {
    /// The server's certificate was not issued by an authority that this client trusts.
    #[error("its certificate is not issued by a certificate authority that this client trusts")]
    UnknownIssuer,
    /// The server's certificate, or one that it depends on, has expired.
    #[error("its certificate expired {ago:?} ago by the clock of this machine")]
    Expired {
        /// How long ago, in whole seconds, by the clock of this machine.
        ago: Duration,
    },
    /// The server's certificate, or one that it depends on, is not valid yet.
    #[error("its certificate becomes valid in {after:?} by the clock of this machine")]
    NotValidYet {
        /// The time until it is valid, in whole seconds, by the clock of this machine.
        after: Duration,
    },
    /// The server's certificate does not contain the name in the connect string.
    #[error(
        "its certificate is for {}, and not for {expected:?}",
        names(presented)
    )]
    WrongName {
        /// The host name or address in the connect string.
        expected: String,
        /// The names and addresses in the certificate.
        presented: Vec<String>,
    },
    /// The server's certificate is in a revocation list of this client.
    #[error("its certificate is revoked")]
    Revoked,
    /// Something else is wrong with the server's certificate.
    #[error("its certificate is not accepted: {reason}")]
    InvalidCertificate {
        /// What is wrong with the certificate.
        reason: String,
    },
    /// The client uses TLS, and the server does not on this port.
    #[error("it does not speak TLS on this port")]
    NotTls,
    /// The client does not use TLS, and the server requires it on this port.
    #[error("it speaks only TLS on this port, and this client is not set up for TLS")]
    TlsRequired,
    /// The server asks for a client certificate, and ended the handshake because this client has
    /// none.
    #[error("it asks for a client certificate, and this client has none (alert {alert})")]
    ClientCertificateRequired {
        /// The server's alert.
        alert: String,
    },
    /// The server asked for a client certificate, and ended the handshake when it received this
    /// client's. The server's log contains the reason.
    #[error("it refuses the certificate of this client (alert {alert})")]
    ClientCertificateRefused {
        /// The server's alert.
        alert: String,
    },
    /// The server ended the handshake because of its name in the connect string: Java refuses a
    /// name with an underscore, such as Docker Compose creates. Use another name or an alias, which
    /// the certificate must contain.
    #[error(
        "it refuses the name {name:?} (alert {alert}): for TLS, a name must not contain '_'; use an alias without it"
    )]
    NameRefused {
        /// The host name in the connect string.
        name: String,
        /// The server's alert.
        alert: String,
    },
    /// The server ended the handshake for a reason other than a client certificate or a name:
    /// usually, there is no protocol version or cipher suite that both sides support.
    #[error("it ended the TLS handshake (alert {alert})")]
    Refused {
        /// The server's alert.
        alert: String,
    },
    /// Anything else.
    #[error("the TLS handshake failed: {reason}")]
    Other {
        /// What went wrong.
        reason: String,
    },
}

debug_as_text!(TlsFailure, TlsProblem);

impl TlsProblem {
    /// Whether the problem persists until the configuration is changed.
    pub(crate) fn is_lasting(&self) -> bool {
        // These may pass: a machine may set its clock soon after it has started, and a proxy may
        // have no server behind it yet.
        !matches!(
            self,
            Self::NotValidYet { .. } | Self::Refused { .. } | Self::Other { .. }
        )
    }
}

fn names(names: &[String]) -> String {
    if names.is_empty() {
        "no name".to_owned()
    } else {
        format!("{names:?}")
    }
}

/// All failures on one line.
pub(crate) fn listed(failures: &[TlsFailure]) -> String {
    failures
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

/// One of the texts of [`TlsOptions`](crate::TlsOptions).
#[cfg(feature = "tls")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TlsText {
    /// The certificates of the certificate authorities to trust, and their revocation lists.
    Ca,
    /// This client's certificate, and the intermediate certificates up to the authority.
    Certificate,
    /// The private key of this client's certificate.
    Key,
}

#[cfg(feature = "tls")]
impl fmt::Display for TlsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ca => "CA text",
            Self::Certificate => "client certificate",
            Self::Key => "client key",
        })
    }
}

/// Why these texts are not valid [`TlsOptions`](crate::TlsOptions). `Display` names the text and
/// what was expected; it never shows a key.
#[cfg(feature = "tls")]
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTlsOptions {
    /// A text is not valid PEM.
    #[error("the {text} is not valid PEM: {reason}")]
    Pem {
        /// The text.
        text: TlsText,
        /// What is wrong with the text.
        reason: String,
    },
    /// A text has no certificate.
    #[error("the {text} has no certificate: expected PEM with a section \"BEGIN CERTIFICATE\"")]
    NoCertificate {
        /// The text.
        text: TlsText,
    },
    /// A certificate cannot be read, or cannot be trusted.
    #[error("certificate {number} of the {text} cannot be used: {reason}")]
    Certificate {
        /// The text.
        text: TlsText,
        /// The number of the certificate in the text, from 1.
        number: usize,
        /// What is wrong with the certificate.
        reason: String,
    },
    /// A revocation list cannot be read.
    #[error("a revocation list (\"X509 CRL\") of the CA text cannot be used: {reason}")]
    RevocationList {
        /// What is wrong with the list.
        reason: String,
    },
    /// The text of the key has no private key.
    #[error(
        "the client key has no private key: expected PEM with a section \"BEGIN PRIVATE KEY\", \"BEGIN RSA PRIVATE KEY\" \
         or \"BEGIN EC PRIVATE KEY\""
    )]
    NoKey,
    /// The private key is encrypted with a password.
    #[error(
        "the client key is encrypted: expected one without a password (`openssl pkey -in encrypted.pem -out key.pem` \
         removes it)"
    )]
    EncryptedKey,
    /// The private key cannot be read, or is of a kind that is not supported.
    #[error("the client key cannot be used: {reason}")]
    Key {
        /// What is wrong with the key.
        reason: String,
    },
    /// The private key does not belong to the certificate.
    #[error(
        "the client key does not belong to the client certificate (to the first one, if it has several)"
    )]
    KeyMismatch,
    /// The process's `rustls` cryptography provider does not support TLS.
    #[error(
        "the cryptography provider that this process has installed for rustls cannot be used: {reason}"
    )]
    Provider {
        /// What is wrong with the provider.
        reason: String,
    },
}

#[cfg(feature = "tls")]
debug_as_text!(InvalidTlsOptions);
