//! A holder that is cut off is notified of the loss of its lock before another client acquires it.
//! No client adopts the nodes of a dead session.

use curator_recipes::client::{self, ConnectionState, CuratorClient, SessionEnd};
use curator_recipes::{Error, InterProcessSemaphoreV2, LockGuard, LockLost, LossReason, revoke};
use curator_test::{Direction, OpCode, TestingServer};
use futures_util::future::join_all;

use crate::support::{
    SHORT_SESSION, acquiring, behind_proxy, behind_proxy_with, children, client, connect, mutex,
    nothing_left, path, queue_of, requests_of, simulated, soon, until, until_simulated,
};

/// In each round, a holder is cut off while another session waits for its lock.
async fn cut_off_twice(direction: Direction) {
    let (proxy, holder) = behind_proxy_with(|builder| builder.session_timeout(SHORT_SESSION)).await;
    let waiter = client().await;
    let path = path("cut-off");
    let held = mutex(&holder, &path);
    let mut lost = None;
    for round in 0..2 {
        until(async || {
            holder
                .session()
                .await
                .is_ok_and(|session| Some(session.epoch()) > lost)
        })
        .await;
        let guard = soon(held.acquire()).await.unwrap();
        let waiting = acquiring(&waiter, &path);
        queue_of(&waiter, &path, 2).await;
        let notified = tokio::spawn(guard.loss());
        assert!(guard.is_valid());
        lost = Some(holder.session().await.unwrap().epoch());
        proxy.black_hole(direction);
        let new = soon(waiting).await.unwrap().unwrap();
        assert!(
            !guard.is_valid(),
            "{direction:?}, round {round}: two valid guards"
        );
        assert!(
            notified.is_finished(),
            "{direction:?}, round {round}: the holder was not notified in time"
        );
        let loss = notified.await.unwrap();
        assert_eq!(
            loss.reason,
            LossReason::SessionLost(SessionEnd::LeaseOver),
            "{direction:?}, round {round}"
        );
        assert!(new.is_valid());
        assert!(new.fencing_token() > guard.fencing_token());

        proxy.heal();
        drop(guard);
        new.release().await.unwrap();
    }
}

