//! Acquires without a connection or without replies: their errors, and the arguments of the retry policy.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use curator_recipes::client::{self, CuratorClient, Outcome, RetryContext, RetryForever, RetryNTimes, RetryPolicy};
use curator_recipes::{
    Error, InterProcessMultiLock, InterProcessSemaphoreMutex, InterProcessSemaphoreV2, Result, revoke,
};
use curator_test::{FaultProxy, OpCode, TestingServer, close_session};

use crate::support::{
    self, LONG_SESSION, SHORT_SESSION, acquiring, arc, behind_proxy_with, builder, children, mutex, path, queue_of,
    read_write, requests_of, soon, still_waits, unplug,
};

const CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);
const OPERATION_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// A client behind a proxy, with this connection timeout, a short operation timeout, and three attempts.
async fn impatient(connection_timeout: Duration) -> (FaultProxy, CuratorClient) {
    let retry_policy = RetryNTimes::new(2, PAUSE).unwrap();
    behind_proxy_with(|builder| {
        builder.connection_timeout(connection_timeout).operation_timeout(OPERATION_TIMEOUT).retry_policy(retry_policy)
    })
    .await
}

/// Checks the error's number of attempts and minimum duration; returns the last cause.
#[track_caller]
fn cause_of(error: &Error, path: &str, tried: u32, at_least: Duration) -> client::Error {
    let Error::AcquireFailed { lock, attempts, failing_for, cause } = error else { panic!("{error}") };
    assert_eq!((lock.as_str(), *attempts), (path, tried), "{error}");
    // Counted from the start of the first attempt.
    assert!(*failing_for >= at_least, "{error}");
    assert!(error.is_retryable(), "{error}");
    (**cause).clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_connection_each_lock_fails_with_its_path_and_the_number_of_attempts() {
    let (proxy, client) = impatient(CONNECTION_TIMEOUT).await;
    let path = path("unplugged");
    let (mutex, both) = (mutex(&client, &path), read_write(&client, &path));
    let semaphore = InterProcessSemaphoreV2::new(&client, &path, 2).unwrap();
    let exclusive = InterProcessSemaphoreMutex::new(&client, &path).unwrap();
    let together = InterProcessMultiLock::new(&client, [&path, &format!("{path}/other")]).unwrap();
    unplug(&proxy, &client).await;

    let assert_not_connected = async |acquire: Result<()>, tried| {
        let waits = if tried > 1 { 3 * CONNECTION_TIMEOUT + 2 * PAUSE } else { Duration::ZERO };
        let cause = cause_of(&acquire.unwrap_err(), &path, tried, waits);
        assert!(matches!(cause, client::Error::NotConnected { .. }), "{cause}");
    };
    tokio::join!(
        async { assert_not_connected(soon(mutex.acquire()).await.map(drop), 3).await },
        async { assert_not_connected(soon(both.read().acquire()).await.map(drop), 3).await },
        async { assert_not_connected(soon(both.write().acquire()).await.map(drop), 3).await },
        async { assert_not_connected(soon(semaphore.acquire()).await.map(drop), 3).await },
        async { assert_not_connected(soon(exclusive.acquire()).await.map(drop), 3).await },
        async { assert_not_connected(soon(together.acquire()).await.map(drop), 3).await },
    );
    // `try_acquire` does not retry.
    assert_not_connected(mutex.try_acquire().await.map(drop), 1).await;
    assert_not_connected(both.write().try_acquire().await.map(drop), 1).await;
    assert_not_connected(semaphore.try_acquire().await.map(drop), 1).await;
    assert_not_connected(together.try_acquire().await.map(drop), 1).await;

    let in_turn = InterProcessMultiLock::of([arc(mutex)]).unwrap();
    let error = soon(in_turn.acquire()).await.unwrap_err();
    let Error::MultiLockMember { cause, .. } = &error else { panic!("{error}") };
    assert!(error.is_retryable());
    cause_of(cause, &path, 3, 3 * CONNECTION_TIMEOUT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_without_replies_fails_with_an_operation_timeout() {
    let (proxy, client) = impatient(LONG_SESSION).await;
    let path = path("unanswered");
    mutex(&client, &path).acquire().await.unwrap().release().await.unwrap();
    proxy.hold_replies(OpCode::GetChildren);
    let error = soon(mutex(&client, &path).acquire()).await.unwrap_err();
    let cause = cause_of(&error, &path, 3, 3 * OPERATION_TIMEOUT + 2 * PAUSE);
    assert!(matches!(cause, client::Error::OperationTimeout { .. }), "{cause}");
    assert_eq!(error.outcome(), Outcome::Unknown);
    let error = soon(mutex(&client, &path).try_acquire()).await.unwrap_err();
    let cause = cause_of(&error, &path, 1, OPERATION_TIMEOUT);
    assert!(matches!(cause, client::Error::OperationTimeout { .. }), "{cause}");
    proxy.release_held();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_for_excludes_the_time_in_the_queue() {
    let (proxy, client) = impatient(LONG_SESSION).await;
    let (steady, path) = (support::client().await, path("failing-late"));
    let held = mutex(&steady, &path).acquire().await.unwrap();
    let waiter = acquiring(&client, &path);
    queue_of(&steady, &path, 2).await;
    assert!(still_waits(&waiter, &client).await);
    tokio::time::sleep(OPERATION_TIMEOUT).await;
    let before_failures = Instant::now();
    proxy.hold_replies(OpCode::GetChildren);
    // The waiter queues again, but gets no list of the queue.
    let place = children(&steady, &path).await.into_iter().find(|name| name != held.node().name()).unwrap();
    steady.delete().for_path(format!("{path}/{place}")).await.unwrap();
    let error = soon(waiter).await.unwrap().unwrap_err();
    let Error::AcquireFailed { failing_for, .. } = &error else { panic!("{error}") };
    assert!(*failing_for <= before_failures.elapsed(), "{error}");
    proxy.release_held();
    held.release().await.unwrap();
}

/// A server that ends a session replies with this error to requests that arrive before it closes the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_continues_in_a_new_session_after_the_reply_that_its_session_is_unknown() {
    let (proxy, client) = behind_proxy_with(|builder| builder).await;
    let (steady, path) = (support::client().await, path("unknown-session"));
    let held = mutex(&steady, &path).acquire().await.unwrap();
    proxy.alter_next_reply(OpCode::GetData, |reply| {
        reply.truncate(16);
        reply[12..16].copy_from_slice(&(-12_i32).to_be_bytes());
    });
    let waiter = acquiring(&client, &path);
    soon(proxy.wait_for_reply(OpCode::GetData, 1)).await.unwrap();
    for session in proxy.sessions() {
        close_session(TestingServer::shared().await.address(), &session).await.unwrap();
    }
    queue_of(&steady, &path, 2).await;
    held.release().await.unwrap();
    soon(waiter).await.unwrap().unwrap().release().await.unwrap();
}

/// The read node of a writer is created by a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_read_acquire_of_a_writer_returns_an_error_with_the_path_of_the_lock() {
    let (proxy, client) = impatient(LONG_SESSION).await;
    let path = path("unanswered-reader");
    let lock = read_write(&client, &path);
    let writing = lock.write().acquire().await.unwrap();
    let transactions = requests_of(&proxy, OpCode::Multi);
    proxy.hold_replies(OpCode::Multi);
    let error = soon(lock.read().try_acquire()).await.unwrap_err();
    cause_of(&error, &path, 1, OPERATION_TIMEOUT);
    assert_eq!(requests_of(&proxy, OpCode::Multi), transactions + 1);
    proxy.release_held();
    soon(writing.release()).await.unwrap();
}

/// The outage outlasts the session, and the retry policy never gives up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_retries_forever_waits_through_any_outage() {
    let forever = RetryForever::new(PAUSE).unwrap();
    let (proxy, client) = behind_proxy_with(|builder| {
        builder.session_timeout(SHORT_SESSION).connection_timeout(CONNECTION_TIMEOUT).retry_policy(forever)
    })
    .await;
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

/// A retry policy that never gives up, and records its arguments.
#[derive(Debug, Default, Clone)]
struct RecordingPolicy(Arc<Mutex<Vec<(u32, Duration)>>>);

impl RetryPolicy for RecordingPolicy {
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        self.0.lock().unwrap().push((failed.retries(), failed.elapsed()));
        Some(Duration::from_millis(10))
    }
}

/// If the wait counted, a policy with a time limit would give up at the first lost reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_elapsed_time_of_a_retry_policy_excludes_the_time_in_the_queue() {
    let calls = RecordingPolicy::default();
    let policy = calls.clone();
    let (proxy, waiting) =
        behind_proxy_with(|builder| builder.operation_timeout(OPERATION_TIMEOUT).retry_policy(policy)).await;
    let (steady, path) = (support::client().await, path("long-wait"));
    let held = mutex(&steady, &path).acquire().await.unwrap();
    proxy.reset_counts();
    let waiter = acquiring(&waiting, &path);
    queue_of(&steady, &path, 2).await;
    // The waiter watches the holder's node and its own.
    proxy.wait_for_reply(OpCode::GetData, 2).await.unwrap();
    calls.0.lock().unwrap().clear();
    // The revocation request is a write: it fires the waiter's watch. The reply to the waiter's next watch is lost.
    proxy.swallow_next_reply(OpCode::GetData);
    revoke(&steady, held.node()).await.unwrap();
    proxy.wait_for_reply(OpCode::GetData, 4).await.unwrap();
    held.release().await.unwrap();
    soon(waiter).await.unwrap().unwrap().release().await.unwrap();
    let calls = calls.0.lock().unwrap();
    assert_eq!(calls.first(), Some(&(0, Duration::ZERO)), "{calls:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_created_before_the_first_session_are_acquired_in_it() {
    let server = TestingServer::start().await.unwrap();
    server.stop().await.unwrap();
    let client = builder(&server.connect_string(), LONG_SESSION);
    let client = client.retry_policy(RetryForever::new(PAUSE).unwrap()).start().unwrap();
    let mutex = mutex(&client, &path("early"));
    let semaphore = InterProcessSemaphoreV2::new(&client, path("early"), 2).unwrap();
    let early = tokio::spawn(async move { (mutex.acquire().await, semaphore.acquire().await) });
    let mut states = client.connection_states();
    server.restart().await.unwrap();
    assert!(soon(states.wait_for(client::ConnectionState::Connected)).await);
    let (guard, lease) = soon(early).await.unwrap();
    let (guard, lease) = (guard.unwrap(), lease.unwrap());
    // The client did not know its address when the locks were created.
    assert_eq!(&client.get_data(guard.node()).await.unwrap().0[..], b"127.0.0.1");
    assert_eq!(lease.data(), b"127.0.0.1");
    guard.release().await.unwrap();
    lease.release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_place_is_deleted_more_often_than_the_policy_retries_gives_up() {
    let (holder, path) = (support::client().await, path("place-deleted"));
    let twice = RetryNTimes::new(2, PAUSE).unwrap();
    let (_proxy, waiter) = behind_proxy_with(|builder| builder.retry_policy(twice)).await;
    let held = mutex(&holder, &path).acquire().await.unwrap();
    let waiting = acquiring(&waiter, &path);
    let mut deleted = Vec::new();
    for _ in 0..3 {
        assert!(!waiting.is_finished());
        queue_of(&holder, &path, 2).await;
        let place = children(&holder, &path).await.into_iter().find(|name| name != held.node().name()).unwrap();
        assert!(!deleted.contains(&place), "the name {place} is used again");
        holder.delete().for_path(&format!("{path}/{place}")).await.unwrap();
        deleted.push(place);
    }
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::PlaceDeleted { dir } if dir.as_str() == path), "{error}");
    assert!(held.is_valid());
    queue_of(&holder, &path, 1).await;
}
