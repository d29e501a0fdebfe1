//! Clients, proxies and waits that the tests share.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test program uses only some of them"
)]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use curator_client::{
    ClockInstant, ConnectionState, ConnectionStates, CreateMode, CuratorClient,
    CuratorClientBuilder, EnsembleTracker, Error, NodeSpec, Outcome, RetryContext, RetryForever,
    RetryNTimes, RetryPolicy, Session, SessionLease, Stat, Transport, ZPath,
};
#[cfg(feature = "tls")]
use curator_client::{TlsOptions, TlsProblem};
use curator_test::{FaultProxy, OpCode, Simulation, TestingServer};
use tokio::task::JoinHandle;

pub(crate) use curator_test::{DEFAULT_TIMEOUT, soon, unique_path, until, within};
pub(crate) use test_support::alone::alone;

/// A session timeout that no test exceeds accidentally.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Whether the clients of this test program use `Transport::Native`. Tests of the workarounds for
/// `zookeeper-client` then have nothing to test.
pub(crate) fn is_native() -> bool {
    test_support::transport::transport() == Transport::Native
}

/// A client of a server or a proxy, with a session timeout that no test exceeds accidentally. It
/// does not read the configuration of the ensemble, so that counts and faults concern the requests
/// of the test only; `embedded/ensemble.rs` tests that.
pub(crate) fn builder(connect_string: impl Into<String>) -> CuratorClientBuilder {
    CuratorClient::builder(connect_string)
        .ensemble_tracker(EnsembleTracker::Never)
        .session_timeout(LONG)
        .transport(test_support::transport::transport())
}

/// A policy that allows one attempt.
pub(crate) fn once() -> RetryNTimes {
    RetryNTimes::new(0, Duration::from_millis(1)).unwrap()
}

/// A policy whose first pause is longer than any test.
pub(crate) fn patient() -> RetryForever {
    RetryForever::new(Duration::from_secs(3_600)).unwrap()
}

/// A policy that allows this many retries, and records the arguments of each call: the number of
/// retries, and the elapsed time.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    retries: u32,
    pause: Duration,
    pub(crate) calls: Arc<Mutex<Vec<(u32, Duration)>>>,
}

impl Recorded {
    pub(crate) fn new(retries: u32, pause: Duration) -> Self {
        Self {
            retries,
            pause,
            calls: Arc::default(),
        }
    }
}

impl RetryPolicy for Recorded {
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        self.calls
            .lock()
            .unwrap()
            .push((failed.retries(), failed.elapsed()));
        (failed.retries() < self.retries).then_some(self.pause)
    }
}

/// A client of the shared server.
pub(crate) async fn direct() -> CuratorClient {
    direct_with(|client| client).await
}

/// Like [`direct`], with other options.
pub(crate) async fn direct_with(
    options: impl FnOnce(CuratorClientBuilder) -> CuratorClientBuilder,
) -> CuratorClient {
    options(builder(TestingServer::shared().await.connect_string()))
        .connect()
        .await
        .unwrap()
}

/// A proxy in front of the shared server.
pub(crate) async fn proxy() -> FaultProxy {
    FaultProxy::start(TestingServer::shared().await.address()).unwrap()
}

/// A client of the shared server, behind a separate proxy.
pub(crate) async fn behind_proxy() -> (FaultProxy, CuratorClient) {
    behind_proxy_with(|client| client).await
}

/// Like [`behind_proxy`], with other options.
pub(crate) async fn behind_proxy_with(
    options: impl FnOnce(CuratorClientBuilder) -> CuratorClientBuilder,
) -> (FaultProxy, CuratorClient) {
    let proxy = proxy().await;
    let client = options(builder(proxy.connect_string())).start().unwrap();
    // A busy server may need longer than the client's timeouts: retry until it is connected.
    soon(async {
        while let Err(error) = client.session().await {
            assert!(error.is_retryable(), "{error}");
        }
    })
    .await;
    (proxy, client)
}

/// A client of a simulated server, with these options, in simulated time. The test must start its
/// runtime with a paused clock, and wait with tokio's timers.
pub(crate) async fn simulated(
    options: impl FnOnce(CuratorClientBuilder) -> CuratorClientBuilder,
) -> (Simulation, CuratorClient) {
    let latency = Duration::from_millis(1);
    let simulation = Simulation::builder().latency(latency..=latency).start();
    let client = CuratorClient::builder(simulation.connect_string())
        .ensemble_tracker(EnsembleTracker::Never)
        .session_timeout(LONG);
    let client = options(client).connect().await.unwrap();
    (simulation, client)
}

