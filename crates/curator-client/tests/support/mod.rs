//! What the tests share.
#![allow(dead_code, unused_imports, reason = "each test program uses its own part")]

// A unit test uses it too, and is packed with the sources.
#[path = "../../../curator-test/tests/support/alone.rs"]
mod alone;
#[path = "../../src/supervisor/tests/log.rs"]
pub(crate) mod log;
pub(crate) mod sasl_server;

use std::time::{Duration, Instant};

use curator_client::{
    ClockInstant, ConnectionState, ConnectionStates, CreateMode, CuratorClient, CuratorClientBuilder, RetryForever,
    RetryNTimes, SessionLease, Stat, ZPath,
};
use curator_test::{FaultProxy, TestingServer};
use tokio::task::JoinHandle;

pub(crate) use self::alone::alone;
pub(crate) use curator_test::{DEFAULT_TIMEOUT, soon, unique_path, until, within};

/// A session timeout that no test outlives by accident.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// A session timeout that a test waits for.
pub(crate) const SHORT: Duration = Duration::from_millis(1_500);

/// What a loaded machine may need on top of a time that was said.
pub(crate) const SLACK: Duration = Duration::from_millis(1_500);

/// A client of a server or a proxy, with a session timeout that no test outlives by accident.
pub(crate) fn builder(connect_string: impl Into<String>) -> CuratorClientBuilder {
    CuratorClient::builder(connect_string).session_timeout(LONG)
}

/// A policy that allows one try and no more.
pub(crate) fn once() -> RetryNTimes {
    RetryNTimes::new(0, Duration::from_millis(1)).unwrap()
}

/// A policy whose first pause no test outlives.
pub(crate) fn patient() -> RetryForever {
    RetryForever::new(Duration::from_secs(3_600)).unwrap()
}

/// A client of the shared server.
pub(crate) async fn direct() -> CuratorClient {
    builder(TestingServer::shared().await.connect_string()).connect().await.unwrap()
}

/// A proxy in front of the shared server.
pub(crate) async fn proxy() -> FaultProxy {
    FaultProxy::start(TestingServer::shared().await.address()).unwrap()
}

/// A client of the shared server, behind a separate proxy.
pub(crate) async fn behind_proxy() -> (FaultProxy, CuratorClient) {
    behind_proxy_with(|client| client).await
}

/// The same with other options.
pub(crate) async fn behind_proxy_with(
    options: impl FnOnce(CuratorClientBuilder) -> CuratorClientBuilder,
) -> (FaultProxy, CuratorClient) {
    let proxy = proxy().await;
    let client = options(builder(proxy.connect_string())).connect().await.unwrap();
    (proxy, client)
}

/// A read in another task.
pub(crate) fn reading(client: &CuratorClient) -> JoinHandle<curator_client::Result<(Vec<u8>, Stat)>> {
    let client = client.clone();
    tokio::spawn(async move { client.get_data("/").await })
}

/// Cuts the connection of the client behind `proxy`, which resumes its session over another one.
pub(crate) async fn reconnect(proxy: &FaultProxy, client: &CuratorClient) {
    let mut states = client.connection_states();
    proxy.cut();
    assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
}

/// Begins an outage for the client behind `proxy`, until `proxy.refuse(false)`.
pub(crate) async fn begin_outage(proxy: &FaultProxy, client: &CuratorClient) {
    let mut states = client.connection_states();
    proxy.refuse(true).unwrap();
    proxy.cut();
    assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
}

/// Ends the session of the client behind `proxy` on the shared server, without its client.
pub(crate) async fn end_session(proxy: &FaultProxy) {
    let server = TestingServer::shared().await.address();
    curator_test::close_session(server, proxy.sessions().last().unwrap()).await.unwrap();
}

/// The same, and waits until the client has another session.
pub(crate) async fn replace_session(proxy: &FaultProxy, client: &CuratorClient) {
    let mut states = client.connection_states();
    end_session(proxy).await;
    assert!(soon(states.wait_for(ConnectionState::Lost)).await);
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
}

/// Creates a node on a path that no other test uses.
pub(crate) async fn node(client: &CuratorClient) -> ZPath {
    client.create().for_path(unique_path("node"), "").await.unwrap()
}

/// Creates an ephemeral node on a path that no other test uses.
pub(crate) async fn ephemeral(client: &CuratorClient) -> String {
    client.create().with_mode(CreateMode::Ephemeral).for_path(unique_path("node"), "").await.unwrap().to_string()
}

/// The next state must be this one.
#[track_caller]
pub(crate) fn expect(states: &mut ConnectionStates, state: ConnectionState) -> impl Future<Output = ()> {
    let next = soon(states.next());
    async move { assert_eq!(next.await, Some(state)) }
}

/// Looks at a lease again and again until it is over, and checks at each look that it does not outlive its own word.
/// Returns the last instant that it promised.
pub(crate) async fn watch_over(lease: &SessionLease) -> ClockInstant {
    let end = Instant::now() + DEFAULT_TIMEOUT;
    let mut promised = lease.valid_until();
    loop {
        let until = lease.valid_until();
        if until == ClockInstant::ZERO {
            assert!(!lease.is_valid());
            return promised;
        }
        assert!(until >= promised, "the lease went back from {promised:?} to {until:?}");
        promised = until;
        if until.has_passed() {
            assert!(!lease.is_valid());
            assert_eq!(lease.remaining(), Duration::ZERO);
            return promised;
        }
        assert!(Instant::now() < end, "the lease is not over after {DEFAULT_TIMEOUT:?}");
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
}
