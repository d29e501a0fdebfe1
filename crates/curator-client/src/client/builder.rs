//! The client's configuration: set by methods, or read from a file (`serde`), and checked when the
//! client starts.

mod validate;

use std::sync::Arc;
use std::time::Duration;

pub(super) use self::validate::ValidOptions;
use crate::acl::{Acl, AclProvider};
use crate::ensemble::EnsembleTracker;
use crate::options::Credentials;
#[cfg(feature = "native")]
use crate::options::Transport;
#[cfg(feature = "serde")]
use crate::retry_policy::ConfiguredRetryPolicy;
use crate::retry_policy::RetryPolicy;
#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
use crate::sasl::SaslOptions;
#[cfg(feature = "simulation")]
use crate::simulation::Network;
#[cfg(feature = "serde")]
use crate::text::DurationText;
use crate::text::Hidden;
#[cfg(feature = "tls")]
use crate::tls::TlsOptions;

/// Configures and starts a [`CuratorClient`](crate::CuratorClient): [`connect`](Self::connect)
/// waits for its first session, [`start`](Self::start) does not.
///
/// With the feature `serde`, it can be read from a configuration file. The fields have the names of
/// the methods; all but `connect_string` are optional, durations are text with a unit, and
/// `retry_policy` is a `ConfiguredRetryPolicy`. A file cannot contain authorization, SASL, TLS,
/// ACLs or the default lock data: call the methods for these.
///
#[cfg_attr(feature = "serde", doc = "```no_run")]
#[cfg_attr(not(feature = "serde"), doc = "```text")]
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use curator_client::CuratorClientBuilder;
///
/// let builder: CuratorClientBuilder = toml::from_str(
///     "connect_string = 'zk1:2181,zk2:2181/shop'
///      session_timeout = '10s'
///      retry_policy = { type = 'exponential-backoff', base_sleep = '100ms', max_retries = 3 }",
/// )?;
/// let client = builder.authorization("digest", "orders:secret").connect().await?;
/// # client.close().await?;
/// # Ok(())
/// # }
/// ```
///
/// After Curator's `CuratorFrameworkFactory.Builder`, with the same default session and connection
/// timeouts.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(from = "Fields"))]
#[must_use = "nothing happens before `start`, or before `connect` is awaited"]
pub struct CuratorClientBuilder {
    name: Option<String>,
    connect_string: String,
    ensemble_tracker: EnsembleTracker,
    session_timeout: Duration,
    connection_timeout: Duration,
    close_timeout: Duration,
    operation_timeout: Option<Duration>,
    max_request_size: usize,
    max_requests_in_flight: usize,
    retry_policy: Option<Arc<dyn RetryPolicy>>,
    namespace: Option<String>,
    default_acl: Option<Arc<[Acl]>>,
    acl_provider: Option<Arc<dyn AclProvider>>,
    auth: Vec<Credentials>,
    #[cfg(feature = "tls")]
    tls: Option<TlsOptions>,
    #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
    sasl: Option<SaslOptions>,
    lock_data: Option<Hidden>,
    #[cfg(feature = "simulation")]
    network: Option<Arc<dyn Network>>,
    #[cfg(feature = "native")]
    transport: Transport,
}

/// ZooKeeper's default `jute.maxbuffer`.
const JUTE_MAXBUFFER: usize = 0xf_ffff;

impl CuratorClientBuilder {
    pub(super) fn new(connect_string: String) -> Self {
        Self {
            name: None,
            connect_string,
            ensemble_tracker: EnsembleTracker::default(),
            session_timeout: Duration::from_secs(60),
            connection_timeout: Duration::from_secs(15),
            close_timeout: Duration::from_secs(5),
            operation_timeout: None,
            max_request_size: JUTE_MAXBUFFER,
            max_requests_in_flight: 10_000,
            retry_policy: None,
            namespace: None,
            default_acl: None,
            acl_provider: None,
            auth: Vec::new(),
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
            sasl: None,
            lock_data: None,
            #[cfg(feature = "simulation")]
            network: None,
            #[cfg(feature = "native")]
            transport: Transport::default(),
        }
    }

