//! How a server speaks TLS.

use std::fmt;

/// What a server does about the certificates of its clients: ZooKeeper's `ssl.clientAuth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientAuth {
    /// It does not ask for any.
    None,
    /// It asks for one. A client may have none; what it has must be valid.
    Want,
    /// It asks for one, and refuses clients that have none.
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

/// How a real server speaks TLS, for [`TestingServerBuilder::tls`](crate::TestingServerBuilder::tls).
///
/// The server runs with Netty (`serverCnxnFactory`) and has a `secureClientPort`, a key store and a trust store in PEM. Further
/// settings, such as `ssl.enabledProtocols`, are properties of the builder.
#[derive(Clone)]
pub struct ServerTls {
    pub(crate) certificate_pem: String,
    pub(crate) key_pem: String,
    pub(crate) client_auth: ClientAuth,
    /// Who issues the certificates of clients.
    pub(crate) ca_pem: Option<String>,
}

impl ServerTls {
    /// Presents this certificate, whose private key must be in PKCS #8 and not encrypted; both are PEM. Asks for no client
    /// certificate.
    #[must_use]
    pub fn new(certificate_pem: impl Into<String>, key_pem: impl Into<String>) -> Self {
        let (certificate_pem, key_pem) = (certificate_pem.into(), key_pem.into());
        Self { certificate_pem, key_pem, client_auth: ClientAuth::None, ca_pem: None }
    }

    /// Asks clients for certificates that one of these certificate authorities has issued.
    #[must_use]
    pub fn client_auth(mut self, client_auth: ClientAuth, ca_pem: impl Into<String>) -> Self {
        self.client_auth = client_auth;
        self.ca_pem = Some(ca_pem.into());
        self
    }
}

/// No key.
impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("client_auth", &self.client_auth).finish_non_exhaustive()
    }
}
