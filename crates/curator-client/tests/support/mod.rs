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
    ClockInstant, ConnectionState, ConnectionStates, CreateMode, CuratorClient, CuratorClientBuilder, SessionLease,
    ZPath,
};
use curator_test::{FaultProxy, TestingServer};

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

/// A client of the shared server.
pub(crate) async fn direct() -> CuratorClient {
    builder(TestingServer::shared().await.connect_string()).connect().await.unwrap()
}

/// A proxy in front of the shared server.
pub(crate) async fn proxy() -> FaultProxy {
    FaultProxy::start(TestingServer::shared().await.address()).unwrap()
}

/// A client behind a proxy of its own.
pub(crate) async fn behind_proxy() -> (FaultProxy, CuratorClient) {
    let proxy = proxy().await;
    let client = builder(proxy.connect_string()).connect().await.unwrap();
    (proxy, client)
}

/// Ends the session of the client behind `proxy` on the server, without its client.
pub(crate) async fn end_session(server: &TestingServer, proxy: &FaultProxy) {
    curator_test::close_session(server.address(), proxy.sessions().last().unwrap()).await.unwrap();
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
