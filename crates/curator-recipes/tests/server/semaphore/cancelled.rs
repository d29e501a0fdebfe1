//! A dropped acquire leaves neither a lease nor a place in the queue.

use curator_test::{FaultProxy, OpCode, TestingServer};

use super::{free, leases, queue, semaphore, stands};
use crate::support::{client, connect, drop_after, path, polled_until, requests_of, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_of_free_leases_dropped_at_every_await_leaves_nothing() {
    let (client, path) = (client().await, path("drop-free-leases"));
    let mut completed = false;
    for polls in 0..200 {
        // A path of its own, so that the directories are created too.
        let path = format!("{path}/{polls}/pool");
        let leases = drop_after(semaphore(&client, &path, 2).acquire_many(2), polls).await;
        completed = leases.is_some();
        drop(leases);
        free(&client, &path, 2).await;
        if completed {
            break;
        }
    }
    assert!(completed, "200 polls were not enough");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_of_taken_leases_dropped_at_every_await_leaves_nothing() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (holder, waiter, path) = (client().await, connect(&proxy.connect_string()).await, path("drop-taken-leases"));
    let held = semaphore(&holder, &path, 2).acquire().await.unwrap();
    let wanted = semaphore(&waiter, &path, 2);
    let mut waited = 0;
    for polls in 0..200 {
        proxy.reset_counts();
        let contending = drop_after(wanted.acquire_many(2), polls);
        // Once it has nothing more to do it is not polled again, and is dropped while it waits.
        let waits = async {
            proxy.wait_for_reply(OpCode::GetChildren, 1).await.unwrap();
            waiter.check_exists("/").await.unwrap();
        };
        tokio::select! {
            outcome = contending => assert!(outcome.is_none(), "it took what is held"),
            () = waits => waited += 1,
        }
        soon(waiter.janitor().idle()).await;
        assert_eq!((leases(&holder, &path).await.len(), queue(&holder, &path).await.len()), (1, 0), "{polls} polls");
        if waited > 1 {
            break;
        }
    }
    assert!(waited > 1, "it was never dropped while waiting");
    held.release().await.unwrap();
    free(&waiter, &path, 2).await;
}

/// The leases are there, and nobody knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_while_its_take_is_in_flight_leaves_nothing() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (client, steady, path) = (connect(&proxy.connect_string()).await, client().await, path("drop-take"));
    free(&client, &path, 3).await;
    for outside in [false, true] {
        proxy.reset_counts();
        proxy.hold_replies(OpCode::Multi);
        let semaphore = semaphore(&client, &path, 3);
        let acquiring =
            polled_until(async move { semaphore.acquire_many(3).await }, proxy.wait_for_reply(OpCode::Multi, 1));
        let acquiring = acquiring.await;
        stands(&steady, &path, 3, 0).await;
        if outside {
            std::thread::spawn(move || drop(acquiring)).join().unwrap();
        } else {
            drop(acquiring);
        }
        proxy.release_held();
        free(&client, &path, 3).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_dropped_during_a_disconnect_leaves_nothing() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (client, steady, path) = (connect(&proxy.connect_string()).await, client().await, path("drop-take-cut"));
    free(&client, &path, 2).await;
    // The take is applied and the connection breaks, so nobody knows; and nobody can ask.
    proxy.cut_before_reply(OpCode::Multi);
    proxy.refuse(true).unwrap();
    let semaphore = semaphore(&client, &path, 2);
    let acquiring = polled_until(semaphore.acquire_many(2), stands(&steady, &path, 2, 0)).await;
    drop(acquiring);
    assert!(client.janitor().pending() > 0, "nothing is left to do?");
    proxy.refuse(false).unwrap();
    free(&client, &path, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_are_dropped_are_given_back_and_so_are_those_of_a_dropped_release() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (client, path) = (connect(&proxy.connect_string()).await, path("drop-leases"));
    let semaphore = semaphore(&client, &path, 3);
    drop(semaphore.acquire_many(3).await.unwrap());
    free(&client, &path, 3).await;
    for polls in 0..4 {
        let leases = semaphore.acquire_many(3).await.unwrap();
        drop_after(curator_recipes::SemaphoreLease::release_all(leases), polls).await.unwrap_or(Ok(())).unwrap();
        free(&client, &path, 3).await;
    }
    assert!(requests_of(&proxy, OpCode::Delete) >= 3);
}
