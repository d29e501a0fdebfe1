//! The options of a client's sessions, validated by the builder, and the default data of lock
//! nodes.

mod share;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub(crate) use self::share::ServerShare;
use crate::connect_string::{ConnectString, HostPort};
use crate::error::Error;
#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
use crate::sasl::SaslOptions;
use crate::server_operations::ServerOperations;
use crate::text::debug_line;
#[cfg(feature = "tls")]
use crate::tls::TlsOptions;

/// The options of a client's sessions and requests.
#[derive(Debug, Clone)]
pub(crate) struct SessionOptions {
    /// The client's name, for the log.
    pub(crate) name: Arc<str>,
    /// The label `client` of the metrics: the name that the user gave, if any.
    pub(crate) metrics_name: Option<Arc<str>>,
    /// As given by the user; used in errors.
    pub(crate) connect_string: String,
    pub(crate) servers: ConnectString,
    /// The only address to connect to, in place of those of the servers' names.
    pub(crate) only_address: Option<SocketAddr>,
    /// The simulated network through which the client connects, if it was started in a simulation.
    #[cfg(feature = "simulation")]
    pub(crate) network: Option<Arc<dyn crate::simulation::Network>>,
    #[cfg(feature = "native")]
    pub(crate) transport: Transport,
    pub(crate) auth: Vec<Credentials>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsOptions>,
    #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
    pub(crate) sasl: Option<SaslOptions>,
    pub(crate) session_timeout: Duration,
    /// Limits the time that an attempt of an operation waits for a connection, and the first pass
    /// over the servers of the connect string that opens a session.
    pub(crate) connection_timeout: Duration,
    /// Limits how long a closing client waits for the janitor, and then again for the server.
    pub(crate) close_timeout: Duration,
    /// How long a request waits for its reply; `None` means the session timeout, configured or
    /// granted, whichever is shorter.
    pub(crate) operation_timeout: Option<Duration>,
    /// The largest request in bytes.
    pub(crate) max_request_size: usize,
    /// The maximum number of requests in flight.
    pub(crate) max_requests_in_flight: usize,
    /// What is known of the operations of the servers, for all sessions of the client.
    pub(crate) server_operations: Arc<ServerOperations>,
}

impl SessionOptions {
    /// Options with very long timeouts.
    #[cfg(test)]
    pub(crate) fn with_long_timeouts(name: &str, servers: &str) -> Self {
        const HOUR: Duration = Duration::from_secs(3_600);
        Self {
            name: name.into(),
            metrics_name: None,
            connect_string: servers.to_owned(),
            servers: ConnectString::parse(servers).unwrap(),
            only_address: None,
            #[cfg(feature = "simulation")]
            network: None,
            #[cfg(feature = "native")]
            transport: Transport::default(),
            auth: Vec::new(),
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
            sasl: None,
            session_timeout: HOUR,
            connection_timeout: HOUR,
            close_timeout: HOUR,
            operation_timeout: None,
            max_request_size: 1_024,
            max_requests_in_flight: 16,
            server_operations: Arc::default(),
        }
    }

    /// The options of a short session with `server` at `address`, if that is known: the name may
    /// have the addresses of several servers.
    pub(crate) fn short_session(&self, server: &HostPort, address: Option<SocketAddr>) -> Self {
        /// The shortest timeout that ClickHouse Keeper and `RaftKeeper` grant by default.
        const TIMEOUT: Duration = Duration::from_secs(10);
        Self {
            servers: ConnectString::only(server),
            only_address: address,
            session_timeout: self.session_timeout.min(TIMEOUT),
            ..self.clone()
        }
    }

