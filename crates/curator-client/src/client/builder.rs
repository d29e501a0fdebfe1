//! The client's configuration, checked when the client starts.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::in_namespace;
use crate::acl::{Acl, AclProvider, Acls, AuthId, Permission};
use crate::connect_string::ConnectString;
use crate::error::{Error, Result};
#[cfg(feature = "native")]
use crate::options::Transport;
use crate::options::{Credentials, SessionOptions};
use crate::path::ZPath;
use crate::retry_policy::{ExponentialBackoffRetry, RetryPolicy};
#[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
use crate::sasl::SaslOptions;
#[cfg(feature = "simulation")]
use crate::simulation::{self, Network};
use crate::text::Hidden;
#[cfg(feature = "tls")]
use crate::tls::TlsOptions;

/// Configures and starts a [`CuratorClient`](crate::CuratorClient): [`connect`](Self::connect)
/// waits for its first session, [`start`](Self::start) does not.
///
/// With the feature `serde`, it can be read from a configuration file. The fields have the names of
/// the methods; all but `connect_string` are optional, durations are text with a unit, and
/// `retry_policy` is a `ConfiguredRetryPolicy`. The file does not contain authorization, SASL, TLS,
/// ACLs and the default lock data: call the methods for these.
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
/// After Curator's `CuratorFrameworkFactory.Builder`, with its default timeouts of sessions and connections.
#[derive(Debug, Clone)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Deserialize),
    serde(from = "super::configured::Fields")
)]
#[must_use = "nothing happens before `start`, or before `connect` is awaited"]
pub struct CuratorClientBuilder {
    name: Option<String>,
    connect_string: String,
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

/// The accepted timeouts.
const TIMEOUTS: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(60 * 60 * 24);
/// The accepted session timeouts. Under 100 ms, the lease would be shorter than an ordinary pause
/// of a process.
const SESSION_TIMEOUTS: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(60 * 60 * 24);
/// ZooKeeper's default `jute.maxbuffer`.
const JUTE_MAXBUFFER: usize = 0xf_ffff;

impl CuratorClientBuilder {
    pub(super) fn new(connect_string: String) -> Self {
        Self {
            name: None,
            connect_string,
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

    /// Connects through `network` in place of sockets. Defaults to the network that the thread has
    /// [entered](crate::simulation::enter) when the client is started, if there is one.
    #[cfg(feature = "simulation")]
    #[cfg_attr(docsrs, doc(cfg(feature = "simulation")))]
    pub fn network(mut self, network: Arc<dyn Network>) -> Self {
        self.network = Some(network);
        self
    }

    /// Sets the client's name: the field `client` of all its log events, and the label of its
    /// metrics, which is left out without a name. From 1 to 100 characters. Defaults to `client-1`,
    /// `client-2` and so on: unique in the process.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
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
    /// The connection timeout also limits an attempt to open a session; each server gets an equal
    /// share of it. A connection counts as broken when nothing arrives for as long as one server's
    /// share or 2/5 of the configured [session timeout](Self::session_timeout), whichever is
    /// shorter. If that limit exceeds 3/5 of the granted session timeout, it is 2/5 of the granted
    /// timeout instead.
    pub fn connection_timeout(mut self, timeout: Duration) -> Self {
        self.connection_timeout = timeout;
        self
    }

    /// Limits how long [`CuratorClient::close`](crate::CuratorClient::close) waits for pending
    /// deletes, and then for the server. From 1 ms to a day. Defaults to 5 s.
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
    /// refuses larger requests, because the server would close the connection. Defaults to
    /// 1,048,575, as in ZooKeeper.
    pub fn max_request_size(mut self, bytes: usize) -> Self {
        self.max_request_size = bytes;
        self
    }

    /// Sets the maximum number of requests in flight. Defaults to 10,000.
    pub fn max_requests_in_flight(mut self, requests: usize) -> Self {
        self.max_requests_in_flight = requests;
        self
    }

    /// Sets the policy for retries of failed operations, including
    /// [`connect`](Self::connect). Defaults to `ExponentialBackoffRetry` with a base of 100 ms and
    /// 3 retries. [`using_retry_policy`](crate::CuratorClient::using_retry_policy) sets another one
    /// for a single lock or recipe.
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
        (self.default_acl, self.acl_provider) = (Some(acl.into()), None);
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
    /// [`Error::TlsFailed`] with the reasons; a client that was [started](Self::start) keeps
    /// trying, and its [health](crate::CuratorClient::health) and log contain the reasons. If TLS
    /// fails with only some servers, the client uses the others.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.tls = Some(options);
        self
    }

    /// Authenticates every connection of this client by SASL. Needs the feature `sasl-digest-md5`
    /// or `sasl-gssapi`.
    ///
    /// If a server refuses the credentials, or accepts the client as anonymous,
    /// [`connect`](Self::connect) returns [`Error::ConnectRefused`].
    #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
    pub fn sasl(mut self, options: SaslOptions) -> Self {
        self.sasl = Some(options);
        self
    }

    /// Sets which code speaks ZooKeeper's protocol. Defaults to `Transport::ZookeeperClient` if the
    /// feature `zookeeper-client` is enabled.
    #[cfg(feature = "native")]
    #[cfg_attr(docsrs, doc(cfg(feature = "native")))]
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Sets the data of lock nodes that are created without data. Defaults to this machine's
    /// address, as in Curator; here it is the address towards the server of the first session.
    pub fn default_lock_data(mut self, data: impl Into<Arc<[u8]>>) -> Self {
        self.lock_data = Some(Hidden(data.into()));
        self
    }

    /// Checks the options, without using the network.
    pub(super) fn validate(self) -> Result<ValidOptions> {
        let servers = self.check()?;
        let root = in_namespace(
            self.namespace.as_deref().unwrap_or_default(),
            servers.chroot(),
        )?;
        let acls = match self.acl_provider {
            Some(provider) => Acls::provided(provider),
            None => Acls::same(
                self.default_acl
                    .unwrap_or_else(|| Arc::from([Acl::new(Permission::ALL, AuthId::anyone())])),
            ),
        };
        if acls.default.is_empty() {
            return Err(Error::InvalidOption {
                option: "default ACL",
                value: "[]".to_owned(),
                expected: "at least one entry",
            });
        }
        let retry_policy = match self.retry_policy {
            Some(policy) => policy,
            None => Arc::new(ExponentialBackoffRetry::new(Duration::from_millis(100), 3)?),
        };
        let options = Arc::new(SessionOptions {
            metrics_name: self.name.clone().map(Arc::from),
            name: self.name.unwrap_or_else(next_name).into(),
            connect_string: self.connect_string,
            #[cfg(feature = "simulation")]
            network: self.network.or_else(simulation::network),
            #[cfg(feature = "native")]
            transport: self.transport,
            servers,
            auth: self.auth,
            #[cfg(feature = "tls")]
            tls: self.tls,
            #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
            sasl: self.sasl,
            session_timeout: self.session_timeout,
            connection_timeout: self.connection_timeout,
            close_timeout: self.close_timeout,
            operation_timeout: self.operation_timeout,
            max_request_size: self.max_request_size,
            max_requests_in_flight: self.max_requests_in_flight,
        });
        Ok(ValidOptions {
            options,
            retry_policy,
            root,
            acls,
            lock_data: self.lock_data.map(|data| data.0),
        })
    }

    fn check(&self) -> Result<ConnectString> {
        let servers = ConnectString::parse(&self.connect_string)?;
        check(
            "session timeout",
            self.session_timeout,
            SESSION_TIMEOUTS,
            "from 100 ms to 24 hours",
        )?;
        check(
            "connection timeout",
            self.connection_timeout,
            TIMEOUTS,
            "from 1 ms to 24 hours",
        )?;
        check(
            "close timeout",
            self.close_timeout,
            TIMEOUTS,
            "from 1 ms to 24 hours",
        )?;
        if let Some(timeout) = self.operation_timeout {
            check(
                "operation timeout",
                timeout,
                TIMEOUTS,
                "from 1 ms to 24 hours",
            )?;
        }
        check(
            "maximum request size",
            self.max_request_size,
            1024..=usize::MAX,
            "at least 1024 bytes",
        )?;
        // A tokio semaphore has this upper bound.
        check(
            "maximum requests in flight",
            self.max_requests_in_flight,
            16..=usize::MAX >> 3,
            "at least 16",
        )?;
        if let Some(name) = &self.name
            && (name.is_empty() || name.chars().count() > 100 || name.chars().any(char::is_control))
        {
            let expected = "from 1 to 100 characters, and no control characters";
            let value = name.escape_debug().take(100).collect();
            return Err(Error::InvalidOption {
                option: "name",
                value,
                expected,
            });
        }
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            check_names(&servers)?;
        }
        #[cfg(any(feature = "sasl-digest-md5", feature = "sasl-gssapi"))]
        if let Some(sasl) = &self.sasl {
            sasl.check()?;
            #[cfg(feature = "zookeeper-client")]
            if self.uses_zookeeper_client() {
                sasl.check_for_zookeeper_client()?;
            }
        }
        Ok(servers)
    }

