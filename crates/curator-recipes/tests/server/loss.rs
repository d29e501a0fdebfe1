//! A holder that is cut off knows that its lock is gone before anybody else has it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use curator_recipes::client::{ConnectionState, SessionEnd};
use curator_recipes::{LockLost, LossReason, revoke};
use curator_test::{Direction, FaultProxy, OpCode, TestingServer};

use crate::support::{
    LONG_SESSION, SHORT_SESSION, builder, children, client, connect, mutex, path, queue_of, requests_of, soon,
    still_waits, until,
};

/// Each with sessions and a network of its own, as a round takes as long as a session's timeout.
const LANES: usize = 5;
const ROUNDS: usize = 4;

/// Rounds in which a holder is cut off while another session waits for its lock.
async fn cut_off(direction: Direction) {
    futures_util::future::join_all((0..LANES).map(|_| lane(direction))).await;
}

async fn lane(direction: Direction) {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let holder = builder(&proxy.connect_string(), SHORT_SESSION).connect().await.unwrap();
    let waiter = connect(&server.connect_string()).await;
    let path = path("cut-off");
    let (held, wanted) = (mutex(&holder, &path), mutex(&waiter, &path));
    for round in 0..ROUNDS {
        let guard = soon(held.acquire()).await.unwrap();
        let waiting = tokio::spawn({
            let wanted = wanted.clone();
            async move { wanted.acquire().await.unwrap() }
        });
        queue_of(&waiter, &path, 2).await;
        let told = Arc::new(AtomicBool::new(false));
        let (lost, guard) = (Arc::clone(&told), Arc::new(guard));
        let watching = tokio::spawn({
            let guard = Arc::clone(&guard);
            async move {
                let loss = guard.lost().await;
                lost.store(true, Ordering::SeqCst);
                loss
            }
        });
        assert!(guard.is_valid());
        let epoch = holder.session().await.unwrap().epoch();

        proxy.black_hole(direction);
        let new = soon(waiting).await.unwrap();
        assert!(!guard.is_valid(), "{direction:?}, round {round}: two valid guards");
        assert!(told.load(Ordering::SeqCst), "{direction:?}, round {round}: the holder was not told in time");
        let loss = soon(watching).await.unwrap();
        assert_eq!(loss.reason, LossReason::SessionLost(SessionEnd::LeaseOver), "{direction:?}, round {round}");
        assert!(new.is_valid());
        assert!(new.fencing_token() > guard.fencing_token());

        proxy.heal();
        drop(guard);
        new.release().await.unwrap();
        let session = soon(async {
            loop {
                if let Ok(session) = holder.session().await {
                    break session;
                }
            }
        });
        assert!(session.await.epoch() > epoch);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_cut_off_both_ways_is_told_before_another_holds() {
    cut_off(Direction::Both).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_is_not_heard_is_told_before_another_holds() {
    cut_off(Direction::ToServer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_hears_nothing_is_told_before_another_holds() {
    cut_off(Direction::ToClient).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_closed_on_the_server_is_told_to_the_holder_at_once() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    // So long a session that its lease cannot be the messenger.
    let holder = builder(&proxy.connect_string(), LONG_SESSION).connect().await.unwrap();
    let path = path("closed-on-server");
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let credentials = proxy.sessions().pop().unwrap();
    assert_eq!(credentials.session_id, guard.session_id());
    let lease = guard.valid_until();
    curator_test::close_session(server.address(), &credentials).await.unwrap();
    let loss = soon(guard.lost()).await;
    assert_eq!(loss.reason, LossReason::SessionLost(SessionEnd::Expired));
    assert!(!lease.has_passed(), "the lease ran out before the server's word came");
    assert!(!guard.is_valid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deletion_of_the_node_is_told_to_the_holder_whether_it_had_waited_or_not() {
    let (holder, admin, path) = (client().await, client().await, path("deleted"));
    let mutex = mutex(&holder, &path);
    let at_once = mutex.acquire().await.unwrap();
    let waited = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await.unwrap() }
    });
    queue_of(&admin, &path, 2).await;
    let after_delete = async |guard: curator_recipes::LockGuard| {
        let node = guard.node().clone();
        let told = tokio::spawn(async move {
            let loss = guard.lost().await;
            assert!(!guard.is_valid());
            loss
        });
        admin.delete().for_path(&node).await.unwrap();
        let LockLost { path, reason, .. } = soon(told).await.unwrap();
        assert_eq!((path, reason), (node, LossReason::NodeDeleted));
    };
    after_delete(at_once).await;
    // The deletion of the first has made the second the holder.
    after_delete(soon(waited).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_writing_to_the_node_is_no_loss() {
    let (holder, admin, path) = (client().await, client().await, path("written"));
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let guard = Arc::new(guard);
    let told = tokio::spawn({
        let guard = Arc::clone(&guard);
        async move { guard.lost().await }
    });
    for _ in 0..3 {
        admin.set_data(guard.node(), "noted", None).await.unwrap();
        assert!(still_waits(&told, &holder).await);
        assert!(guard.is_valid());
    }
    admin.delete().for_path(guard.node()).await.unwrap();
    assert_eq!(soon(told).await.unwrap().reason, LossReason::NodeDeleted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_drops_the_work_when_the_lock_is_lost_and_passes_its_result_on_otherwise() {
    let (holder, admin, path) = (client().await, client().await, path("run"));
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    assert_eq!(guard.run(async { 7 }).await, Ok(7));
    let (dropped, observed) = tokio::sync::oneshot::channel::<()>();
    let node = guard.node().clone();
    let work = async {
        let _held = dropped;
        admin.delete().for_path(&node).await.unwrap();
        std::future::pending::<()>().await;
    };
    let lost = soon(guard.run(work)).await.unwrap_err();
    assert_eq!(lost.reason, LossReason::NodeDeleted);
    assert!(observed.await.is_err(), "the work was not dropped");
}

/// A flap shorter than the lease: nothing is lost, and waiters wait on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flap_loses_neither_the_lock_nor_a_place_in_the_queue() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let flapping = connect(&proxy.connect_string()).await;
    let (steady, path) = (client().await, path("flap"));
    let guard = mutex(&flapping, &path).acquire().await.unwrap();
    let mut waiters = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let mutex = mutex(&flapping, &path);
        waiters.spawn(async move { mutex.acquire().await.unwrap() });
    }
    queue_of(&steady, &path, 4).await;
    let flap = async || {
        let mut states = flapping.connection_states();
        proxy.cut();
        assert!(soon(states.wait_for(ConnectionState::Suspended)).await);
        assert!(soon(states.wait_for(ConnectionState::Reconnected)).await);
    };
    flap().await;
    assert!(guard.is_valid());
    assert_eq!(children(&steady, &path).await.len(), 4);
    guard.release().await.unwrap();
    for left in (0..3).rev() {
        let guard = soon(waiters.join_next()).await.unwrap().unwrap();
        flap().await;
        assert!(guard.is_valid());
        guard.release().await.unwrap();
        queue_of(&steady, &path, left).await;
    }
}

/// An ordinary `select!`: one branch has ended, and the future of the other is still there and polled by nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_lost_future_blinds_nobody() {
    let (holder, admin, path) = (client().await, client().await, path("parked"));
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let mut parked = std::pin::pin!(guard.lost());
    tokio::select! {
        biased;
        lost = &mut parked => panic!("{lost}"),
        () = std::future::ready(()) => {}
    }
    let working = guard.run(async {
        admin.delete().for_path(guard.node()).await.unwrap();
        std::future::pending::<()>().await;
    });
    assert_eq!(soon(working).await.unwrap_err().reason, LossReason::NodeDeleted);
    assert!(!guard.is_valid());
    assert_eq!(soon(guard.lost()).await.reason, LossReason::NodeDeleted);
    assert_eq!(soon(parked).await.reason, LossReason::NodeDeleted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whether_a_guard_is_valid_is_told_without_a_request() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (holder, other, path) = (connect(&proxy.connect_string()).await, client().await, path("valid"));
    let held = mutex(&other, &path).acquire().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = mutex(&holder, &path);
        async move { soon(mutex.acquire()).await.unwrap() }
    });
    queue_of(&other, &path, 2).await;
    proxy.wait_for_reply(OpCode::GetData, 2).await.unwrap();
    held.release().await.unwrap();
    let guard = Arc::new(waiting.await.unwrap());
    // A write uses up the watch that the acquire has placed.
    let events = proxy.notifications();
    revoke(&other, guard.node()).await.unwrap();
    until(async || {
        other.check_exists("/").await.unwrap();
        proxy.notifications() > events
    })
    .await;
    // What the server sends comes in order: the event is here.
    holder.check_exists("/").await.unwrap();
    let sent = requests_of(&proxy, OpCode::GetData);
    for _ in 0..3 {
        assert!(guard.is_valid());
        holder.check_exists("/").await.unwrap();
    }
    assert_eq!(requests_of(&proxy, OpCode::GetData), sent);
    // Whoever waits is not blinded by those who only look.
    let lost = tokio::spawn({
        let guard = Arc::clone(&guard);
        async move { guard.lost().await }
    });
    proxy.wait_for_reply(OpCode::GetData, sent + 1).await.unwrap();
    assert!(guard.is_valid());
    other.delete().for_path(guard.node()).await.unwrap();
    until(async || {
        other.check_exists("/").await.unwrap();
        !guard.is_valid()
    })
    .await;
    let lost = soon(lost).await.unwrap();
    assert_eq!((lost.path, lost.reason), (guard.node().clone(), LossReason::NodeDeleted));
}
