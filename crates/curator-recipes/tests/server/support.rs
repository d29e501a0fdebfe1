//! What the tests share.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use curator_recipes::InterProcessMutex;
use curator_recipes::client::{CuratorClient, CuratorClientBuilder, RetryNTimes};
use curator_test::{FaultProxy, OpCode, TestingServer};

/// Longer than anything here takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// A session that no test means to lose.
pub(crate) const LONG_SESSION: Duration = Duration::from_secs(30);
/// A session that a test means to lose.
pub(crate) const SHORT_SESSION: Duration = Duration::from_millis(1000);

/// A path that no other test uses.
pub(crate) fn path(name: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("/tests/{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn builder(connect_string: &str, session_timeout: Duration) -> CuratorClientBuilder {
    CuratorClient::builder(connect_string)
        .session_timeout(session_timeout)
        .retry_policy(RetryNTimes::new(20, Duration::from_millis(50)).unwrap())
}

pub(crate) async fn connect(connect_string: &str) -> CuratorClient {
    builder(connect_string, LONG_SESSION).connect().await.unwrap()
}

/// A client of the shared server.
pub(crate) async fn client() -> CuratorClient {
    connect(&TestingServer::shared().await.connect_string()).await
}

pub(crate) fn mutex(client: &CuratorClient, path: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, path).unwrap()
}

/// The result of `future`, which must come.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("nothing came of it in time")
}

/// Waits until a condition on the server holds. Each look is a request, which paces it.
pub(crate) async fn until(mut condition: impl AsyncFnMut() -> bool) {
    soon(async {
        while !condition().await {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Waits until the lock's queue has this many places.
pub(crate) async fn queue_of(client: &CuratorClient, path: &str, length: usize) {
    until(async || children(client, path).await.len() == length).await;
}

pub(crate) async fn children(client: &CuratorClient, path: &str) -> Vec<String> {
    match client.get_children(path).await {
        Err(curator_recipes::client::Error::NoNode { .. }) => Vec::new(),
        children => children.unwrap(),
    }
}

/// What a transaction costs that creates a lock's nodes, with other requests that take so many round trips: all requests, and
/// all round trips.
///
/// Servers before 3.7.2, and 3.8 before 3.8.2, do not tell the stats of new nodes in the answer: there one of them is looked
/// at, however many there are, in a round trip of its own.
pub(crate) async fn creating(other: &[(OpCode, u64)], round_trips: u64) -> (BTreeMap<OpCode, u64>, u64) {
    let mut requests = BTreeMap::from([(OpCode::Multi, 1)]);
    for (op, count) in other {
        *requests.entry(*op).or_default() += count;
    }
    let version = TestingServer::shared().await.version().expect("it serves");
    if version.tells_stats_in_transactions() {
        return (requests, 1 + round_trips);
    }
    requests.insert(OpCode::Exists, 1);
    (requests, 2 + round_trips)
}

/// How many requests of this kind have come through `proxy`.
pub(crate) fn requests_of(proxy: &FaultProxy, op: OpCode) -> u64 {
    proxy.requests().get(&op).copied().unwrap_or(0)
}

/// Numbers that look random, and are the same each time (`SplitMix64`).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// From 0 to `bound`, and never `bound` itself.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}