    #[cfg(all(
        feature = "zookeeper-client",
        any(feature = "sasl-digest-md5", feature = "sasl-gssapi")
    ))]
    fn uses_zookeeper_client(&self) -> bool {
        #[cfg(feature = "native")]
        {
            self.transport == Transport::ZookeeperClient
        }
        #[cfg(not(feature = "native"))]
        {
            true
        }
    }
}

/// The checked options of a client.
pub(super) struct ValidOptions {
    pub(super) options: Arc<SessionOptions>,
    pub(super) retry_policy: Arc<dyn RetryPolicy>,
    /// The chroot, and the namespace below it.
    pub(super) root: ZPath,
    pub(super) acls: Acls,
    pub(super) lock_data: Option<Arc<[u8]>>,
}

/// Generates a default name that is unique in this process, or in this simulation.
fn next_name() -> String {
    #[cfg(feature = "simulation")]
    if let Some(number) = simulation::next_client() {
        return format!("client-{number}");
    }
    static CLIENTS: AtomicU64 = AtomicU64::new(1);
    format!("client-{}", CLIENTS.fetch_add(1, Ordering::Relaxed))
}

/// Checks that a certificate can name the servers.
#[cfg(feature = "tls")]
fn check_names(servers: &ConnectString) -> Result<()> {
    match servers
        .hosts()
        .iter()
        .find(|server| !TlsOptions::is_nameable(server.host()))
    {
        None => Ok(()),
        Some(server) => Err(Error::InvalidOption {
            option: "host name",
            value: format!("{:?}", server.host()),
            expected: "a name that a certificate can have: a DNS name, or an IP address",
        }),
    }
}

