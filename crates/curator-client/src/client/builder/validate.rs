//! Checks the options of a client that is about to start.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::CuratorClientBuilder;
use crate::acl::{Acl, Acls, AuthId, Permission};
use crate::client::in_namespace;
use crate::connect_string::ConnectString;
use crate::ensemble::Ensemble;
use crate::error::{Error, Result};
use crate::options::SessionOptions;
#[cfg(all(
    feature = "native",
    feature = "zookeeper-client",
    any(feature = "sasl-digest-md5", feature = "sasl-gssapi")
))]
use crate::options::Transport;
use crate::path::ZPath;
use crate::retry_policy::{ExponentialBackoffRetry, RetryPolicy};
#[cfg(feature = "simulation")]
use crate::simulation;
#[cfg(feature = "tls")]
use crate::tls::TlsOptions;

/// The accepted timeouts.
const TIMEOUTS: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(60 * 60 * 24);
/// The accepted session timeouts. Under 100 ms, the lease would be shorter than an ordinary pause
/// of a process.
const SESSION_TIMEOUTS: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(60 * 60 * 24);

/// The checked options of a client.
pub(in crate::client) struct ValidOptions {
    pub(in crate::client) options: Arc<SessionOptions>,
    pub(in crate::client) ensemble: Arc<Ensemble>,
    /// Whether the client reads the configuration of the ensemble.
    pub(in crate::client) reads_config: bool,
    pub(in crate::client) retry_policy: Arc<dyn RetryPolicy>,
    /// The chroot, and the namespace below it.
    pub(in crate::client) root: ZPath,
    pub(in crate::client) acls: Acls,
    pub(in crate::client) lock_data: Option<Arc<[u8]>>,
}

impl CuratorClientBuilder {
    /// Checks the options, without using the network.
    pub(in crate::client) fn validate(self) -> Result<ValidOptions> {
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
        let ensemble = Arc::new(Ensemble::new(self.ensemble_tracker, servers.hosts()));
        let options = Arc::new(SessionOptions {
            metrics_name: self.name.clone().map(Arc::from),
            name: self.name.unwrap_or_else(next_name).into(),
            connect_string: self.connect_string,
            #[cfg(feature = "simulation")]
            network: self.network.or_else(simulation::network),
            #[cfg(feature = "native")]
            transport: self.transport,
            servers,
            only_address: None,
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
            server_operations: Arc::default(),
        });
        Ok(ValidOptions {
            options,
            ensemble,
            reads_config: true,
            retry_policy,
            root,
            acls,
            lock_data: self.lock_data.map(|data| data.0),
        })
    }

    fn check(&self) -> Result<ConnectString> {
        let servers = ConnectString::parse(&self.connect_string)?;
        check_range(
            "session timeout",
            self.session_timeout,
            SESSION_TIMEOUTS,
            "from 100 ms to 24 hours",
        )?;
        check_range(
            "connection timeout",
            self.connection_timeout,
            TIMEOUTS,
            "from 1 ms to 24 hours",
        )?;
        check_range(
            "close timeout",
            self.close_timeout,
            TIMEOUTS,
            "from 1 ms to 24 hours",
        )?;
        if let Some(timeout) = self.operation_timeout {
            check_range(
                "operation timeout",
                timeout,
                TIMEOUTS,
                "from 1 ms to 24 hours",
            )?;
        }
        check_range(
            "maximum request size",
            self.max_request_size,
            1024..=usize::MAX,
            "at least 1024 bytes",
        )?;
        // The upper bound is tokio's `Semaphore::MAX_PERMITS`.
        check_range(
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

fn check_range<T: PartialOrd + std::fmt::Debug>(
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
