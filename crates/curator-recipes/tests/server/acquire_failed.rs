//! The error of an acquire for which there was no server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use curator_recipes::client::{self, CuratorClient, Outcome, RetryForever, RetryNTimes};
use curator_recipes::{
    Error, InterProcessLock, InterProcessMultiLock, InterProcessSemaphoreMutex, InterProcessSemaphoreV2, Result,
};
use curator_test::{FaultProxy, OpCode, TestingServer};

use crate::support::{
    self, LONG_SESSION, SHORT_SESSION, acquiring, builder, children, mutex, path, queue_of, read_write, requests_of,
    soon, still_waits, until,
};

/// How long it waits for a connection, for an answer, and between two attempts.
const NO_CONNECTION: Duration = Duration::from_millis(200);
const NO_ANSWER: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(10);

/// A client that tries three times, and its proxy. It waits so long for a connection, and not long for an answer.
async fn impatient(connection_timeout: Duration) -> (FaultProxy, CuratorClient) {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let client = builder(&proxy.connect_string(), LONG_SESSION)
        .connection_timeout(connection_timeout)
        .operation_timeout(NO_ANSWER)
        .retry_policy(RetryNTimes::new(2, PAUSE).unwrap())
        .connect()
        .await
        .unwrap();
    (proxy, client)
}

/// From now on there is no connection, and the client knows it.
async fn unplug(proxy: &FaultProxy, client: &CuratorClient) {
    proxy.refuse(true).unwrap();
    proxy.cut();
    until(async || client.try_session().is_err()).await;
}