fn check<T: PartialOrd + std::fmt::Debug>(
    option: &'static str,
    value: T,
    allowed: RangeInclusive<T>,
    expected: &'static str,
) -> Result<()> {
    if allowed.contains(&value) {
        return Ok(());
    }
    Err(Error::InvalidOption {
        option,
        value: format!("{value:?}"),
        expected,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CuratorClient;

    async fn refusal(builder: CuratorClientBuilder) -> String {
        builder.connect().await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn invalid_options_are_refused_by_name() {
        let builder = || CuratorClient::builder("127.0.0.1:1");
        let zero = refusal(builder().session_timeout(Duration::ZERO)).await;
        assert_eq!(
            zero,
            "invalid session timeout 0ns: expected from 100 ms to 24 hours"
        );
        let absurd = refusal(builder().connection_timeout(Duration::MAX)).await;
        assert!(
            absurd.starts_with("invalid connection timeout 18446744073709551615"),
            "{absurd}"
        );
        assert!(
            refusal(builder().operation_timeout(Duration::ZERO))
                .await
                .contains("operation timeout 0ns")
        );
        assert!(
            refusal(builder().close_timeout(Duration::ZERO))
                .await
                .contains("close timeout 0ns")
        );
        assert!(
            refusal(builder().max_requests_in_flight(0))
                .await
                .contains("maximum requests in flight 0")
        );
        assert!(
            refusal(builder().max_request_size(0))
                .await
                .contains("maximum request size 0")
        );
        let acl: [Acl; 0] = [];
        assert!(
            refusal(builder().default_acl(acl))
                .await
                .contains("default ACL []")
        );
        assert!(refusal(builder().namespace("a//b")).await.contains("/a//b"));
        assert!(refusal(CuratorClient::builder("h:0")).await.contains("h:0"));
        for name in ["", "a\nb", &"x".repeat(101)] {
            let expected = "expected from 1 to 100 characters, and no control characters";
            assert!(
                refusal(builder().name(name)).await.ends_with(expected),
                "{name:?}"
            );
        }
    }

    #[cfg(feature = "tls")]
    #[tokio::test]
    async fn a_host_that_no_certificate_can_name_is_refused_with_tls_only() {
        let ca = curator_test::TestingCa::new("tests").unwrap();
        let tls = || TlsOptions::from_pem(ca.pem()).unwrap();
        let refused = refusal(CuratorClient::builder("zk1,127.0.1").tls(tls())).await;
        let expected = "expected a name that a certificate can have: a DNS name, or an IP address";
        assert_eq!(
            refused,
            format!("invalid host name \"127.0.1\": {expected}")
        );
        assert!(
            CuratorClient::builder("zk1,[::1]")
                .tls(tls())
                .validate()
                .is_ok()
        );
        assert!(CuratorClient::builder("127.0.1").validate().is_ok());
    }
}