    /// Whether the client connects with `Transport::Native`. A simulated network takes precedence.
    #[cfg(any(
        feature = "native",
        feature = "sasl-digest-md5",
        feature = "sasl-gssapi"
    ))]
    pub(crate) fn is_native(&self) -> bool {
        #[cfg(feature = "simulation")]
        if self.network.is_some() {
            return false;
        }
        #[cfg(feature = "native")]
        {
            self.transport == Transport::Native
        }
        #[cfg(not(feature = "native"))]
        {
            false
        }
    }

    /// Whether the client connects with `zookeeper-client`.
    pub(crate) fn uses_zookeeper_client(&self) -> bool {
        #[cfg(feature = "simulation")]
        if self.network.is_some() {
            return false;
        }
        #[cfg(all(feature = "native", feature = "zookeeper-client"))]
        {
            self.transport == Transport::ZookeeperClient
        }
        #[cfg(not(all(feature = "native", feature = "zookeeper-client")))]
        {
            cfg!(feature = "zookeeper-client")
        }
    }

    /// The name of the client's transport, for the log, written as in a configuration file.
    pub(crate) fn transport_name(&self) -> &'static str {
        #[cfg(feature = "simulation")]
        if self.network.is_some() {
            return "simulation";
        }
        #[cfg(feature = "native")]
        if self.is_native() {
            return "native";
        }
        "zookeeper-client"
    }

    /// Whether the connections use TLS.
    pub(crate) fn uses_tls(&self) -> bool {
        #[cfg(feature = "tls")]
        {
            self.tls.is_some()
        }
        #[cfg(not(feature = "tls"))]
        {
            false
        }
    }

    /// Whether the client authenticates with SASL. If so, the first probe of each connection
    /// verifies that the server has not accepted the client as anonymous.
    pub(crate) fn uses_sasl(&self) -> bool {
        #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
        {
            self.sasl.is_some()
        }
        #[cfg(not(any(feature = "sasl-digest-md5", feature = "sasl-gssapi")))]
        {
            false
        }
    }

    /// The error for a call that found no connection within `after`, because of `cause`.
    pub(crate) fn not_connected(&self, after: Duration, cause: String) -> Error {
        Error::NotConnected {
            connect_string: self.connect_string.clone(),
            after,
            cause,
        }
    }
}

/// The implementation of ZooKeeper's protocol that a client uses.
///
/// The default is `ZookeeperClient` if any package of the whole program enables the feature
/// `zookeeper-client`, and `Native` otherwise. A program that relies on a property of one
/// transport, such as the authentication of the server over SASL, should select it explicitly.
#[cfg(feature = "native")]
#[cfg_attr(docsrs, doc(cfg(feature = "native")))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum Transport {
    /// The crate `zookeeper-client`.
    #[cfg(feature = "zookeeper-client")]
    #[cfg_attr(docsrs, doc(cfg(feature = "zookeeper-client")))]
    #[default]
    ZookeeperClient,
    /// This crate's own code, on the client's runtime. It needs a runtime with I/O.
    #[cfg_attr(not(feature = "zookeeper-client"), default)]
    Native,
}

/// The credentials of a session. The `Debug` output does not show the secret.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) scheme: String,
    pub(crate) auth: Vec<u8>,
}

debug_line!(Credentials, |this| scheme: this.scheme);

/// The default data of lock nodes: the data set in the builder, or else this machine's address.
///
/// The address is known once the client has its first session.
#[derive(Debug)]
pub(crate) struct LockData {
    known: OnceLock<Arc<[u8]>>,
    /// Returned while the address is not known.
    empty: Arc<[u8]>,
}

impl LockData {
    pub(crate) fn new(given: Option<Arc<[u8]>>) -> Self {
        let known = given.map(OnceLock::from).unwrap_or_default();
        Self {
            known,
            empty: Arc::from([]),
        }
    }

    /// Empty while the address is unknown.
    pub(crate) fn get(&self) -> &Arc<[u8]> {
        self.known.get().unwrap_or(&self.empty)
    }

    /// Finds the local address of the route to `server`, unless data was given or found before.
    pub(crate) fn find_out(&self, server: SocketAddr) {
        if self.known.get().is_none()
            && let Ok(address) = address_towards(server)
        {
            // Only the supervisor calls this, so no other thread has set the data meanwhile.
            let _ = self.known.set(address.to_string().into_bytes().into());
        }
    }
}

/// Returns the local address of the route to `server`. Sends nothing: connecting a datagram socket
/// only looks up the route.
#[expect(clippy::disallowed_methods, reason = "outside of a simulation")]
fn address_towards(server: SocketAddr) -> std::io::Result<IpAddr> {
    let unspecified: IpAddr = if server.is_ipv4() {
        [0; 4].into()
    } else {
        [0; 16].into()
    };
    let socket = UdpSocket::bind((unspecified, 0))?;
    socket.connect(server)?;
    Ok(socket.local_addr()?.ip())
}