    /// Connects through `network` instead of sockets. Defaults to the network that the thread has
    /// [entered](crate::simulation::enter) when the client is started, if there is one.
    #[cfg(feature = "simulation")]
    #[cfg_attr(docsrs, doc(cfg(feature = "simulation")))]
    pub fn network(mut self, network: Arc<dyn Network>) -> Self {
        self.network = Some(network);
        self
    }

    /// Sets the client's name: the field `client` of all its log events, and the label of its
    /// metrics. From 1 to 100 characters, without control characters. Defaults to `client-1`,
    /// `client-2` and so on, unique in the process; the metrics of a client with such a default
    /// name have no label.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets whether the client follows the configuration of an ensemble that `reconfig` changes. By
    /// default, it does if the configuration names the server that the client is connected to. Then
    /// the client connects to any member of the ensemble, *even if the connect string names only
    /// some of them*.
    ///
    /// Set [`Never`](EnsembleTracker::Never)
    ///
    /// - if the client must use only the servers of its connect string: those in its data center,
    ///   or observers;
    /// - if the addresses in the ensemble's configuration reach another ensemble from this client's
    ///   network, because that ensemble would end the client's sessions;
    /// - if the client connects to a ClickHouse Keeper that was converted from a ZooKeeper, over
    ///   `zookeeper-client`, because the Keeper serves the configuration of the old ensemble, and
    ///   the client does not recognize the Keeper.
    pub fn ensemble_tracker(mut self, tracker: EnsembleTracker) -> Self {
        self.ensemble_tracker = tracker;
        self
    }

