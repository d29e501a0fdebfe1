//! The compositions in `examples/compositions`, with several clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use curator_recipes::client::{CuratorClient, Error as ClientError, RetryNTimes};
use curator_recipes::{Error, LockLost};
use curator_test::{FaultProxy, OpCode, TestingServer, close_session};
use tokio::task::{JoinHandle, JoinSet};

use crate::support::{
    DEFAULT_TIMEOUT, FAULTS, LONG_SESSION, Row, adjusted_server, behind_proxy, behind_proxy_with,
    builder, children, client as connected, connect, path, shared_address, soon, still_waits,
    until, until_watched,
};
use barrier::DistributedBarrier;
use double_barrier::{Failure, Member};
use task_queue::TaskQueue;
use ttl_node::keep_alive;

#[allow(unreachable_pub, reason = "a file that users copy")]
#[path = "../../../../examples/compositions/barrier.rs"]
mod barrier;
#[allow(unreachable_pub, reason = "a file that users copy")]
#[path = "../../../../examples/compositions/double_barrier.rs"]
mod double_barrier;
#[allow(unreachable_pub, reason = "a file that users copy")]
#[path = "../../../../examples/compositions/task_queue.rs"]
mod task_queue;
#[allow(unreachable_pub, reason = "a file that users copy")]
#[path = "../../../../examples/compositions/ttl_node.rs"]
mod ttl_node;

fn session(client: &CuratorClient) -> i64 {
    client.current_session().unwrap().id()
}

/// Starts to wait, and returns when the barrier is watched.
async fn waiting_at(path: &str, client: &CuratorClient) -> JoinHandle<Result<(), ClientError>> {
    let barrier = DistributedBarrier::new(client, path).unwrap();
    let waiting = tokio::spawn(async move { barrier.wait().await });
    until_watched(session(client), path).await;
    waiting
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_wait_at_a_barrier_until_it_is_removed_or_their_client_closes() {
    let path = path("barrier");
    let setter = connected().await;
    let barrier = DistributedBarrier::new(&setter, &path).unwrap();
    soon(barrier.wait()).await.unwrap();
    for _ in 0..2 {
        soon(barrier.set()).await.unwrap();
    }
    let (proxy, reconnecting) = behind_proxy().await;
    let closing = connected().await;
    let waiting = waiting_at(&path, &reconnecting).await;
    let closed = waiting_at(&path, &closing).await;
    proxy.cut();
    assert!(still_waits(&closed, &closing).await);
    until_watched(session(&reconnecting), &path).await;
    assert!(!waiting.is_finished());
    soon(closing.close()).await.unwrap();
    assert!(matches!(
        soon(closed).await.unwrap(),
        Err(ClientError::Closed)
    ));
    for _ in 0..2 {
        soon(barrier.remove()).await.unwrap();
    }
    soon(waiting).await.unwrap().unwrap();
}

/// Ends the sessions of the client behind the proxy: its own, and that of its caches.
async fn end_sessions(proxy: &FaultProxy) {
    for session in proxy.sessions() {
        // Fails if the session has ended before.
        drop(close_session(shared_address().await, &session).await);
    }
}

/// Starts to enter a barrier for two members.
fn entering(client: &CuratorClient, path: &str) -> JoinHandle<Result<Member, Failure>> {
    entering_one_of(2, client, path)
}

fn entering_one_of(
    number: usize,
    client: &CuratorClient,
    path: &str,
) -> JoinHandle<Result<Member, Failure>> {
    let (client, path) = (client.clone(), path.to_owned());
    tokio::spawn(async move { Member::enter(&client, &path, number).await })
}

/// Starts to enter, and waits until the barrier has this many nodes.
async fn entering_as(
    client: &CuratorClient,
    path: &str,
    nodes: usize,
) -> JoinHandle<Result<Member, Failure>> {
    let entering = entering(client, path);
    until(async || children(client, path).await.len() == nodes).await;
    entering
}

async fn entered(entering: JoinHandle<Result<Member, Failure>>) -> Member {
    soon(entering).await.unwrap().unwrap()
}

/// Both members leave, and nothing stays.
async fn both_leave(client: &CuratorClient, path: &str, members: [Member; 2]) {
    let [one, other] = members;
    let leaving = tokio::spawn(one.leave());
    assert!(still_waits(&leaving, client).await);
    soon(other.leave()).await.unwrap();
    soon(leaving).await.unwrap().unwrap();
    until(async || client.check_exists(path).await.unwrap().is_none()).await;
}

/// Curator's member enters alone (GH-1290): any event wakes it, and it does not count again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_woken_by_events_does_not_enter_early() {
    let path = path("double-barrier");
    let (proxy, reconnecting) = behind_proxy().await;
    let other = connected().await;
    let first = entering_one_of(3, &reconnecting, &path);
    for _ in 0..3 {
        until(async || children(&other, &path).await.len() == 1).await;
        proxy.cut();
        until(async || reconnecting.check_exists("/").await.is_ok()).await;
        assert!(still_waits(&first, &reconnecting).await);
        // Another member comes and goes.
        let second = entering_one_of(3, &other, &path);
        until(async || children(&other, &path).await.len() == 2).await;
        assert!(still_waits(&first, &reconnecting).await);
        second.abort();
    }
    until(async || children(&other, &path).await.len() == 1).await;
    let second = entering_one_of(3, &other, &path);
    let third = entered(entering_one_of(3, &other, &path)).await;
    drop((entered(first).await, entered(second).await, third));
    until(async || children(&other, &path).await == ["ready"]).await;
}

