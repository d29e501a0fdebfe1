//! Clients, proxies and waits that the tests share.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test program uses only some of these items"
)]

#[macro_use]
mod named;

mod caches;
mod driver;
mod dropped;
#[cfg(unix)]
mod fork;
mod in_wake;
mod left;
mod logs;
mod overflow;
mod quiet;
mod replay;
mod row;
mod settings;
mod shared;
mod simulated;
pub(crate) mod subjects;
mod witness;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::{
    Acl, AuthId, CreateMode, CuratorClient, CuratorClientBuilder, EnsembleTracker, Permission,
    RetryNTimes, SessionEnd, Transport,
};
use curator_recipes::{
    InterProcessLock, InterProcessMutex, InterProcessReadWriteLock, LockGuard, LockLost, LossReason,
};
use curator_test::{FaultProxy, OpCode, TestingServer};
use tokio::task::JoinHandle;

pub(crate) use self::caches::{
    End, churn_locks_beside_caches, refuses_watches, use_cache, watch_once_beside_a_cache,
};
pub(crate) use self::driver::Plain;
pub(crate) use self::dropped::{drop_after, polled_until};
#[cfg(unix)]
pub(crate) use self::fork::in_forked_child;
pub(crate) use self::in_wake::in_wake;
pub(crate) use self::left::{free, keep, keep_empty, nothing_left, remove_empty};
pub(crate) use self::logs::Logs;
pub(crate) use self::overflow::{KINDS, overflow_server, path_of, server_at};
pub(crate) use self::quiet::QuietServer;
pub(crate) use self::replay::Replay;
pub(crate) use self::row::Row;
pub(crate) use self::settings::adjusted_server;
pub(crate) use self::shared::{alone_on_shared_server, shared_address};
pub(crate) use self::simulated::{gives_up, simulated, unplug_process, until_simulated};
pub(crate) use self::witness::Witness;
pub(crate) use curator_test::{DEFAULT_TIMEOUT, soon, unique_path as path, until};
pub(crate) use test_support::environment::{new_seed, number, say, status};
pub(crate) use test_support::log::Line;
pub(crate) use test_support::numbers::Numbers;
pub(crate) use test_support::still_waits::{round_trips, still_waits};
pub(crate) use test_support::transport::transport;

/// The session timeout in tests in which no session should expire.
pub(crate) const LONG_SESSION: Duration = Duration::from_secs(30);
/// The session timeout in tests that wait until a session expires.
pub(crate) const SHORT_SESSION: Duration = Duration::from_secs(4);

/// Makes the proxy lose the next request of a kind, or its reply.
pub(crate) type Fault = fn(&FaultProxy, OpCode);

pub(crate) const FAULTS: [(&str, Fault); 3] = [
    ("cut before the reply", FaultProxy::cut_before_reply),
    ("cut before the request", FaultProxy::cut_before_request),
    ("swallowed reply", FaultProxy::swallow_next_reply),
];

pub(crate) type AnyLock = Arc<dyn InterProcessLock>;

pub(crate) fn arc(lock: impl InterProcessLock + 'static) -> AnyLock {
    Arc::new(lock)
}

/// A client that does not read the configuration of the ensemble, so that counts and faults concern
/// the requests of the recipes only.
pub(crate) fn builder(connect_string: &str, session_timeout: Duration) -> CuratorClientBuilder {
    CuratorClient::builder(connect_string)
        .ensemble_tracker(EnsembleTracker::Never)
        .transport(transport())
        .session_timeout(session_timeout)
        .retry_policy(RetryNTimes::new(20, Duration::from_millis(50)).unwrap())
}

pub(crate) async fn connect(connect_string: &str) -> CuratorClient {
    builder(connect_string, LONG_SESSION)
        .connect()
        .await
        .unwrap()
}

/// A client of the shared server.
pub(crate) async fn client() -> CuratorClient {
    connect(&shared_address().await.to_string()).await
}

/// A client of the shared server, authenticated as the user `owner`.
pub(crate) async fn owner() -> CuratorClient {
    let builder = builder(&shared_address().await.to_string(), LONG_SESSION);
    builder
        .authorization("digest", "owner:secret")
        .connect()
        .await
        .unwrap()
}

/// A proxy in front of the shared server.
pub(crate) async fn proxy() -> FaultProxy {
    FaultProxy::start(shared_address().await).unwrap()
}

/// A client of the shared server, behind a separate proxy.
pub(crate) async fn behind_proxy() -> (FaultProxy, CuratorClient) {
    behind_proxy_with(|builder| builder).await
}

/// Like [`behind_proxy`], with other settings.
pub(crate) async fn behind_proxy_with(
    settings: impl FnOnce(CuratorClientBuilder) -> CuratorClientBuilder,
) -> (FaultProxy, CuratorClient) {
    let proxy = proxy().await;
    let client = settings(builder(&proxy.connect_string(), LONG_SESSION))
        .start()
        .unwrap();
    // A busy server may need longer than the client's timeouts: retry until the client is
    // connected.
    soon(async {
        while let Err(error) = client.session().await {
            assert!(error.is_retryable(), "{error}");
        }
    })
    .await;
    (proxy, client)
}

