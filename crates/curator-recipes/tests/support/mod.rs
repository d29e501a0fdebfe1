//! What the tests share.
#![allow(dead_code, unused_imports, reason = "each test program uses its own part")]

#[path = "../../../curator-test/tests/support/alone.rs"]
mod alone;
mod dropped;
mod environment;
#[cfg(unix)]
mod fork;
mod left;
#[path = "../../../curator-client/src/supervisor/tests/log.rs"]
mod log;
mod logs;
#[path = "../../../curator-test/tests/support/numbers.rs"]
mod numbers;
mod status;
mod still_waits;
mod witness;

use std::collections::BTreeMap;
use std::time::Duration;

use curator_recipes::client::{Acl, AuthId, CuratorClient, CuratorClientBuilder, Permission, RetryNTimes};
use curator_recipes::{InterProcessMutex, InterProcessReadWriteLock, LockGuard, Result};
use curator_test::{FaultProxy, OpCode, TestingServer};
use tokio::task::JoinHandle;

pub(crate) use self::alone::alone;
pub(crate) use self::dropped::{drop_after, drop_after_when, polled_until};
pub(crate) use self::environment::{new_seed, number, say};
#[cfg(unix)]
pub(crate) use self::fork::in_forked_child;
pub(crate) use self::left::{free, nothing_left};
pub(crate) use self::log::Line;
pub(crate) use self::logs::Logs;
pub(crate) use self::numbers::Numbers;
pub(crate) use self::status::status;
pub(crate) use self::still_waits::{round_trips, still_waits};
pub(crate) use self::witness::Witness;
pub(crate) use curator_test::{DEFAULT_TIMEOUT, soon, unique_path as path, until};

/// A session that no test means to lose.
pub(crate) const LONG_SESSION: Duration = Duration::from_secs(30);
/// A session that a test means to lose.
pub(crate) const SHORT_SESSION: Duration = Duration::from_millis(1000);
/// What a loaded machine may need on top of a timeout.
pub(crate) const SLACK: Duration = Duration::from_secs(3);

/// How an answer gets lost.
pub(crate) type Fault = fn(&FaultProxy, OpCode);

pub(crate) const FAULTS: [(&str, Fault); 3] = [
    ("cut before the reply", FaultProxy::cut_before_reply),
    ("cut before the request", FaultProxy::cut_before_request),
    ("swallowed reply", FaultProxy::swallow_next_reply),
];

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

/// A client of the shared server, behind a proxy of its own.
pub(crate) async fn behind_proxy() -> (FaultProxy, CuratorClient) {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let client = connect(&proxy.connect_string()).await;
    (proxy, client)
}

/// Ends the session of the client behind `proxy` on the server, without its client.
pub(crate) async fn end_session(server: &TestingServer, proxy: &FaultProxy) {
    curator_test::close_session(server.address(), &proxy.sessions().pop().unwrap()).await.unwrap();
}

pub(crate) fn mutex(client: &CuratorClient, path: &str) -> InterProcessMutex {
    InterProcessMutex::new(client, path).unwrap()
}

pub(crate) fn non_reentrant(client: &CuratorClient, path: &str) -> InterProcessMutex {
    InterProcessMutex::non_reentrant(client, path).unwrap()
}

pub(crate) fn read_write(client: &CuratorClient, path: &str) -> InterProcessReadWriteLock {
    InterProcessReadWriteLock::new(client, path).unwrap()
}

/// An acquire of the mutex on this path, as a task.
pub(crate) fn acquiring(client: &CuratorClient, path: &str) -> JoinHandle<Result<LockGuard>> {
    let mutex = mutex(client, path);
    tokio::spawn(async move { mutex.acquire().await })
}

/// Waits until the lock's queue has this many places.
#[track_caller]
pub(crate) fn queue_of(client: &CuratorClient, path: &str, length: usize) -> impl Future<Output = ()> {
    until(async move || children(client, path).await.len() == length)
}

pub(crate) async fn children(client: &CuratorClient, path: &str) -> Vec<String> {
    match client.get_children(path).await {
        Err(curator_recipes::client::Error::NoNode { .. }) => Vec::new(),
        children => children.unwrap(),
    }
}

/// A directory that lets everybody in and nobody out.
pub(crate) async fn no_way_out(client: &CuratorClient, path: &str) {
    let no_delete = [Acl::new(Permission::READ | Permission::CREATE, AuthId::anyone())];
    client.create().creating_parent_containers().with_acl(no_delete).for_path(path, "").await.unwrap();
}

/// A server with these directories, which have counted so far. None of them is a container, so they stay.
pub(crate) async fn server_at(counter: i32, dirs: &[&str]) -> (TestingServer, CuratorClient) {
    let server = TestingServer::start().await.unwrap();
    let client = connect(&server.connect_string()).await;
    for dir in dirs {
        client.create().creating_parent_containers().for_path(*dir, "").await.unwrap();
    }
    server.set_create_counters(dirs, counter).await.unwrap();
    (server, client)
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

/// All requests that have come through `proxy`, but for the probes of the lease: one may have been due at any time.
pub(crate) fn without_probes(proxy: &FaultProxy) -> BTreeMap<OpCode, u64> {
    let mut requests = proxy.requests();
    requests.remove(&OpCode::Sync);
    requests
}