/// The cause that a client reports if it makes one attempt and reaches no server.
pub(crate) async fn cause_of_failure(client: CuratorClientBuilder) -> String {
    match soon(client.retry_policy(once()).connect()).await {
        Err(Error::ConnectFailed { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

/// The error of a client whose connect fails without a retry, although its policy would retry for
/// ever.
pub(crate) async fn refusal(client: CuratorClientBuilder) -> Error {
    let error = soon(client.retry_policy(patient()).connect())
        .await
        .unwrap_err();
    assert!(!error.is_retryable(), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
    error
}

/// The TLS problem with the single server of this connect string.
#[cfg(feature = "tls")]
pub(crate) async fn tls_problem(connect_string: &str, tls: Option<TlsOptions>) -> TlsProblem {
    let builder = builder(connect_string).connection_timeout(Duration::from_secs(3_600));
    let error = refusal(match tls {
        Some(tls) => builder.tls(tls),
        None => builder,
    })
    .await;
    let Error::TlsFailed { failures, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(failures.len(), 1, "{error}");
    assert_eq!(failures[0].server.to_string(), connect_string);
    let text = format!(
        "no session with {connect_string:?}: {connect_string}: {}",
        failures[0].problem
    );
    assert_eq!(error.to_string(), text);
    failures[0].problem.clone()
}

/// The number of round trips for creating a node and listing its siblings in one pipeline, repeated
/// `times` times.
pub(crate) async fn pipelines(
    proxy: &FaultProxy,
    client: &CuratorClient,
    session: &Session,
    times: u64,
) -> u64 {
    let dir = node(client).await;
    let acl = client.default_acl().clone();
    let path = dir.child("n-").unwrap();
    let node = NodeSpec {
        path,
        data: [].into(),
        mode: CreateMode::EphemeralSequential,
        acl,
    };
    proxy.reset_counts();
    for _ in 0..times {
        let created = session.create(&node);
        let children = session.get_children(&dir);
        let created = created.await.unwrap();
        let children = children.await.unwrap();
        assert!(
            children.contains(&created.path.name().to_owned()),
            "the list is older than the create"
        );
    }
    proxy.round_trips()
}

/// The requests sent, without lease probes, which may be due at any time.
pub(crate) fn sent(proxy: &FaultProxy) -> Vec<(OpCode, u64)> {
    proxy
        .requests()
        .into_iter()
        .filter(|(op, _)| *op != OpCode::Sync)
        .collect()
}

/// Starts a read in another task.
pub(crate) fn reading(
    client: &CuratorClient,
) -> JoinHandle<curator_client::Result<(Vec<u8>, Stat)>> {
    let client = client.clone();
    tokio::spawn(async move { client.get_data("/").await })
}

/// Cuts the connection of the client behind `proxy`, and waits until the session is resumed over
/// another one.
pub(crate) async fn reconnect(proxy: &FaultProxy, client: &CuratorClient) {
    let mut states = client.connection_states();
    proxy.cut();
    assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
}

/// Starts an outage for the client behind `proxy`, until `proxy.refuse(false)`.
pub(crate) async fn begin_outage(proxy: &FaultProxy, client: &CuratorClient) {
    let mut states = client.connection_states();
    proxy.refuse(true).unwrap();
    proxy.cut();
    assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
}

/// Ends the session of the client behind `proxy` on the shared server. The client is not involved.
pub(crate) async fn end_session(proxy: &FaultProxy) {
    let server = TestingServer::shared().await.address();
    curator_test::close_session(server, proxy.sessions().last().unwrap())
        .await
        .unwrap();
}

/// Cuts the client off, ends its session, and waits until the client has another session. A client
/// that is not cut off could resume the old session first.
pub(crate) async fn replace_session(proxy: &FaultProxy, client: &CuratorClient) {
    begin_outage(proxy, client).await;
    let mut states = client.connection_states();
    end_session(proxy).await;
    proxy.refuse(false).unwrap();
    assert!(soon(states.wait_for(ConnectionState::Lost)).await);
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
}

/// Creates a node on a path that no other test uses.
pub(crate) async fn node(client: &CuratorClient) -> ZPath {
    client
        .create()
        .for_path(unique_path("node"), "")
        .await
        .unwrap()
}

/// Creates an ephemeral node on a path that no other test uses.
pub(crate) async fn ephemeral(client: &CuratorClient) -> String {
    client
        .create()
        .with_mode(CreateMode::Ephemeral)
        .for_path(unique_path("node"), "")
        .await
        .unwrap()
        .to_string()
}

/// Checks that the next state is `state`.
#[track_caller]
pub(crate) fn expect(
    states: &mut ConnectionStates,
    state: ConnectionState,
) -> impl Future<Output = ()> {
    // Called outside of the `async` block, so that a panic names the caller.
    let next = soon(states.next());
    async move { assert_eq!(next.await, Some(state)) }
}

/// Polls a lease until it has ended, and checks at each poll that it is invalid once its
/// `valid_until` has passed. Returns the latest `valid_until`.
pub(crate) async fn watch_over(lease: &SessionLease) -> ClockInstant {
    let deadline = Instant::now() + DEFAULT_TIMEOUT;
    let mut promised = lease.valid_until();
    loop {
        let until = lease.valid_until();
        if until == ClockInstant::ZERO {
            assert!(!lease.is_valid());
            return promised;
        }
        assert!(
            until >= promised,
            "the lease went back from {promised:?} to {until:?}"
        );
        promised = until;
        if until.has_passed() {
            assert!(!lease.is_valid());
            assert_eq!(lease.remaining(), Duration::ZERO);
            return promised;
        }
        assert!(
            Instant::now() < deadline,
            "the lease has not ended after {DEFAULT_TIMEOUT:?}"
        );
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
}