/// Checks the error of so many attempts, which took so long at least; returns what happened last.
#[track_caller]
fn cause_of(error: &Error, path: &str, tried: u32, at_least: Duration) -> client::Error {
    let Error::AcquireFailed { lock, attempts, failing_for, cause } = error else { panic!("{error}") };
    assert_eq!((lock.as_str(), *attempts), (path, tried), "{error}");
    // From the beginning of the first attempt.
    assert!(*failing_for >= at_least, "{error}");
    assert!(error.is_retryable(), "{error}");
    (**cause).clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lock_names_itself_and_how_often_it_was_tried_without_a_connection() {
    let (proxy, client) = impatient(NO_CONNECTION).await;
    let path = path("unplugged");
    let (mutex, both) = (mutex(&client, &path), read_write(&client, &path));
    let semaphore = InterProcessSemaphoreV2::new(&client, &path, 2).unwrap();
    let exclusive = InterProcessSemaphoreMutex::new(&client, &path).unwrap();
    let together = InterProcessMultiLock::new(&client, [&path, &format!("{path}/other")]).unwrap();
    unplug(&proxy, &client).await;

    let fails = async |acquire: Result<()>, tried| {
        let waits = if tried > 1 { 3 * NO_CONNECTION + 2 * PAUSE } else { Duration::ZERO };
        let cause = cause_of(&acquire.unwrap_err(), &path, tried, waits);
        assert!(matches!(cause, client::Error::NotConnected { .. }), "{cause}");
    };
    fails(soon(mutex.acquire()).await.map(drop), 3).await;
    fails(soon(both.read().acquire()).await.map(drop), 3).await;
    fails(soon(both.write().acquire()).await.map(drop), 3).await;
    fails(soon(semaphore.acquire()).await.map(drop), 3).await;
    fails(soon(exclusive.acquire()).await.map(drop), 3).await;
    fails(soon(together.acquire()).await.map(drop), 3).await;
    // Those that retry nothing.
    fails(mutex.try_acquire().await.map(drop), 1).await;
    fails(both.write().try_acquire().await.map(drop), 1).await;
    fails(semaphore.try_acquire().await.map(drop), 1).await;
    fails(together.try_acquire().await.map(drop), 1).await;

    let in_turn = InterProcessMultiLock::of([Arc::new(mutex) as Arc<dyn InterProcessLock>]).unwrap();
    let error = soon(in_turn.acquire()).await.unwrap_err();
    let Error::MultiLockMember { cause, .. } = &error else { panic!("{error}") };
    assert!(error.is_retryable());
    cause_of(cause, &path, 3, 3 * NO_CONNECTION);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_whose_requests_are_not_answered_says_so() {
    let (proxy, client) = impatient(LONG_SESSION).await;
    let path = path("unanswered");
    mutex(&client, &path).acquire().await.unwrap().release().await.unwrap();
    proxy.hold_replies(OpCode::GetChildren);
    let error = soon(mutex(&client, &path).acquire()).await.unwrap_err();
    let cause = cause_of(&error, &path, 3, 3 * NO_ANSWER + 2 * PAUSE);
    assert!(matches!(cause, client::Error::OperationTimeout { .. }), "{cause}");
    assert_eq!(error.outcome(), Outcome::Unknown);
    let error = soon(mutex(&client, &path).try_acquire()).await.unwrap_err();
    let cause = cause_of(&error, &path, 1, NO_ANSWER);
    assert!(matches!(cause, client::Error::OperationTimeout { .. }), "{cause}");
    proxy.release_held();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_in_the_queue_does_not_count_as_failing() {
    let (proxy, client) = impatient(LONG_SESSION).await;
    let (steady, path) = (support::client().await, path("failing-late"));
    let held = mutex(&steady, &path).acquire().await.unwrap();
    let waiter = acquiring(&client, &path);
    queue_of(&steady, &path, 2).await;
    assert!(still_waits(&waiter, &client).await);
    tokio::time::sleep(NO_ANSWER).await;
    let all_was_well = Instant::now();
    proxy.hold_replies(OpCode::GetChildren);
    // It contends for another place, and does not learn which it is.
    let place = children(&steady, &path).await.into_iter().find(|name| name != held.node().name()).unwrap();
    steady.delete().for_path(format!("{path}/{place}")).await.unwrap();
    let error = soon(waiter).await.unwrap().unwrap_err();
    let Error::AcquireFailed { failing_for, .. } = &error else { panic!("{error}") };
    assert!(*failing_for <= all_was_well.elapsed(), "{error}");
    proxy.release_held();
    held.release().await.unwrap();
}

/// The reader's node is created by a way of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_cannot_become_a_reader_is_told_of_the_lock() {
    let (proxy, client) = impatient(LONG_SESSION).await;
    let path = path("unanswered-reader");
    let lock = read_write(&client, &path);
    let writing = lock.write().acquire().await.unwrap();
    let transactions = requests_of(&proxy, OpCode::Multi);
    proxy.hold_replies(OpCode::Multi);
    let error = soon(lock.read().try_acquire()).await.unwrap_err();
    cause_of(&error, &path, 1, NO_ANSWER);
    assert_eq!(requests_of(&proxy, OpCode::Multi), transactions + 1);
    proxy.release_held();
    soon(writing.release()).await.unwrap();
}

/// An outage that outlives the session, with the policy that never gives up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_retries_forever_waits_through_any_outage() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let client = builder(&proxy.connect_string(), SHORT_SESSION)
        .connection_timeout(Duration::from_millis(100))
        .retry_policy(RetryForever::new(Duration::from_millis(10)).unwrap())
        .connect()
        .await
        .unwrap();
    let (path, epoch) = (path("any-outage"), client.session().await.unwrap().epoch());
    let mut states = client.connection_states();
    unplug(&proxy, &client).await;
    let waiter = acquiring(&client, &path);
    assert!(soon(states.wait_for(client::ConnectionState::Lost)).await);
    assert!(!waiter.is_finished());
    proxy.refuse(false).unwrap();
    let guard = soon(waiter).await.unwrap().unwrap();
    assert!(guard.is_valid() && client.session().await.unwrap().epoch() > epoch);
    guard.release().await.unwrap();
}
