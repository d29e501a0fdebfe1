//! Lost answers and dropped futures: all of it or nothing.

use std::time::Duration;

use curator_test::{FaultProxy, OpCode, TestingServer};

use super::{acquiring, holds_all, multi, paths, queues_of};
use crate::support::{
    FAULTS, LONG_SESSION, builder, client, connect, drop_after, free, mutex, polled_until, requests_of, soon,
    still_waits,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_answer_is_lost_there_is_one_node_in_each_queue_and_then_none() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let unlucky = builder(&proxy.connect_string(), LONG_SESSION).operation_timeout(Duration::from_millis(300));
    let (client, steady, paths) = (unlucky.connect().await.unwrap(), client().await, paths::<3>("lost-answers"));
    let lock = multi(&client, &paths);
    lock.acquire().await.unwrap().release().await.unwrap();
    for (name, fault) in FAULTS {
        for lost in [OpCode::Multi, OpCode::MultiRead] {
            proxy.reset_counts();
            fault(&proxy, lost);
            let guard = soon(lock.acquire()).await.unwrap();
            assert!(requests_of(&proxy, lost) > 0, "{lost:?}, {name}: nothing was lost");
            holds_all(&steady, &guard, &paths).await;
            guard.release().await.unwrap();
            queues_of(&steady, &paths, &[0; 3]).await;
        }
        let guard = lock.acquire().await.unwrap();
        proxy.reset_counts();
        fault(&proxy, OpCode::Multi);
        soon(guard.release()).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(requests_of(&proxy, OpCode::Multi) > 1, "{name}: nothing was lost");
        queues_of(&steady, &paths, &[0; 3]).await;

        // And that of a guard that is dropped.
        let guard = lock.acquire().await.unwrap();
        fault(&proxy, OpCode::Multi);
        drop(guard);
        free(&client, &paths).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_of_free_locks_dropped_at_every_await_leaves_nothing() {
    let (client, all) = (client().await, paths::<3>("drop-free"));
    let mut completed = false;
    for polls in 0..200 {
        // Directories of its own, so that they are created too.
        let paths = all.each_ref().map(|path| format!("{path}/{polls}/lock"));
        let guard = drop_after(multi(&client, &paths).acquire(), polls).await;
        completed = guard.is_some();
        drop(guard);
        free(&client, &paths).await;
        if completed {
            break;
        }
    }
    assert!(completed, "200 polls were not enough");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_of_taken_locks_dropped_at_every_await_leaves_nothing() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (holder, waiter, paths) = (client().await, connect(&proxy.connect_string()).await, paths::<3>("drop-taken"));
    let held = mutex(&holder, &paths[1]).acquire().await.unwrap();
    let wanted = multi(&waiter, &paths);
    let mut waited = 0;
    for polls in 0..200 {
        proxy.reset_counts();
        let contending = drop_after(wanted.acquire(), polls);
        // The node before it, its own behind that, and those where it is the first.
        let waits = async {
            proxy.wait_for_reply(OpCode::GetData, 4).await.unwrap();
            waiter.check_exists("/").await.unwrap();
        };
        tokio::select! {
            outcome = contending => assert!(outcome.is_none(), "it took what is held"),
            () = waits => waited += 1,
        }
        soon(waiter.janitor().idle()).await;
        queues_of(&holder, &paths, &[0, 1, 0]).await;
        if waited > 1 {
            break;
        }
    }
    assert!(waited > 1, "it was never dropped while waiting");
    held.release().await.unwrap();
    free(&waiter, &paths).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_while_its_create_is_in_flight_leaves_nothing() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (client, steady, paths) = (connect(&proxy.connect_string()).await, client().await, paths::<3>("drop-create"));
    free(&client, &paths).await;
    let lock = multi(&client, &paths);
    proxy.reset_counts();
    proxy.hold_replies(OpCode::Multi);
    let acquiring = polled_until(lock.acquire(), proxy.wait_for_reply(OpCode::Multi, 1)).await;
    queues_of(&steady, &paths, &[1; 3]).await;
    drop(acquiring);
    proxy.release_held();
    free(&client, &paths).await;

    // And nobody can ask.
    proxy.cut_before_reply(OpCode::Multi);
    proxy.refuse(true).unwrap();
    let acquiring = polled_until(lock.acquire(), queues_of(&steady, &paths, &[1; 3])).await;
    drop(acquiring);
    proxy.refuse(false).unwrap();
    free(&client, &paths).await;
}

/// A waiter that gives up half-way is in nobody's way, in no queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_that_give_up_do_not_hold_up_those_behind_them() {
    let (holder, paths) = (client().await, paths::<3>("give-up"));
    let held = mutex(&holder, &paths[0]).acquire().await.unwrap();
    let (first, second) = (client().await, client().await);
    let gives_up = acquiring(&multi(&first, &paths));
    queues_of(&holder, &paths, &[2, 1, 1]).await;
    let waiting = acquiring(&multi(&second, &paths[1..]));
    queues_of(&holder, &paths, &[2, 2, 2]).await;
    assert!(still_waits(&waiting, &second).await);
    gives_up.abort();
    let guard = soon(waiting).await.unwrap();
    holds_all(&holder, &guard, &paths[1..]).await;
    guard.release().await.unwrap();
    held.release().await.unwrap();
    free(&holder, &paths).await;
}