    /// Sets the session timeout: the server expires the session when it hears nothing from the
    /// client for this long. From 100 ms to a day. Defaults to 60 s.
    ///
    /// The server may grant another timeout (usually between 2 and 20 of its ticks).
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// Sets how long an attempt of an operation waits for a connection when there is none. After
    /// that, the retry policy decides whether there is another attempt. [`connect`](Self::connect)
    /// waits in the same way. From 1 ms to a day. Defaults to 15 s.
    ///
    /// In an attempt to open a session, the servers are tried one after another. Each gets the
    /// *base share*: the connection timeout divided by the number of servers of the connect string,
    /// but at most 2/5 of the configured [session timeout](Self::session_timeout). So all of them
    /// together get no more than the connection timeout.
    ///
    /// If the client also tries the members of an ensemble that it
    /// [follows](Self::ensemble_tracker), the connection timeout is divided by the number of all
    /// these servers, but each gets at least a second, or the base share if that is shorter. After
    /// attempts in which no server was reached in time, the time of each server grows up to the
    /// base share.
    ///
    /// A connection counts as broken when nothing arrives for as long as the base share. If the
    /// base share exceeds 3/5 of the granted session timeout, the limit is 2/5 of the granted
    /// timeout instead.
    pub fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.connection_timeout = timeout;
        self
    }

    /// Limits how long [`CuratorClient::close`](crate::CuratorClient::close) waits: once for
    /// pending deletes, and once for the server. From 1 ms to a day. Defaults to 5 s.
    pub fn close_timeout(mut self, timeout: Duration) -> Self {
        self.close_timeout = timeout;
        self
    }

    /// Sets how long one request waits for its reply. From 1 ms to a day. Defaults to the session
    /// timeout, configured or granted, whichever is shorter.
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.operation_timeout = Some(timeout);
        self
    }

    /// Sets the size of the largest request in bytes: the server's `jute.maxbuffer`. The client
    /// refuses larger requests, because the server would close the connection. At least 1024.
    /// Defaults to 1,048,575, as in ZooKeeper.
    pub fn max_request_size(mut self, bytes: usize) -> Self {
        self.max_request_size = bytes;
        self
    }

    /// Sets the maximum number of requests in flight. At least 16. Defaults to 10,000.
    pub fn max_requests_in_flight(mut self, requests: usize) -> Self {
        self.max_requests_in_flight = requests;
        self
    }

    /// Sets the policy for retries of failed operations, including [`connect`](Self::connect).
    /// Defaults to `ExponentialBackoffRetry` with a base of 100 ms and 3 retries.
    /// [`using_retry_policy`](crate::CuratorClient::using_retry_policy) sets another policy for a
    /// single lock or recipe.
    pub fn retry_policy(mut self, policy: impl RetryPolicy) -> Self {
        self.retry_policy = Some(Arc::new(policy));
        self
    }

    /// Sets a namespace, which is prepended to every path and created on first use: with `orders`,
    /// `/locks` is `/orders/locks` on the server. The namespace is below the connect string's
    /// chroot, if there is one.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the ACL of nodes that are created without one. By default, every client has all
    /// permissions.
    pub fn default_acl(mut self, acl: impl Into<Arc<[Acl]>>) -> Self {
        self.default_acl = Some(acl.into());
        self.acl_provider = None;
        self
    }

    /// Sets the ACLs of nodes that are created without one, by path. Of this and
    /// [`default_acl`](Self::default_acl), only the last call has an effect.
    pub fn acl_provider(mut self, provider: impl AclProvider) -> Self {
        self.default_acl = None;
        self.acl_provider = Some(Arc::new(provider));
        self
    }

    /// Adds credentials to every session of this client, for example `("digest", "user:password")`.
    /// Can be called more than once.
    pub fn authorization(mut self, scheme: impl Into<String>, auth: impl Into<Vec<u8>>) -> Self {
        self.auth.push(Credentials {
            scheme: scheme.into(),
            auth: auth.into(),
        });
        self
    }

    /// Connects to every server of the connect string over TLS only, like
    /// `zookeeper.client.secure=true` in Java. The ports in the connect string are then the
    /// servers' `secureClientPort`s. By default, connections are plain.
    ///
    /// Needs the feature `tls`. If TLS fails with all servers, [`connect`](Self::connect) returns
    /// [`Error::TlsFailed`](crate::Error::TlsFailed) with the reasons; a client that was
    /// [started](Self::start) keeps trying, and its [health](crate::CuratorClient::health) and log
    /// contain the reasons. If TLS fails with only some servers, the client uses the others.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.tls = Some(options);
        self
    }

    /// Authenticates every connection of this client with SASL. Needs the feature `sasl-digest-md5`
    /// or `sasl-gssapi`.
    ///
    /// If a server refuses the credentials, or accepts the client as anonymous,
    /// [`connect`](Self::connect) returns [`Error::ConnectRefused`](crate::Error::ConnectRefused).
    #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
    pub fn sasl(mut self, options: SaslOptions) -> Self {
        self.sasl = Some(options);
        self
    }

    /// Sets which implementation of ZooKeeper's protocol the client uses. Defaults to
    /// `Transport::ZookeeperClient` if the feature `zookeeper-client` is enabled.
    #[cfg(feature = "native")]
    #[cfg_attr(docsrs, doc(cfg(feature = "native")))]
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Sets the data of lock nodes that are created without data. Defaults to this machine's
    /// address, as in Curator: the local address of the route to the first session's server.
    pub fn default_lock_data(mut self, data: impl Into<Arc<[u8]>>) -> Self {
        self.lock_data = Some(Hidden(data.into()));
        self
    }
}

