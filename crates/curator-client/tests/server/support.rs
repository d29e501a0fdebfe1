//! What the tests share.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use curator_client::{
    ClockInstant, ConnectionState, ConnectionStates, CreateMode, CuratorClient, CuratorClientBuilder, SessionLease,
};
use curator_test::{FaultProxy, TestingServer};

/// How long a condition may take. Far more than needed: only a failing test waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A session timeout that no test outlives by accident.
pub(crate) const LONG: Duration = Duration::from_secs(20);

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

/// A path that no other test uses.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("/unique-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Creates an ephemeral node on a path that no other test uses.
pub(crate) async fn ephemeral(client: &CuratorClient) -> String {
    client.create().with_mode(CreateMode::Ephemeral).for_path(unique(), "").await.unwrap().to_string()
}

/// Waits for a future, with a bound.
pub(crate) async fn within<T>(bound: Duration, what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(bound, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not happen within {bound:?}"),
    }
}

/// Waits for a future that is ready soon.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    within(PATIENCE, what, future).await
}

/// Polls a condition that nothing tells about.
pub(crate) async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < end, "{what} did not come true within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The next state must be this one.
pub(crate) async fn expect(states: &mut ConnectionStates, state: ConnectionState) {
    assert_eq!(soon(&format!("{state:?}"), states.next()).await, Some(state));
}

/// Looks at a lease again and again until it is over, and checks at each look that it does not outlive its own word.
/// Returns the last instant that it promised.
pub(crate) async fn watch_over(lease: &SessionLease) -> ClockInstant {
    let end = Instant::now() + PATIENCE;
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
        assert!(Instant::now() < end, "the lease is not over after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
}
