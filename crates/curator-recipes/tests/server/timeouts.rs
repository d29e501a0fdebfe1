//! Time that is over, and clients that close.

use std::sync::Arc;
use std::time::{Duration, Instant};

use curator_recipes::{Error, InterProcessLock, InterProcessMultiLock, client};
use curator_test::{Direction, FaultProxy, TestingServer};

use crate::support::{
    LONG_SESSION, SHORT_SESSION, SLACK, builder, client as connected, connect, mutex, path, queue_of, soon,
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
    let waiting = tokio::spawn({
        let mutex = mutex(&waiter, &path);
        async move { mutex.acquire().await }
    });
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
async fn an_acquire_without_a_connection_fails_at_once_when_the_client_closes() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = builder(&proxy.connect_string(), SHORT_SESSION)
        .connection_timeout(Duration::from_secs(60))
        .close_timeout(Duration::from_millis(100))
        .connect()
        .await
        .unwrap();
    let mut states = client.connection_states();
    proxy.black_hole(Direction::Both);
    assert!(soon(states.wait_for(client::ConnectionState::Lost)).await);
    let waiting = tokio::spawn({
        let mutex = mutex(&client, &path("closing-outage"));
        async move { mutex.acquire().await }
    });
    let began = Instant::now();
    assert!(client.close().await.is_err(), "nobody can have confirmed this");
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Client(client::Error::Closed)), "{error}");
    assert!(began.elapsed() < SLACK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_the_client_tells_the_holder_and_frees_the_lock_at_once() {
    let (holder, other, path) = (connected().await, connected().await, path("close-holder"));
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    holder.close().await.unwrap();
    assert!(!guard.is_valid());
    let lost = soon(guard.lost()).await;
    assert_eq!(lost.reason, curator_recipes::LossReason::SessionLost(client::SessionEnd::Closed));
    assert!(mutex(&other, &path).try_acquire().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swallowed_answer_holds_an_acquire_up_for_the_operation_timeout_only() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = builder(&proxy.connect_string(), LONG_SESSION)
        .operation_timeout(Duration::from_millis(300))
        .connect()
        .await
        .unwrap();
    let (path, steady) = (path("swallowed"), connect(&server.connect_string()).await);
    let mutex = mutex(&client, &path);
    mutex.acquire().await.unwrap().release().await.unwrap();
    for op in [curator_test::OpCode::Create2, curator_test::OpCode::GetChildren] {
        proxy.swallow_next_reply(op);
        let began = Instant::now();
        let guard = soon(mutex.acquire()).await.unwrap();
        assert!(began.elapsed() < SLACK);
        // The node whose answer was lost is the one that is held: there is no second.
        queue_of(&steady, &path, 1).await;
        guard.release().await.unwrap();
        queue_of(&steady, &path, 0).await;
    }
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
        proxy.cut_before_request(curator_test::OpCode::Create2);
    }
    let error = soon(mutex.acquire()).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    let creates = proxy.requests()[&curator_test::OpCode::Create2];
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
