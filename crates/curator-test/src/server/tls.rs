//! A server's TLS settings.

use std::fmt;

/// Whether a server requests client certificates: ZooKeeper's `ssl.clientAuth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientAuth {
    /// Requests none.
    None,
    /// Requests a certificate. A client may send none; a certificate that it sends must be valid.
    Want,
    /// Requests a certificate, and refuses clients without one.
    Need,
}

impl ClientAuth {
    /// The value of the property.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Want => "want",
            Self::Need => "need",
        }
    }
}

/// TLS settings of a real server, for
/// [`TestingServerBuilder::tls`](crate::TestingServerBuilder::tls).
///
/// The server runs with Netty (`serverCnxnFactory`) and has a `secureClientPort`, a key store and a
/// trust store in PEM. Further settings, such as `ssl.enabledProtocols`, are properties of the
/// builder.
#[derive(Clone)]
pub struct ServerTls {
    pub(crate) certificate_pem: String,
    pub(crate) key_pem: String,
    pub(crate) client_auth: ClientAuth,
    /// The certificate authority of the clients.
    pub(crate) ca_pem: Option<String>,
}

impl ServerTls {
    /// Presents this certificate. The private key must be in PKCS #8 and not encrypted; both are
    /// PEM. Requests no client certificate.
    #[must_use]
    pub fn new(certificate_pem: impl Into<String>, key_pem: impl Into<String>) -> Self {
        let (certificate_pem, key_pem) = (certificate_pem.into(), key_pem.into());
        Self {
            certificate_pem,
            key_pem,
            client_auth: ClientAuth::None,
            ca_pem: None,
        }
    }

    /// Requests client certificates issued by these certificate authorities.
    #[must_use]
    pub fn client_auth(mut self, client_auth: ClientAuth, ca_pem: impl Into<String>) -> Self {
        self.client_auth = client_auth;
        self.ca_pem = Some(ca_pem.into());
        self
    }
}

/// Omits the key.
impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls")
            .field("client_auth", &self.client_auth)
            .finish_non_exhaustive()
    }
}