/// The options that a file can contain: numbers, durations, names, and the retry policy.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "the options of a client: a table with the field `connect_string`"
)]
struct Fields {
    connect_string: String,
    name: Option<String>,
    namespace: Option<String>,
    session_timeout: Option<DurationText>,
    connection_timeout: Option<DurationText>,
    close_timeout: Option<DurationText>,
    operation_timeout: Option<DurationText>,
    max_request_size: Option<usize>,
    max_requests_in_flight: Option<usize>,
    retry_policy: Option<ConfiguredRetryPolicy>,
    ensemble_tracker: Option<EnsembleTracker>,
    #[cfg(feature = "native")]
    transport: Option<Transport>,
}

#[cfg(feature = "serde")]
impl From<Fields> for CuratorClientBuilder {
    fn from(fields: Fields) -> Self {
        let mut builder = Self::new(fields.connect_string);
        macro_rules! set {
            ($($option:ident $(. $part:tt)?),*) => {
                $(if let Some(value) = fields.$option {
                    builder = builder.$option(value $(. $part)?);
                })*
            };
        }
        set!(
            name,
            namespace,
            max_request_size,
            max_requests_in_flight,
            retry_policy,
            ensemble_tracker
        );
        set!(
            session_timeout.0,
            connection_timeout.0,
            close_timeout.0,
            operation_timeout.0
        );
        #[cfg(feature = "native")]
        set!(transport);
        builder
    }
}

#[cfg(test)]
#[cfg(feature = "serde")]
mod tests {
    use super::*;
    use crate::error::Error;

    fn options_of(file: &str) -> String {
        format!(
            "{:?}",
            toml::from_str::<CuratorClientBuilder>(file).unwrap()
        )
    }

    #[test]
    fn a_configuration_file_sets_the_same_options_as_the_builder_methods() {
        let file = "
            connect_string = 'zk1:2181,zk2:2181/shop'
            name = 'orders'
            namespace = 'stock'
            session_timeout = '10s'
            connection_timeout = '3s'
            close_timeout = '1s 500ms'
            operation_timeout = '4s'
            max_request_size = 4096
            max_requests_in_flight = 100
            retry_policy = { type = 'forever', interval = '1s' }
            ensemble_tracker = 'always'
            transport = 'native'
        ";
        let policy: ConfiguredRetryPolicy =
            toml::from_str("type = 'forever'\ninterval = '1s'").unwrap();
        let builder = CuratorClientBuilder::new("zk1:2181,zk2:2181/shop".to_owned())
            .name("orders")
            .namespace("stock")
            .session_timeout(Duration::from_secs(10))
            .connection_timeout(Duration::from_secs(3))
            .close_timeout(Duration::from_millis(1_500))
            .operation_timeout(Duration::from_secs(4))
            .max_request_size(4_096)
            .max_requests_in_flight(100)
            .retry_policy(policy)
            .ensemble_tracker(EnsembleTracker::Always)
            .transport(Transport::Native);
        assert_eq!(options_of(file), format!("{builder:?}"));
        let default = CuratorClientBuilder::new("zk1:2181".to_owned());
        assert_eq!(
            options_of("connect_string = 'zk1:2181'"),
            format!("{default:?}")
        );
    }

    #[test]
    fn an_invalid_configuration_file_is_refused_with_the_reason() {
        for (file, reason) in [
            (
                "connect_string = 'zk1'\nsession_timeout = 10",
                "invalid type: integer `10`, expected a duration",
            ),
            (
                "connect_string = 'zk1'\nsessionTimeout = '10s'",
                "unknown field `sessionTimeout`, expected one of",
            ),
        ] {
            let error = toml::from_str::<CuratorClientBuilder>(file)
                .unwrap_err()
                .to_string();
            assert!(error.contains(reason), "{file}: {error}");
        }
        let builder: CuratorClientBuilder =
            toml::from_str("connect_string = 'zk1:2181'\nsession_timeout = '1ms'").unwrap();
        // The value is checked when the client starts, like a value that the builder's method has
        // set.
        assert!(matches!(
            builder.start(),
            Err(Error::InvalidOption {
                option: "session timeout",
                ..
            })
        ));
    }
}
