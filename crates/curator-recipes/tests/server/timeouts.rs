//! Time that is over, and clients that close.

use std::sync::Arc;
use std::time::{Duration, Instant};

use curator_recipes::{Error, InterProcessLock, InterProcessMultiLock, LossReason, client};
use curator_test::{Direction, FaultProxy, OpCode, TestingServer};

use crate::support::{
    LONG_SESSION, SHORT_SESSION, SLACK, acquiring, builder, client as connected, connect, mutex, path, queue_of, soon,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timed_acquire_returns_in_time_during_an_outage() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    // Without its own timeout the acquire would try for ever.
    let client = builder(&proxy.connect_string(), SHORT_SESSION)
        .connection_timeout(Duration::from_secs(60))
        .retry_policy(client::RetryForever::new(Duration::from_millis(50)).unwrap())
        .connect()
        .await
        .unwrap();
    let mutex = mutex(&client, &path("outage"));
    mutex.acquire().await.unwrap().release().await.unwrap();
    proxy.black_hole(Direction::Both);
    // While the session is in doubt, and when it is lost.
    let mut states = client.connection_states();
    for round in 0..2 {
        let began = Instant::now();
        let outcome = soon(mutex.acquire_timeout(Duration::from_millis(200))).await;
        assert!(matches!(outcome, Ok(None)), "{outcome:?}");
        assert!(began.elapsed() < SLACK);
        if round == 0 {
            assert!(soon(states.wait_for(client::ConnectionState::Lost)).await);
        }
    }
    // Nothing to wait for, and so an error at once.
    let began = Instant::now();
    let error = soon(mutex.try_acquire()).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(began.elapsed() < SLACK);
    proxy.heal();
    let guard = soon(mutex.acquire()).await.unwrap();
    assert!(guard.is_valid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_waits_while_the_client_closes_fails_at_once() {
    let (holder, waiter, path) = (connected().await, connected().await, path("closing"));
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let waiting = acquiring(&waiter, &path);
    queue_of(&holder, &path, 2).await;
    let began = Instant::now();
    waiter.close().await.unwrap();
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(began.elapsed() < SLACK, "{:?}", began.elapsed());
    assert!(matches!(error, Error::Client(client::Error::Closed)), "{error}");
    queue_of(&holder, &path, 1).await;
    assert!(matches!(mutex(&waiter, &path).acquire().await.unwrap_err(), Error::Client(client::Error::Closed)));
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_the_client_tells_the_holder_and_frees_the_lock_at_once() {
    let (holder, other, path) = (connected().await, connected().await, path("close-holder"));
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    holder.close().await.unwrap();
    assert!(!guard.is_valid());
    let lost = soon(guard.lost()).await;
    assert_eq!(lost.reason, LossReason::SessionLost(client::SessionEnd::Closed));
    let error = guard.release().await.unwrap_err();
    assert!(matches!(&error, Error::Lost(late) if late.reason == lost.reason), "{error}");
    assert!(mutex(&other, &path).try_acquire().await.unwrap().is_some());
}

/// The connection works, and every create fails: that the lock can be looked at in between is no progress.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_retry_policy_ends_an_acquire_whose_create_always_fails() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let twice = client::RetryNTimes::new(4, Duration::from_millis(1)).unwrap();
    let client = builder(&proxy.connect_string(), LONG_SESSION).retry_policy(twice).connect().await.unwrap();
    let mutex = mutex(&client, &path("never-created"));
    mutex.acquire().await.unwrap().release().await.unwrap();
    proxy.reset_counts();
    for _ in 0..100 {
        proxy.cut_before_request(OpCode::Create2);
    }
    let error = soon(mutex.acquire()).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    let creates = proxy.requests()[&OpCode::Create2];
    assert!(creates <= 5, "{creates} creates");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timed_acquire_of_several_locks_returns_in_time_during_an_outage() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (first, second) = (path("outage-first"), path("outage-second"));
    let others = connected().await;
    let _held = mutex(&others, &second).acquire().await.unwrap();
    let client = connect(&proxy.connect_string()).await;
    let locks: [Arc<dyn InterProcessLock>; 2] = [Arc::new(mutex(&client, &first)), Arc::new(mutex(&client, &second))];
    let both = InterProcessMultiLock::of(locks).unwrap();
    let (began, timeout) = (Instant::now(), Duration::from_secs(2));
    let acquiring = tokio::spawn(async move { both.acquire_timeout(timeout).await });
    queue_of(&others, &second, 2).await;
    proxy.black_hole(Direction::Both);
    let acquired = soon(acquiring).await.unwrap();
    // What it held cannot be given back now, which is no reason to keep the caller.
    assert!(began.elapsed() < timeout + SLACK, "{:?}: {acquired:?}", began.elapsed());
    assert!(acquired.unwrap().is_none());
}
