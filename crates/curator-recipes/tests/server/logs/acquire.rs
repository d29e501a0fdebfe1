//! Log lines of an acquire.

use std::time::Duration;

use curator_recipes::client::Error as ClientError;
use curator_recipes::{Error, InterProcessSemaphoreV2, OwnerId};
use tracing::Level;

use super::{check_hold, hex};
use crate::support::{
    Logs, acquiring, behind_proxy, client, end_session, mutex, path, polled_until, queue_of, read_write, soon, until,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_logs_the_node_before_it() {
    let (holder, waiter, path) = (client().await, client().await, path("logs/waiter"));
    let mut before = vec![mutex(&holder, &path).acquire().await.unwrap()];
    let mut between = Vec::new();
    for length in 2..=3 {
        between.push(acquiring(&holder, &path));
        queue_of(&waiter, &path, length).await;
    }
    let (logs, wanted) = (Logs::at(Level::DEBUG), mutex(&waiter, &path));
    let waiting = tokio::spawn(logs.capture(async move { wanted.acquire().await.unwrap() }));
    until(async || logs.messages("acquire") == ["acquiring", "queued"]).await;
    let queued = logs.lines("acquire").remove(1);
    assert_eq!(queued.get("place"), "3");
    let (node, behind) = (queued.get("node").to_owned(), queued.get("behind").to_owned());
    assert!(behind.starts_with(&format!("{path}/_c_")) && behind.ends_with("-lock-0000000002"), "{behind}");
    assert!(node.ends_with("-lock-0000000003"), "{node}");
    for task in between {
        before.pop().unwrap().release().await.unwrap();
        before.push(soon(task).await.unwrap().unwrap());
    }
    // Before it owns the lock, the waiter reads the queue once more.
    until(async || logs.messages("acquire") == ["acquiring", "queued", "queued"]).await;
    before.pop().unwrap().release().await.unwrap();
    let guard = soon(waiting).await.unwrap();
    assert_eq!((guard.node().as_str(), hex(&guard)), (node.as_str(), queued.get("session").to_owned()));
    let lines = logs.lines("acquire");
    assert_eq!(lines.len(), 3);
    assert_eq!((lines[2].get("place"), lines[2].get("behind")), ("1", behind.as_str()));
    let owned = logs.lines("hold").remove(0);
    check_hold(&owned, "mutex", &path, &guard);
    assert_ne!(owned.get("waited"), "0.0ns");
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_ends_without_the_lock_logs_why() {
    let (holder, waiter, path) = (client().await, client().await, path("logs/given-up"));
    let held = mutex(&holder, &path).acquire().await.unwrap();
    let wanted = mutex(&waiter, &path);
    let why = |logs: &Logs| {
        let last = logs.lines("acquire").pop().unwrap();
        assert_eq!(last.message, "given up");
        last.get("waited");
        last.get("why").to_owned()
    };

    let logs = Logs::at(Level::DEBUG);
    assert!(logs.capture(wanted.try_acquire()).await.unwrap().is_none());
    assert_eq!(why(&logs), "other contenders are ahead");
    assert_eq!(logs.lines("acquire")[0].get("wait"), "none");

    let logs = Logs::at(Level::DEBUG);
    assert!(soon(logs.capture(wanted.acquire_timeout(Duration::from_millis(200)))).await.unwrap().is_none());
    assert_eq!(why(&logs), "timed out");

    let logs = Logs::at(Level::DEBUG);
    let queued = until(async || logs.messages("acquire") == ["acquiring", "queued"]);
    let dropped = soon(polled_until(logs.capture(wanted.acquire()), queued)).await;
    logs.capture_call(|| drop(dropped));
    assert_eq!(why(&logs), "its future was dropped");

    let logs = Logs::at(Level::DEBUG);
    let waiting = tokio::spawn(logs.capture(async move { wanted.acquire().await }));
    until(async || logs.messages("acquire") == ["acquiring", "queued"]).await;
    waiter.close().await.unwrap();
    soon(waiting).await.unwrap().unwrap_err();
    assert_eq!(why(&logs), "the client closes");

    // An acquire that the server refuses.
    let logs = Logs::at(Level::DEBUG);
    let below_an_ephemeral = mutex(&holder, held.node().as_str());
    let error = soon(logs.capture(below_an_ephemeral.acquire())).await.unwrap_err();
    assert!(matches!(&error, Error::Client(ClientError::NoChildrenForEphemerals { .. })), "{error}");
    assert!(error.to_string().contains(held.node().as_str()), "{error}");
    assert_eq!(why(&logs), error.to_string());
    held.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_logs_its_wait_for_another_future_of_its_owner_and_how_it_ends() {
    let (holder, waiter, path) = (client().await, client().await, path("logs/gate"));
    let held = mutex(&holder, &path).acquire().await.unwrap();
    let (wanted, owner) = (mutex(&waiter, &path), OwnerId::new());
    let (first, its_owner) = (wanted.clone(), owner.clone());
    let other = tokio::spawn(async move { first.acquire_as(&its_owner).await.unwrap() });
    queue_of(&holder, &path, 2).await;
    let waits = "another future of its owner is acquiring the lock";
    for (timeout, why) in [(Duration::ZERO, "other contenders are ahead"), (Duration::from_millis(50), "timed out")] {
        let logs = Logs::at(Level::DEBUG);
        assert!(soon(logs.capture(wanted.acquire_timeout_as(&owner, timeout))).await.unwrap().is_none());
        assert_eq!(logs.messages("acquire"), ["acquiring", waits, "given up"]);
        assert_eq!(logs.lines("acquire")[2].get("why"), why);
    }

    // The other acquire gets the lock, so this one re-enters.
    let logs = Logs::at(Level::DEBUG);
    let (mutex, its_owner) = (wanted.clone(), owner.clone());
    let again = tokio::spawn(logs.capture(async move { wanted.acquire_as(&its_owner).await.unwrap() }));
    until(async || logs.messages("acquire") == ["acquiring", waits]).await;
    held.release().await.unwrap();
    let guards = [soon(other).await.unwrap(), soon(again).await.unwrap()];
    assert!(guards[1].is_reentry() && mutex.is_owned_by(&owner) && !mutex.is_owned_by_current());
    assert!(!logs.messages("acquire").contains(&"given up".to_owned()));

    // A refusal before the acquire sends a request.
    let logs = Logs::at(Level::DEBUG);
    let lock = read_write(&holder, &path);
    let reading = lock.read().acquire().await.unwrap();
    let error = logs.capture(lock.write().acquire()).await.map(drop).unwrap_err();
    assert_eq!(logs.messages("acquire"), ["acquiring", "given up"]);
    assert_eq!(logs.lines("acquire")[1].get("why"), error.to_string());
    drop((guards, reading));
}

/// In its next session, the waiter is first in the queue again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_waiter_of_a_semaphore_logs_its_place_again_in_the_next_session() {
    let (holder, (proxy, waiter), path) = (client().await, behind_proxy().await, path("logs/leases-again"));
    let semaphore = |client| InterProcessSemaphoreV2::new(client, &path, 1).unwrap();
    let held = semaphore(&holder).acquire().await.unwrap();
    let (logs, wanted) = (Logs::at(Level::DEBUG), semaphore(&waiter));
    let waiting = tokio::spawn(logs.capture(async move { wanted.acquire().await.unwrap() }));
    let first = "first in the queue: waiting for leases";
    until(async || logs.messages("acquire") == ["acquiring", first]).await;
    end_session(&proxy).await;
    let over = "lost the place in the queue with the session";
    until(async || logs.messages("acquire") == ["acquiring", first, over, first]).await;
    held.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
}
