//! The settings of a server, in ZooKeeper's terms.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

/// Lines of `zoo.cfg` and system properties of the JVM. See `server/in_process.rs` for their effect
/// on the embedded server.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) config: BTreeMap<String, String>,
    pub(crate) system: BTreeMap<String, String>,
    /// Additional options of the JVM.
    pub(crate) java: Vec<String>,
    /// The parent of the data directory; by default the system's directory for temporary files.
    pub(crate) data: Option<PathBuf>,
    /// The settings of a second port with TLS, if there is one.
    pub(crate) tls: Option<ServerTls>,
}

impl Default for Settings {
    fn default() -> Self {
        let config = [
            ("tickTime", "100"),
            // How many ticks a member may lag behind. High, so that an ensemble keeps its quorum on
            // a loaded machine.
            ("initLimit", "100"),
            ("syncLimit", "20"),
            ("maxSessionTimeout", "60000"),
            ("maxClientCnxns", "0"),
            ("admin.enableServer", "false"),
            ("4lw.commands.whitelist", "*"),
            ("extendedTypesEnabled", "true"),
        ];
        let system = [
            ("java.net.preferIPv4Stack", "true"),
            // The data need not survive a power failure.
            ("zookeeper.forceSync", "no"),
            ("zookeeper.preAllocSize", "1024"),
            // The selector threads read from and write to sockets themselves, so that a request
            // needs fewer thread switches: a server takes up to a third less processor time. In
            // exchange, it reads from fewer connections at a time.
            ("zookeeper.nio.numWorkerThreads", "0"),
            // JMX is not used.
            ("zookeeper.jmx.log4j.disable", "true"),
        ];
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Self {
            config: config.map(owned).into(),
            system: system.map(owned).into(),
            java: Vec::new(),
            data: None,
            tls: None,
        }
    }
}

impl Settings {
    pub(crate) fn set_tick_time(&mut self, tick: Duration) {
        self.config
            .insert("tickTime".to_owned(), tick.as_millis().max(1).to_string());
    }
}

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
    /// Settings for a server that presents this certificate and requests no client certificate. The
    /// certificate and the private key are PEM; the key must be in PKCS #8 and not encrypted.
    #[must_use]
    pub fn new(certificate_pem: impl Into<String>, key_pem: impl Into<String>) -> Self {
        let certificate_pem = certificate_pem.into();
        let key_pem = key_pem.into();
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