/// Runs in real time, to check the lease against the clock of a server: in the schedules of
/// `curator-simulation`, the clocks agree. Runs several holders at a time, because each round takes
/// a session timeout.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_cut_off_in_any_direction_is_notified_before_another_holds() {
    let directions = [Direction::Both, Direction::ToServer, Direction::ToClient];
    join_all(directions.repeat(8).into_iter().map(cut_off_twice)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holder_is_notified_of_a_deletion_whether_it_had_waited_or_not() {
    let holder = client().await;
    let admin = client().await;
    let path = path("deleted");
    let without_wait = mutex(&holder, &path).acquire().await.unwrap();
    let waited = acquiring(&holder, &path);
    queue_of(&admin, &path, 2).await;
    let assert_notified_of_delete = async |guard: LockGuard| {
        let node = guard.node().clone();
        let notified = tokio::spawn(async move {
            let loss = guard.lost().await;
            assert!(!guard.is_valid());
            loss
        });
        admin.delete().for_path(&node).await.unwrap();
        let LockLost { path, reason, .. } = soon(notified).await.unwrap();
        assert_eq!((path, reason), (node, LossReason::NodeDeleted));
    };
    assert_notified_of_delete(without_wait).await;
    // The delete of the first holder's node made the waiter the holder.
    assert_notified_of_delete(soon(waited).await.unwrap().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_drops_the_work_when_the_lock_is_lost_and_passes_its_result_on_otherwise() {
    let holder = client().await;
    let admin = client().await;
    let path = path("run");
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    assert_eq!(guard.run(async { 7 }).await, Ok(7));
    let (alive_tx, alive_rx) = tokio::sync::oneshot::channel::<()>();
    let node = guard.node().clone();
    let work = async {
        let _alive = alive_tx;
        admin.delete().for_path(&node).await.unwrap();
        std::future::pending::<()>().await;
    };
    let lost = soon(guard.run(work)).await.unwrap_err();
    assert_eq!(lost.reason, LossReason::NodeDeleted);
    assert!(alive_rx.await.is_err(), "the work was not dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn try_run_returns_one_error_type_for_a_failure_of_the_work_and_for_a_loss() {
    let holder = client().await;
    let admin = client().await;
    let path = path("try-run");
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let refused = async || Err::<u8, Error>(holder.resolve("no path").unwrap_err().into());
    assert_eq!(guard.try_run(async { Ok::<_, Error>(7) }).await.unwrap(), 7);
    let error = guard.try_run(refused()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Client(client::Error::InvalidPath(_))),
        "{error:?}"
    );
    admin.delete().for_path(guard.node()).await.unwrap();
    let error = soon(guard.try_run(std::future::pending::<Result<u8, Error>>()))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::Lost(lost) if lost.reason == LossReason::NodeDeleted),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn is_valid_of_a_guard_sends_no_request() {
    let (proxy, holder) = behind_proxy().await;
    let other = client().await;
    let path = path("valid");
    let held = mutex(&other, &path).acquire().await.unwrap();
    let waiting = acquiring(&holder, &path);
    queue_of(&other, &path, 2).await;
    proxy.wait_for_reply(OpCode::GetData, 2).await.unwrap();
    held.release().await.unwrap();
    let guard = soon(waiting).await.unwrap().unwrap();
    // A write fires the watch that the acquire has set.
    let events = proxy.notifications();
    revoke(&other, guard.node()).await.unwrap();
    until(async || {
        other.check_exists("/").await.unwrap();
        proxy.notifications() > events
    })
    .await;
    // The server sends replies and events in order, so the event has arrived by now.
    holder.check_exists("/").await.unwrap();
    let sent = requests_of(&proxy, OpCode::GetData);
    for _ in 0..3 {
        assert!(guard.is_valid());
        holder.check_exists("/").await.unwrap();
    }
    assert_eq!(requests_of(&proxy, OpCode::GetData), sent);
    // Calls of `is_valid` do not keep `loss` from detecting the deletion.
    let lost = tokio::spawn(guard.loss());
    proxy
        .wait_for_reply(OpCode::GetData, sent + 1)
        .await
        .unwrap();
    other.delete().for_path(guard.node()).await.unwrap();
    until(async || {
        other.check_exists("/").await.unwrap();
        !guard.is_valid()
    })
    .await;
    assert_eq!(soon(lost).await.unwrap().reason, LossReason::NodeDeleted);
}

/// Acquires `leases` leases of a semaphore, or a mutex if `leases` is 0.
async fn acquire(client: CuratorClient, path: String, leases: usize) -> Vec<LockGuard> {
    if leases == 0 {
        return vec![mutex(&client, &path).acquire().await.unwrap()];
    }
    let semaphore = InterProcessSemaphoreV2::new(&client, path, leases).unwrap();
    semaphore
        .acquire_many(leases)
        .await
        .unwrap()
        .into_iter()
        .map(Into::into)
        .collect()
}

/// The session dies between the create and its reply. When the next attempt starts, the nodes that
/// this contender has created in the dead session still exist. In this case, Curator can have two
/// holders (CURATOR-1121).
#[tokio::test(start_paused = true)]
async fn the_node_of_a_dead_session_is_never_adopted() {
    for (dir, create, leases) in [("", OpCode::Create2, 0), ("/leases", OpCode::Multi, 2)] {
        let (simulation, process, unlucky) =
            simulated(|builder| builder.session_timeout(SHORT_SESSION)).await;
        let steady = connect(&simulation.connect_string()).await;
        let path = "/dead-session".to_owned();
        // For a mutex, the directory `queue` does not exist.
        let dir = format!("{path}{dir}");
        let queue = format!("{path}/locks");
        // This acquire creates the directories.
        drop(acquire(steady.clone(), path.clone(), leases).await);
        nothing_left(&steady, &[&dir, &queue]).await;
        simulation.silence(move |request| request.op() == create);
        let acquiring = tokio::spawn(acquire(unlucky.clone(), path.clone(), leases));
        until_simulated(async || children(&steady, &dir).await.len() == leases.max(1)).await;
        assert_eq!(children(&steady, &queue).await, [""; 0]);
        let old = children(&steady, &dir).await;
        let ended = unlucky.session().await.unwrap().id();
        // No packet passes any more, so the client's lease ends the session while its nodes still
        // exist.
        simulation.partition(&process, 1);
        let mut states = unlucky.connection_states();
        assert!(soon(states.wait_for(ConnectionState::Lost)).await);
        assert_eq!(children(&steady, &dir).await, old);
        simulation.heal_partition(&process, 1);
        let guards = soon(acquiring).await.unwrap();
        // The acquire returned only when the old nodes, which were ahead of the new ones, were
        // deleted.
        let now = children(&steady, &dir).await;
        assert_eq!(now.len(), guards.len());
        for guard in guards {
            assert!(guard.is_valid() && guard.session_id() != ended);
            let name = guard.node().name().to_owned();
            assert!(now.contains(&name) && !old.contains(&name));
            guard.release().await.unwrap();
        }
        nothing_left(&unlucky, &[&dir, &queue]).await;
        // The lock is free again.
        drop(soon(acquire(steady, path, leases)).await);
    }
}

/// If the client did not compare the session ids, both guards would stay valid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_resume_opens_another_session_is_invalid_before_another_holds() {
    let (proxy, holder) = behind_proxy().await;
    let waiter = client().await;
    let path = path("replaced");
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let waiting = acquiring(&waiter, &path);
    queue_of(&waiter, &path, 2).await;
    proxy.replace_sessions(true);
    proxy.cut();
    let loss = soon(guard.loss()).await;
    assert_eq!(loss.reason, LossReason::SessionLost(SessionEnd::Expired));
    assert!(!guard.is_valid() && !waiting.is_finished());
    // The session that could not be resumed still has the lock.
    let address = TestingServer::shared().await.address();
    curator_test::close_session(address, &proxy.sessions()[0])
        .await
        .unwrap();
    let new = soon(waiting).await.unwrap().unwrap();
    assert!(new.is_valid() && !guard.is_valid());
    assert!(new.fencing_token() > guard.fencing_token());
}
