//! A session that goes on over another connection keeps its locks and its places.

use std::sync::Arc;

use curator_recipes::client::{ConnectionState, CuratorClient};
use curator_recipes::{InterProcessLock, InterProcessMultiLock, InterProcessSemaphoreMutex, LossReason};
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{client, connect, mutex, path, queue_of, read_write, requests_of, soon, still_waits};

/// Cuts the connection, and lets nobody answer the next one until another one is tried.
async fn outage(proxy: &FaultProxy) {
    proxy.reset_counts();
    proxy.hold_replies(OpCode::CreateSession);
    proxy.cut();
    soon(proxy.wait_for_request(OpCode::CreateSession, 2)).await.unwrap();
}

/// A lock of each kind, and the directory in which its waiters stand.
fn locks(client: &CuratorClient, base: &str) -> Vec<(Arc<dyn InterProcessLock>, String)> {
    let at = |kind: &str| format!("{base}/{kind}");
    let multi = InterProcessMultiLock::new(client, [at("multi/1"), at("multi/2")]).unwrap();
    vec![
        (Arc::new(mutex(client, &at("mutex"))), at("mutex")),
        (Arc::new(read_write(client, &at("write")).write().clone()), at("write")),
        // Readers wait for it.
        (Arc::new(read_write(client, &at("read")).write().clone()), at("read")),
        (Arc::new(multi), at("multi/2")),
        (Arc::new(InterProcessSemaphoreMutex::new(client, at("semaphore")).unwrap()), at("semaphore/locks")),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_learn_of_a_release_that_their_session_missed() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let (steady, waiting, base) = (client().await, connect(&proxy.connect_string()).await, path("missed"));
    let session = waiting.session().await.unwrap();
    let mut guards = Vec::new();
    for (blocker, _) in locks(&steady, &base) {
        guards.push(blocker.acquire().await.unwrap());
    }
    let mut waiters = Vec::new();
    for (lock, directory) in locks(&waiting, &base) {
        waiters.push(if directory.ends_with("/read") {
            let lock = read_write(&waiting, &directory);
            tokio::spawn(async move { lock.read().acquire().await.unwrap() })
        } else {
            tokio::spawn(async move { lock.acquire().await.unwrap() })
        });
        queue_of(&steady, &directory, if directory.ends_with("/locks") { 1 } else { 2 }).await;
    }
    outage(&proxy).await;
    for guard in guards {
        guard.release().await.unwrap();
    }
    proxy.release_held();
    for waiter in waiters {
        let guard = soon(waiter).await.unwrap();
        assert!(guard.is_valid());
        guard.release().await.unwrap();
    }
    assert!(session.is_valid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_keep_their_lock_and_learn_of_a_deletion_that_their_session_missed() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let (steady, holding) = (client().await, connect(&proxy.connect_string()).await);
    let (kept, deleted) = (path("kept"), path("deleted"));
    let mut states = holding.connection_states();
    let watched = async |path: &str| {
        let guard = Arc::new(mutex(&holding, path).acquire().await.unwrap());
        let lost = tokio::spawn({
            let guard = Arc::clone(&guard);
            async move { guard.lost().await }
        });
        (guard, lost)
    };
    let ((kept_guard, not_lost), (deleted_guard, lost)) = (watched(&kept).await, watched(&deleted).await);
    let next = tokio::spawn({
        let mutex = mutex(&steady, &kept);
        async move { mutex.acquire().await.unwrap() }
    });
    queue_of(&steady, &kept, 2).await;
    outage(&proxy).await;
    steady.delete().for_path(deleted_guard.node()).await.unwrap();
    proxy.release_held();
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    assert_eq!(soon(lost).await.unwrap().reason, LossReason::NodeDeleted);
    assert!(!deleted_guard.is_valid());
    assert!(kept_guard.is_valid());
    assert!(still_waits(&not_lost, &holding).await);
    assert!(still_waits(&next, &steady).await);
    not_lost.abort();
    drop(not_lost.await);
    Arc::into_inner(kept_guard).unwrap().release().await.unwrap();
    assert!(soon(next).await.unwrap().is_valid());
}

/// All watches of a client break together, so one look tells what all of them have missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_connection_breaks_looks_at_all_its_queues_with_one_pipeline() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let (steady, waiting, base) = (client().await, connect(&proxy.connect_string()).await, path("one-look"));
    let paths = ["1", "2"].map(|queue| format!("{base}/{queue}"));
    let multi = |client: &CuratorClient| InterProcessMultiLock::new(client, &paths).unwrap();
    let held = multi(&steady).acquire().await.unwrap();
    let waiter = tokio::spawn({
        let multi = multi(&waiting);
        async move { multi.acquire().await.unwrap() }
    });
    // In each queue the node ahead is watched, and the own one.
    proxy.wait_for_reply(OpCode::GetData, 4).await.unwrap();
    assert!(still_waits(&waiter, &waiting).await);
    proxy.reset_counts();
    proxy.cut();
    proxy.wait_for_reply(OpCode::GetData, 4).await.unwrap();
    assert!(still_waits(&waiter, &waiting).await);
    let sent = [OpCode::GetData, OpCode::MultiRead, OpCode::GetChildren].map(|op| requests_of(&proxy, op));
    assert_eq!(sent, [4, 1, 0]);
    held.release().await.unwrap();
    assert!(soon(waiter).await.unwrap().is_valid());
}