/// Each member enters again as soon as it has left, while others still leave.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_each_round_all_members_enter_before_any_computes_and_leave_after_all_have_computed() {
    const ROUNDS: usize = 8;
    const MEMBERS: usize = 3;
    let path = path("double-barrier-rounds");
    let arrived = Arc::new(AtomicUsize::new(0));
    let computed = Arc::new(AtomicUsize::new(0));
    let mut members = JoinSet::new();
    for _ in 0..MEMBERS {
        let client = connected().await;
        let (path, arrived, computed) = (path.clone(), arrived.clone(), computed.clone());
        members.spawn(async move {
            for round in 0..ROUNDS {
                arrived.fetch_add(1, Ordering::SeqCst);
                let member = Member::enter(&client, &path, MEMBERS).await.unwrap();
                assert!(arrived.load(Ordering::SeqCst) >= MEMBERS * (round + 1));
                assert!(computed.load(Ordering::SeqCst) >= MEMBERS * round);
                computed.fetch_add(1, Ordering::SeqCst);
                member.leave().await.unwrap();
                assert!(computed.load(Ordering::SeqCst) >= MEMBERS * (round + 1));
            }
        });
    }
    while let Some(member) = soon(members.join_next()).await {
        member.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_gives_up_or_loses_its_session_lets_nobody_in() {
    let path = path("double-barrier-lost");
    let (proxy, lost) = behind_proxy().await;
    let other = connected().await;
    let gives_up = entering_as(&lost, &path, 1).await;
    gives_up.abort();
    assert!(soon(gives_up).await.unwrap_err().is_cancelled());
    until(async || children(&other, &path).await.is_empty()).await;
    let loses = entering_as(&lost, &path, 1).await;
    end_sessions(&proxy).await;
    let error = soon(loses).await.unwrap().unwrap_err();
    assert!(error.is::<LockLost>(), "{error}");
    let second = entering_as(&other, &path, 1).await;
    assert!(still_waits(&second, &other).await);
    let third = entered(entering(&lost, &path)).await;
    let second = entered(second).await;
    // Nobody waits for a member whose session has ended.
    let leaving = tokio::spawn(second.leave());
    assert!(still_waits(&leaving, &other).await);
    end_sessions(&proxy).await;
    soon(leaving).await.unwrap().unwrap();
    let error = soon(third.leave()).await.unwrap_err();
    assert!(
        matches!(error.downcast_ref(), Some(Error::Lost(_))),
        "{error}"
    );
}

/// A member that arrives during a round waits for the next one, and those who leave do not wait for
/// it. In the second case, the first round ends with the sessions of its members, and `ready` stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_arrives_late_waits_for_the_next_round() {
    for crashes in [false, true] {
        let _row = Row::of(crashes);
        let path = path("double-barrier-late");
        let others = connected().await;
        let (proxies, clients): (Vec<_>, Vec<_>) = [behind_proxy().await, behind_proxy().await]
            .into_iter()
            .unzip();
        let first = entering_as(&clients[0], &path, 1).await;
        let second = entered(entering(&clients[1], &path)).await;
        let first = entered(first).await;
        let late = entering_as(&others, &path, 4).await;
        assert!(still_waits(&late, &others).await);
        if crashes {
            for proxy in &proxies {
                end_sessions(proxy).await;
            }
            until(async || children(&others, &path).await.len() == 2).await;
        } else {
            let leaving = tokio::spawn(first.leave());
            assert!(still_waits(&late, &others).await && !leaving.is_finished());
            soon(second.leave()).await.unwrap();
            soon(leaving).await.unwrap().unwrap();
        }
        assert!(still_waits(&late, &others).await);
        let client = connected().await;
        let next = entered(entering(&client, &path)).await;
        both_leave(&client, &path, [next, entered(late).await]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ready_that_was_left_behind_lets_nobody_in() {
    let path = path("double-barrier-stale");
    let client = connected().await;
    let create = client.create().creating_parent_containers();
    create.for_path(format!("{path}/ready"), "").await.unwrap();
    let first = entering_as(&client, &path, 2).await;
    assert!(still_waits(&first, &client).await);
    let second = entered(entering(&client, &path)).await;
    both_leave(&client, &path, [entered(first).await, second]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persistent_node_of_others_is_no_member() {
    let path = path("double-barrier-foreign");
    let client = connected().await;
    let foreign = format!("{path}/foreign");
    let create = client.create().creating_parent_containers();
    create.for_path(&foreign, "").await.unwrap();
    for _ in 0..2 {
        let first = entering(&client, &path);
        assert!(still_waits(&first, &client).await);
        let second = entered(entering(&client, &path)).await;
        let leaving = tokio::spawn(second.leave());
        soon(entered(first).await.leave()).await.unwrap();
        soon(leaving).await.unwrap().unwrap();
    }
    let mut left = children(&client, &path).await;
    left.sort();
    assert_eq!(left, ["foreign", "ready"]);
}

/// The first member opens the barrier, because the second one gets no replies to transactions
/// meanwhile. It sends one transaction to read the members, and one to open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_enter_although_replies_are_lost() {
    type NthFault = fn(&FaultProxy, OpCode, u64);
    let faults: [(&str, NthFault); 2] = [
        ("reply", FaultProxy::cut_before_nth_reply),
        ("request", FaultProxy::cut_before_nth_request),
    ];
    for (fault, inject) in faults {
        for nth in 1..=2 {
            let _row = Row::of((fault, nth));
            let path = path("double-barrier-faults");
            let (proxy, opener) = behind_proxy().await;
            let (held, other) = behind_proxy().await;
            let first = entering_as(&opener, &path, 1).await;
            assert!(still_waits(&first, &opener).await);
            held.hold_replies(OpCode::Multi);
            inject(&proxy, OpCode::Multi, nth);
            let second = entering(&other, &path);
            soon(proxy.wait_for_faults()).await.unwrap();
            let first = entered(first).await;
            held.release_held();
            both_leave(&other, &path, [first, entered(second).await]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_waits_of_members_end_when_their_client_closes() {
    let path = path("double-barrier-closed");
    let [one, other] = [connected().await, connected().await];
    let first = entering_as(&one, &path, 1).await;
    soon(one.close()).await.unwrap();
    assert!(soon(first).await.unwrap().is_err());
    let [one, late] = [connected().await, connected().await];
    let first = entering_as(&one, &path, 1).await;
    let second = entered(entering(&other, &path)).await;
    let first = entered(first).await;
    let leaving = tokio::spawn(first.leave());
    assert!(still_waits(&leaving, &one).await);
    soon(one.close()).await.unwrap();
    assert!(soon(leaving).await.unwrap().is_err());
    let waiting = entering(&late, &path);
    soon(second.leave()).await.unwrap();
    soon(late.close()).await.unwrap();
    assert!(soon(waiting).await.unwrap().is_err());
}

async fn queue(client: &CuratorClient, path: &str) -> TaskQueue {
    soon(TaskQueue::open(client, path)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_are_taken_in_order_and_one_that_a_worker_drops_or_loses_is_taken_again() {
    let path = path("task-queue");
    let (proxy, worker) = behind_proxy().await;
    let other = connected().await;
    let (one, two) = (queue(&worker, &path).await, queue(&other, &path).await);
    for number in 0..3 {
        one.put([number]).await.unwrap();
    }
    let [first, second, third] = [&one, &two, &one].map(TaskQueue::take);
    let (first, second, third) = soon(async { (first.await, second.await, third.await) }).await;
    let [first, second, third] = [first, second, third].map(Result::unwrap);
    assert_eq!(
        [&first, &second, &third].map(|task| task.data.clone()),
        [[0], [1], [2]]
    );
    let waiting = tokio::spawn({
        let two = two.clone();
        async move { two.take().await }
    });
    assert!(still_waits(&waiting, &other).await);
    // Not the oldest one.
    drop(third);
    let third = soon(waiting).await.unwrap().unwrap();
    assert_eq!(third.data, [2]);
    soon(second.done()).await.unwrap();
    soon(third.done()).await.unwrap();

    end_sessions(&proxy).await;
    let again = soon(two.take()).await.unwrap();
    assert_eq!(again.data, [0]);
    soon(first.guard.lost()).await;
    let error = soon(first.done()).await.unwrap_err();
    assert!(matches!(error, Error::Lost(_)), "{error}");
    soon(again.done()).await.unwrap();

    // A waiting worker is woken by a new task, and by the end of its client.
    for closes in [false, true] {
        let waiting = tokio::spawn({
            let two = two.clone();
            async move { two.take().await }
        });
        assert!(still_waits(&waiting, &other).await);
        if closes {
            soon(other.close()).await.unwrap();
            assert!(soon(waiting).await.unwrap().is_err());
        } else {
            one.put([3]).await.unwrap();
            let task = soon(waiting).await.unwrap().unwrap();
            soon(task.done()).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_with_a_lost_reply_adds_one_task() {
    for (fault, inject) in FAULTS {
        let _row = Row::of(fault);
        let path = path("task-queue-put");
        let short = Duration::from_millis(500);
        let (proxy, client) = behind_proxy_with(|builder| builder.operation_timeout(short)).await;
        let queue = queue(&client, &path).await;
        inject(&proxy, OpCode::Create2);
        soon(queue.put("task")).await.unwrap();
        soon(proxy.wait_for_faults()).await.unwrap();
        assert_eq!(children(&client, &format!("{path}/tasks")).await.len(), 1);
    }
}

/// The producer cannot know that its task is done already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_is_done_before_its_lost_put_is_repeated_is_added_again() {
    let path = path("task-queue-again");
    let (proxy, client) = behind_proxy().await;
    let other = connected().await;
    let (one, two) = (queue(&client, &path).await, queue(&other, &path).await);
    proxy.hold_replies(OpCode::Create2);
    let putting = tokio::spawn(async move { one.put("task").await });
    for _ in 0..2 {
        let task = soon(two.take()).await.unwrap();
        assert_eq!(task.data, b"task");
        soon(task.done()).await.unwrap();
        proxy.cut();
        proxy.release_held();
    }
    soon(putting).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_task_is_done_by_one_of_several_workers() {
    const TASKS: u8 = 12;
    let path = path("task-queue-workers");
    let client = connected().await;
    let tasks = queue(&client, &path).await;
    let mut workers = JoinSet::new();
    for _ in 0..3 {
        let queue = queue(&connected().await, &path).await;
        workers.spawn(async move {
            let mut done = Vec::new();
            loop {
                let task = queue.take().await.unwrap();
                let [number] = *task.data else {
                    // The empty task ends each worker.
                    return done;
                };
                task.done().await.unwrap();
                done.push(number);
            }
        });
    }
    for number in 0..TASKS {
        tasks.put([number]).await.unwrap();
    }
    tasks.put([]).await.unwrap();
    let mut done = soon(workers.join_all()).await.concat();
    done.sort_unstable();
    assert_eq!(done, (0..TASKS).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_time_to_live_stays_and_is_recreated_until_its_process_ends() {
    let server = adjusted_server().await;
    let [client, others] = [
        connect(&server.connect_string()).await,
        connect(&server.connect_string()).await,
    ];
    let path = path("ttl");
    // The node is older than its time to live when the second write below is seen.
    let ttl = Duration::from_secs(3);
    let keeping = tokio::spawn({
        let (client, path) = (client.clone(), path.clone());
        async move { keep_alive(&client, path, "alive", ttl).await }
    });
    let touch = format!("{path}/touch");
    let touched = async |times| {
        let stat = others.check_exists(&touch).await.unwrap();
        stat.is_some_and(|stat| stat.version >= times)
    };
    until(async || touched(3).await).await;
    let (data, stat) = others.get_data(&path).await.unwrap();
    assert_eq!((&*data, stat.version), (&b"alive"[..], 0));
    let delete = others.delete().deleting_children_if_needed();
    soon(delete.for_path(&path)).await.unwrap();
    until(async || touched(0).await).await;
    keeping.abort();
    until(async || others.check_exists(&path).await.unwrap().is_none()).await;

    let closed = tokio::spawn({
        let (client, path) = (client.clone(), path.clone());
        async move { keep_alive(&client, path, "alive", ttl).await }
    });
    until(async || touched(0).await).await;
    soon(client.close()).await.unwrap();
    let error = soon(closed).await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Closed), "{error}");
}

/// Half of the time to live would be too long for both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_a_long_time_to_live_is_created_soon_after_an_outage_and_a_close_ends_it() {
    let address = adjusted_server().await.address();
    let proxy = FaultProxy::start(address).unwrap();
    let never = RetryNTimes::new(0, Duration::from_millis(1)).unwrap();
    let client = builder(&proxy.connect_string(), LONG_SESSION)
        .retry_policy(never)
        .start()
        .unwrap();
    until(async || client.session().await.is_ok()).await;
    let path = path("ttl-outage");
    proxy.cut_before_request(OpCode::CreateTtl);
    let keeping = tokio::spawn({
        let (client, path) = (client.clone(), path.clone());
        let ttl = Duration::from_secs(3_600);
        async move { keep_alive(&client, path, "alive", ttl).await }
    });
    let touch = format!("{path}/touch");
    until(async || matches!(client.check_exists(&touch).await, Ok(Some(_)))).await;
    proxy.wait_for_faults().await.unwrap();
    soon(client.close()).await.unwrap();
    let error = soon(keeping).await.unwrap().unwrap_err();
    assert!(matches!(error, ClientError::Closed), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_time_to_live_is_named_in_the_error() {
    let builder = TestingServer::builder().property("extendedTypesEnabled", "false");
    let server = builder.start().await.unwrap();
    let client = connect(&server.connect_string()).await;
    let keeping = keep_alive(&client, "/ttl", "", DEFAULT_TIMEOUT);
    let error = soon(keeping).await.unwrap_err();
    assert!(
        matches!(error, ClientError::Unimplemented { .. }),
        "{error}"
    );
}