/// Breaks the connection and prevents new ones; returns when the client has noticed.
pub(crate) async fn unplug(proxy: &FaultProxy, client: &CuratorClient) {
    proxy.refuse(true).unwrap();
    proxy.cut();
    until(async || client.try_session().is_err()).await;
}

/// Ends the session of the client behind `proxy` on the shared server, over another connection.
pub(crate) async fn end_session(proxy: &FaultProxy) {
    curator_test::close_session(shared_address().await, &proxy.sessions().pop().unwrap())
        .await
        .unwrap();
}

/// How a holder can lose its lock on the server.
pub(crate) const LOSSES: [LossReason; 2] = [
    LossReason::NodeDeleted,
    LossReason::SessionLost(SessionEnd::Expired),
];

/// Makes the holder behind `proxy` lose its lock for this reason.
pub(crate) async fn lose(guard: &LockGuard, proxy: &FaultProxy, reason: LossReason) {
    if reason == LossReason::NodeDeleted {
        client()
            .await
            .delete()
            .for_path(guard.node())
            .await
            .unwrap();
    } else {
        end_session(proxy).await;
    }
}

/// Waits until this session watches the node on the shared server. Must not be called inside
/// [`alone_on_shared_server`], where `TestingServer::shared` would start another server.
pub(crate) async fn until_watched(session: i64, node: &str) {
    let server = TestingServer::shared().await;
    until(async || {
        server
            .watches_by_path()
            .await
            .unwrap()
            .get(node)
            .is_some_and(|by| by.contains(&session))
    })
    .await;
}

/// Spawns a task that waits for a revocation request to the guard; returns when the watches are
/// set.
pub(crate) async fn listening(guard: &Arc<subjects::Held>) -> JoinHandle<Result<(), LockLost>> {
    let listener = Arc::clone(guard);
    let listening = tokio::spawn(async move { listener.revocation_requested().await });
    for node in guard.nodes() {
        until_watched(guard.session_id(), node.as_str()).await;
    }
    listening
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

/// Spawns an acquire.
pub(crate) fn spawn_acquire(lock: AnyLock) -> JoinHandle<curator_recipes::Result<LockGuard>> {
    tokio::spawn(async move { lock.acquire().await })
}

/// Spawns an acquire of the mutex on this path.
pub(crate) fn acquiring(
    client: &CuratorClient,
    path: &str,
) -> JoinHandle<curator_recipes::Result<LockGuard>> {
    spawn_acquire(arc(mutex(client, path)))
}

/// Waits until the lock's queue has this many nodes.
#[track_caller]
pub(crate) fn queue_of(
    client: &CuratorClient,
    path: &str,
    length: usize,
) -> impl Future<Output = ()> {
    until(async move || children(client, path).await.len() == length)
}

pub(crate) async fn children(client: &CuratorClient, path: &str) -> Vec<String> {
    match client.get_children(path).await {
        Err(curator_recipes::client::Error::NoNode { .. }) => Vec::new(),
        children => children.unwrap(),
    }
}

/// The id and the number in a node name in Curator's format, with `mark` between them.
pub(crate) fn id_and_number(name: &str, mark: &str) -> (String, i32) {
    let (id, number) = name
        .strip_prefix("_c_")
        .and_then(|rest| rest.split_once(mark))
        .unwrap();
    assert_eq!(
        curator_recipes::driver::Uuid::parse_str(id)
            .unwrap()
            .hyphenated()
            .to_string(),
        id
    );
    assert_eq!(number.len(), 10, "{name}");
    (id.to_owned(), number.parse().unwrap())
}

/// Creates a directory in which any client may create nodes, and no client may delete them.
pub(crate) async fn create_dir_without_delete(client: &CuratorClient, path: &str) {
    let no_delete = [Acl::new(
        Permission::READ | Permission::CREATE,
        AuthId::anyone(),
    )];
    client
        .create()
        .creating_parent_containers()
        .with_acl(no_delete)
        .for_path(path, "")
        .await
        .unwrap();
}

/// Creates a directory in which no client may create nodes.
pub(crate) async fn create_dir_without_create(client: &CuratorClient, path: &str) {
    let read_only = [Acl::new(Permission::READ, AuthId::anyone())];
    client
        .create()
        .creating_parent_containers()
        .with_acl(read_only)
        .for_path(path, "")
        .await
        .unwrap();
}

/// Deletes the node and creates it again, in one transaction. Its version is 0 again.
pub(crate) async fn replace(client: &CuratorClient, path: &str, data: impl AsRef<[u8]>) {
    let replaced = client
        .transaction()
        .delete(path, None)
        .unwrap()
        .create(path, data, CreateMode::Persistent)
        .unwrap();
    replaced.commit().await.unwrap();
}

/// The number of requests of this kind that have passed through `proxy`.
pub(crate) fn requests_of(proxy: &FaultProxy, op: OpCode) -> u64 {
    proxy.requests().get(&op).copied().unwrap_or(0)
}

/// All requests that have passed through `proxy`, except lease probes, which a client may send at
/// any time.
pub(crate) fn without_probes(proxy: &FaultProxy) -> BTreeMap<OpCode, u64> {
    let mut requests = proxy.requests();
    requests.remove(&OpCode::Sync);
    requests
}
