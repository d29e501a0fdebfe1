//! An owner that holds the lock gets it again; nobody else does.

use curator_recipes::OwnerId;
use curator_test::{FaultProxy, TestingServer};

use crate::support::{client, connect, mutex, path, queue_of, soon};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re_entry_to_any_depth_costs_no_request() {
    let server = TestingServer::start().await.unwrap();
    // A session so long that no probe of the lease comes between.
    let client = connect(&server.connect_string()).await;
    let mutex = mutex(&client, "/lock");
    let first = mutex.acquire().await.unwrap();

    let before = server.packets_received().await.unwrap();
    let look = server.packets_received().await.unwrap() - before;
    let before = server.packets_received().await.unwrap();
    let mut guards = Vec::new();
    for _ in 0..50 {
        guards.push(mutex.acquire().await.unwrap());
        guards.push(mutex.try_acquire().await.unwrap().unwrap());
    }
    assert!(guards.iter().all(|guard| guard.fencing_token() == first.fencing_token()));
    while let Some(guard) = guards.pop() {
        guard.release().await.unwrap();
    }
    assert_eq!(server.packets_received().await.unwrap() - before, look, "re-entry has sent something");

    assert!(mutex.is_owned_by_current());
    first.release().await.unwrap();
    assert!(!mutex.is_owned_by_current());
    assert!(!mutex.is_acquired_in_this_process());
    queue_of(&client, "/lock", 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_is_free_only_after_the_last_guard_whatever_the_order() {
    let (client, path) = (client().await, path("order"));
    let mutex = mutex(&client, &path);
    let outer = mutex.acquire().await.unwrap();
    let inner = mutex.acquire().await.unwrap();
    outer.release().await.unwrap();
    assert!(inner.is_valid());
    assert!(mutex.is_owned_by_current());
    let other = OwnerId::new();
    assert!(mutex.try_acquire_as(&other).await.unwrap().is_none());
    inner.release().await.unwrap();
    assert!(mutex.try_acquire_as(&other).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_task_does_not_see_the_hold_of_a_task() {
    let (client, path) = (client().await, path("other-task"));
    let mutex = mutex(&client, &path);
    let guard = mutex.acquire().await.unwrap();
    let other = mutex.clone();
    tokio::spawn(async move {
        assert!(!other.is_owned_by_current());
        assert!(other.is_acquired_in_this_process());
        assert!(other.try_acquire().await.unwrap().is_none());
    })
    .await
    .unwrap();
    // Nor does another mutex on the same path, in the same task.
    assert!(crate::support::mutex(&client, &path).try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_explicit_owner_follows_a_request_across_tasks() {
    let (client, path) = (client().await, path("explicit"));
    let mutex = mutex(&client, &path);
    let owner = OwnerId::new();
    let guard = mutex.acquire_as(&owner).await.unwrap();
    let (other, same) = (mutex.clone(), owner.clone());
    let again = tokio::spawn(async move { other.acquire_as(&same).await.unwrap() }).await.unwrap();
    assert_eq!(again.fencing_token(), guard.fencing_token());
    assert!(mutex.is_owned_by(&owner));
    assert!(!mutex.is_owned_by_current());
    drop(guard);
    again.release().await.unwrap();
    assert!(!mutex.is_owned_by(&owner));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn futures_joined_in_one_task_are_one_owner_and_do_not_wait_for_each_other() {
    let (client, path) = (client().await, path("joined"));
    let mutex = mutex(&client, &path);
    let (a, b) = soon(async { tokio::join!(mutex.acquire(), mutex.acquire()) }).await;
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_eq!(a.fencing_token(), b.fencing_token());
    assert_eq!(mutex.participants().await.unwrap().len(), 1);
    a.release().await.unwrap();
    b.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_first_of_two_joined_futures_is_dropped_the_second_takes_its_turn() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (client, path) = (connect(&proxy.connect_string()).await, path("joined-drop"));
    let mutex = mutex(&client, &path);
    // The first one is stuck in the middle of its flight.
    proxy.hold_replies(curator_test::OpCode::GetChildren);
    let second = {
        let first = mutex.acquire();
        let second = mutex.acquire();
        tokio::pin!(first);
        let mut second = Box::pin(second);
        tokio::select! {
            biased;
            _ = &mut first => unreachable!("its answer is held back"),
            _ = &mut second => unreachable!("it waits for the first"),
            seen = proxy.wait_for_request(curator_test::OpCode::GetChildren, 1) => seen.unwrap(),
        }
        second
    };
    proxy.release_held();
    let guard = soon(second).await.unwrap();
    assert!(guard.is_valid());
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re_entry_on_a_hold_whose_node_was_deleted_acquires_anew() {
    let (client, path) = (client().await, path("lost-hold"));
    let mutex = mutex(&client, &path);
    let lost = mutex.acquire().await.unwrap();
    let loss = {
        let waiting = lost.lost();
        tokio::pin!(waiting);
        // The first look sets the watch.
        tokio::select! {
            biased;
            _ = &mut waiting => unreachable!("nothing is lost yet"),
            () = std::future::ready(()) => {}
        }
        crate::support::client().await.delete().for_path(lost.node()).await.unwrap();
        soon(waiting).await
    };
    assert_eq!(loss.reason, curator_recipes::LossReason::NodeDeleted);
    assert!(!lost.is_valid());
    assert!(!mutex.is_owned_by_current());

    let anew = soon(mutex.acquire()).await.unwrap();
    assert!(anew.is_valid());
    assert!(anew.fencing_token() > lost.fencing_token());
    // The old guard has nothing to do with the new hold.
    assert!(lost.release().await.is_err());
    assert!(anew.is_valid());
    assert!(mutex.is_owned_by_current());
    anew.release().await.unwrap();
}
