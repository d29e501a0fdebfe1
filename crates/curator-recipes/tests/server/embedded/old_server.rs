//! Servers older than the embedded one: some do not return the stats of nodes that a transaction
//! creates (ZOOKEEPER-4026: older than 3.7.2, and 3.8.0 to 3.8.1), some do not support `multiRead`
//! (older than 3.6). Runs in real time, to test both transports: a simulation supports only the
//! native one.

use std::time::Duration;

use curator_recipes::client::{self, CuratorClient};
use curator_recipes::{
    FencingToken, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreV2, LockGuard,
    SemaphoreLease,
};
use curator_test::{Dialect, EmbeddedServer, FaultProxy, OpCode};

use crate::support::subjects::{Kind, Lock};
use crate::support::{FAULTS, LONG_SESSION, builder, soon, until};

fn old_server() -> EmbeddedServer {
    EmbeddedServer::builder()
        .dialect(Dialect::ZooKeeper3_8_0)
        .start()
        .unwrap()
}

async fn connect(connect_string: &str) -> CuratorClient {
    let builder =
        builder(connect_string, LONG_SESSION).operation_timeout(Duration::from_millis(500));
    builder.connect().await.unwrap()
}

/// Checks the holder's tokens against its nodes, and returns the fencing token.
async fn checked_token(client: &CuratorClient, guard: &LockGuard) -> FencingToken {
    for (node, token) in guard.fencing_tokens() {
        let stat = client
            .check_exists(node)
            .await
            .unwrap()
            .expect("the node exists");
        assert_eq!(token.to_string(), stat.czxid.to_string());
    }
    assert!(guard.is_valid());
    guard.fencing_token()
}

const KINDS: [Kind; 2] = [Kind::SemaphoreMutex, Kind::Paths];

fn lock(kind: Kind, client: &CuratorClient) -> Lock {
    kind.lock(client, &format!("/{kind:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leases_of_a_semaphore_have_the_tokens_of_their_nodes() {
    let server = old_server();
    let client = connect(&server.connect_string()).await;
    let semaphore = InterProcessSemaphoreV2::new(&client, "/semaphore", 4).unwrap();
    let leases = soon(semaphore.acquire_many(3)).await.unwrap();
    for lease in &leases {
        checked_token(&client, lease).await;
    }
    let fourth = soon(semaphore.acquire()).await.unwrap();
    assert!(checked_token(&client, &fourth).await > leases[2].fencing_token());
    SemaphoreLease::release_all(leases.into_iter().chain([fourth]))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_acquire_their_locks_with_rising_tokens() {
    let server = old_server();
    let holder = connect(&server.connect_string()).await;
    let waiter = connect(&server.connect_string()).await;
    for kind in KINDS {
        let held = lock(kind, &holder);
        let wanted = lock(kind, &waiter);
        let guard = soon(held.acquire()).await.unwrap();
        let token = guard.fencing_token();
        let waiting = tokio::spawn(async move { soon(wanted.acquire()).await });
        until(async || held.participants().await.unwrap().len() == 2 * guard.nodes().count()).await;
        guard.release().await.unwrap();
        let guard = waiting
            .await
            .unwrap()
            .unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert!(checked_token(&holder, &guard).await > token, "{kind:?}");
        guard.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_exists_request_leaves_one_holder_and_a_free_lock_after_its_release() {
    let server = old_server();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = connect(&proxy.connect_string()).await;
    let other = connect(&server.connect_string()).await;
    for kind in KINDS {
        let others = lock(kind, &other);
        let lock = lock(kind, &client);
        let name = kind.name();
        // Creates the directories. The acquire that creates them sends no `exists` request, because
        // all servers return the stats of containers.
        lock.acquire().await.unwrap().release().await.unwrap();
        for (fault, arm) in FAULTS {
            proxy.reset_counts();
            arm(&proxy, OpCode::Exists);
            let guard = soon(lock.acquire())
                .await
                .unwrap_or_else(|error| panic!("{name}, {fault}: {error}"));
            assert!(
                proxy.requests().contains_key(&OpCode::Exists),
                "{name}, {fault}: no exists request was sent"
            );
            checked_token(&other, &guard).await;
            assert!(
                others.try_acquire().await.unwrap().is_none(),
                "{name}, {fault}"
            );
            guard.release().await.unwrap();
            soon(client.janitor().idle()).await;
            let next = others.try_acquire().await.unwrap();
            next.unwrap_or_else(|| panic!("{name}, {fault}: the lock is not free"))
                .release()
                .await
                .unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_3_6_locks_read_one_by_one_after_the_server_has_refused_multi_read_once() {
    let server = EmbeddedServer::builder()
        .dialect(Dialect::ZooKeeper3_5)
        .start()
        .unwrap();
    let client = connect(&server.connect_string()).await;
    let session = client.session().await.unwrap().id();
    for kind in KINDS {
        let guard = soon(lock(kind, &client).acquire())
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", kind.name()));
        checked_token(&client, &guard).await;
        guard.release().await.unwrap();
    }
    assert_eq!(server.requests().get(&OpCode::MultiRead), Some(&1));
    assert_eq!(client.session().await.unwrap().id(), session);
    // The other locks do not need `multiRead`.
    let lock = InterProcessReadWriteLock::new(&client, "/read-write").unwrap();
    let writing = soon(lock.write().acquire()).await.unwrap();
    writing.downgrade().await.unwrap().release().await.unwrap();
    let mutex = InterProcessMutex::new(&client, "/plain").unwrap();
    let guard = soon(mutex.acquire()).await.unwrap();
    guard
        .transaction()
        .check("/plain", None)
        .unwrap()
        .commit()
        .await
        .unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_3_6_held_nodes_are_checked_one_by_one_after_a_reconnect() {
    let server = EmbeddedServer::builder()
        .dialect(Dialect::ZooKeeper3_5)
        .start()
        .unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = connect(&proxy.connect_string()).await;
    let other = connect(&server.connect_string()).await;
    let [kept, deleted] =
        ["/kept", "/deleted"].map(|path| InterProcessMutex::new(&client, path).unwrap());
    let kept = kept.acquire().await.unwrap();
    let deleted = deleted.acquire().await.unwrap();
    let mut states = client.connection_states();
    other.delete().for_path(deleted.node()).await.unwrap();
    // A server that rejects `multiRead` closes the connection, in which case the replies to the
    // pipelined probe can be lost.
    proxy.swallow_next_reply(OpCode::Multi);
    proxy.swallow_next_reply(OpCode::Sync);
    proxy.cut();
    assert!(soon(states.wait_for(client::ConnectionState::Reconnected)).await);
    // After the server has rejected `multiRead`, the client does not send it again.
    assert_eq!(proxy.requests().get(&OpCode::MultiRead), Some(&1));
    assert_eq!((kept.is_valid(), deleted.is_valid()), (true, false));
}
