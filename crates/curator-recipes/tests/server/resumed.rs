//! A session that is resumed over another connection keeps its locks and its places in the queues.

use std::pin::pin;

use curator_recipes::client::{ConnectionState, CuratorClient};
use curator_recipes::{InterProcessMultiLock, LockGuard, LossReason};
use curator_test::{FaultProxy, OpCode};
use futures_util::FutureExt as _;
use futures_util::future::join_all;

use crate::support::subjects::{Held, Kind};
use crate::support::{
    acquiring, arc, behind_proxy, children, client, keep_empty, mutex, path, queue_of, requests_of,
    soon, spawn_acquire, still_waits,
};

/// Cuts the connection, and holds back the replies to the next handshakes. Returns when the client
/// has sent the second handshake.
async fn outage(proxy: &FaultProxy) {
    proxy.reset_counts();
    proxy.hold_replies(OpCode::CreateSession);
    proxy.cut();
    soon(proxy.wait_for_request(OpCode::CreateSession, 2))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_without_a_watch_is_invalid_when_its_session_resumes_without_its_node() {
    let (proxy, holding) = behind_proxy().await;
    let steady = client().await;
    let base = path("unwatched");
    let mut guards = Vec::new();
    for kind in Kind::all() {
        guards.push(
            kind.lock(&holding, &format!("{base}/{kind:?}"))
                .acquire()
                .await
                .unwrap(),
        );
    }
    let writing = Kind::Write
        .lock(&holding, &format!("{base}/downgraded"))
        .acquire()
        .await
        .unwrap();
    guards.push(writing.downgrade().await.unwrap());
    // The owners of two more locks wait for a loss: the first lock is lost, the second one is kept.
    let watched = format!("{base}/watched");
    let kept = format!("{base}/kept");
    guards.push(Held::Guard(
        mutex(&holding, &watched).acquire().await.unwrap(),
    ));
    let kept_guard = mutex(&holding, &kept).acquire().await.unwrap();
    let [lost, not_lost] = [guards.last().unwrap().loss(), kept_guard.loss()].map(tokio::spawn);
    let next = acquiring(&steady, &kept);
    queue_of(&steady, &kept, 2).await;
    assert!(still_waits(&lost, &holding).await);

    let mut states = holding.connection_states();
    outage(&proxy).await;
    for guard in &guards {
        steady
            .delete()
            .for_path(guard.nodes().last().unwrap())
            .await
            .unwrap();
    }
    proxy.release_held();
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    for guard in &guards {
        assert!(!guard.is_valid(), "{guard:?}");
        assert_eq!(soon(guard.lost()).await.reason, LossReason::NodeDeleted);
    }
    assert_eq!(soon(lost).await.unwrap().reason, LossReason::NodeDeleted);
    assert!(kept_guard.is_valid());
    assert!(still_waits(&not_lost, &holding).await && still_waits(&next, &steady).await);
    kept_guard.release().await.unwrap();
    assert!(soon(next).await.unwrap().unwrap().is_valid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_nodes_of_a_thousand_holders_are_checked_in_two_requests() {
    let (proxy, holding) = behind_proxy().await;
    let base = path("thousand");
    let acquire = async |number| {
        mutex(&holding, &format!("{base}/{number}"))
            .acquire()
            .await
            .unwrap()
    };
    let mut guards = vec![acquire(0).await];
    for (holds, requests) in [(1, 1), (1_000, 2)] {
        guards.extend(join_all((guards.len()..holds).map(acquire)).await);
        let mut states = holding.connection_states();
        proxy.reset_counts();
        // The checks are in the pipeline of the first probe, so all are sent before any reply
        // arrives.
        for op in [OpCode::Sync, OpCode::Multi, OpCode::MultiRead] {
            proxy.hold_replies(op);
        }
        proxy.cut();
        soon(proxy.wait_for_request(OpCode::MultiRead, requests))
            .await
            .unwrap();
        proxy.release_held();
        assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
        assert_eq!(
            requests_of(&proxy, OpCode::MultiRead),
            requests,
            "{holds} holds"
        );
        assert!(guards.iter().all(LockGuard::is_valid));
    }
    // The nodes of released locks are not read.
    for guard in guards {
        guard.release().await.unwrap();
    }
    let mut states = holding.connection_states();
    proxy.reset_counts();
    proxy.cut();
    assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    assert_eq!(requests_of(&proxy, OpCode::MultiRead), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_is_not_polled_while_its_session_resumes_checks_its_node() {
    let (proxy, holding) = behind_proxy().await;
    let steady = client().await;
    let dir = path("late");
    let mutex = mutex(&holding, &dir);
    // The directory exists, so the next create creates the queue node.
    keep_empty(&steady, &[&dir]).await;
    let mut states = holding.connection_states();
    proxy.hold_replies(OpCode::Create2);
    let mut acquire = pin!(mutex.acquire());
    assert!((&mut acquire).now_or_never().is_none());
    proxy.release_held();
    // When this request is answered, all earlier requests have been answered.
    holding.check_exists("/").await.unwrap();
    let [node] = &children(&steady, &dir).await[..] else {
        panic!("the acquire has one node")
    };
    outage(&proxy).await;
    steady
        .delete()
        .for_path(format!("{dir}/{node}"))
        .await
        .unwrap();
    proxy.release_held();
    assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    let guard = soon(acquire).await.unwrap();
    assert_ne!(guard.node().name(), node);
    assert!(steady.check_exists(guard.node()).await.unwrap().is_some());
    guard.release().await.unwrap();
}

/// All watches of a client break together, so one pipeline of reads finds the changes that all of
/// them have missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_connection_breaks_checks_all_its_queues_in_one_pipeline() {
    let (proxy, waiting) = behind_proxy().await;
    let steady = client().await;
    let base = path("one-look");
    let paths = ["1", "2"].map(|queue| format!("{base}/{queue}"));
    let multi = |client: &CuratorClient| InterProcessMultiLock::new(client, &paths).unwrap();
    let held = multi(&steady).acquire().await.unwrap();
    let waiter = spawn_acquire(arc(multi(&waiting)));
    // In each queue, the waiter watches the node ahead and its own.
    proxy.wait_for_reply(OpCode::GetData, 4).await.unwrap();
    assert!(still_waits(&waiter, &waiting).await);
    proxy.reset_counts();
    proxy.cut();
    proxy.wait_for_reply(OpCode::GetData, 4).await.unwrap();
    assert!(still_waits(&waiter, &waiting).await);
    let sent =
        [OpCode::GetData, OpCode::MultiRead, OpCode::GetChildren].map(|op| requests_of(&proxy, op));
    assert_eq!(sent, [4, 1, 0]);
    held.release().await.unwrap();
    assert!(soon(waiter).await.unwrap().unwrap().is_valid());
}
