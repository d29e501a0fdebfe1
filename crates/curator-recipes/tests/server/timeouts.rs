//! Clients that close, and acquires that never get a node. `outages.rs` has acquires that time out
//! in an outage.

use std::time::{Duration, Instant};

use curator_recipes::{Error, InterProcessSemaphoreMutex, LossReason, client};
use curator_test::OpCode;

use crate::support::{
    Row, acquiring, arc, behind_proxy_with, client as connected, keep, mutex, nothing_left, path,
    queue_of, requests_of, soon,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_that_waits_while_the_client_closes_fails_immediately() {
    let holder = connected().await;
    let waiter = connected().await;
    let path = path("closing");
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let waiting = acquiring(&waiter, &path);
    queue_of(&holder, &path, 2).await;
    waiter.close().await.unwrap();
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert!(
        matches!(error, Error::Client(client::Error::Closed)),
        "{error}"
    );
    queue_of(&holder, &path, 1).await;
    assert!(matches!(
        mutex(&waiter, &path).acquire().await.unwrap_err(),
        Error::Client(client::Error::Closed)
    ));
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_the_client_notifies_the_holder_and_frees_the_lock_immediately() {
    let holder = connected().await;
    let other = connected().await;
    let path = path("close-holder");
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    holder.close().await.unwrap();
    assert!(!guard.is_valid());
    let lost = soon(guard.lost()).await;
    assert_eq!(
        lost.reason,
        LossReason::SessionLost(client::SessionEnd::Closed)
    );
    let error = guard.release().await.unwrap_err();
    assert!(
        matches!(&error, Error::Lost(late) if late.reason == lost.reason),
        "{error}"
    );
    assert!(mutex(&other, &path).try_acquire().await.unwrap().is_some());
}

/// The connection works, and every create fails: successful reads in between do not count as
/// progress.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_retry_policy_ends_an_acquire_whose_create_always_fails() {
    let few = client::RetryNTimes::new(4, Duration::from_millis(1)).unwrap();
    let (proxy, client) = behind_proxy_with(|builder| builder.retry_policy(few)).await;
    let [path, leases] = [path("never-created"), path("never-taken")];
    let semaphore_mutex = InterProcessSemaphoreMutex::new(&client, &leases).unwrap();
    let dirs = [
        path.clone(),
        format!("{leases}/locks"),
        format!("{leases}/leases"),
    ];
    keep(&client, &dirs).await;
    // A resumed session starts with a transaction, so only every second transaction takes a lease.
    for (lock, create, every, most) in [
        (arc(mutex(&client, &path)), OpCode::Create2, 1, 5),
        (arc(semaphore_mutex), OpCode::Multi, 2, 12),
    ] {
        let _row = Row::of(create);
        lock.acquire().await.unwrap().release().await.unwrap();
        proxy.reset_counts();
        for attempt in 0..40 {
            proxy.cut_before_nth_request(create, every * attempt + 1);
        }
        let error = soon(lock.acquire()).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        let sent = requests_of(&proxy, create);
        assert!(sent <= most, "{sent} times {create:?}");
        proxy.disarm();
    }
    nothing_left(&client, &dirs).await;
}

/// In a test that pauses tokio's clock, the locks use real time.
#[tokio::test(start_paused = true)]
async fn acquire_timeout_waits_in_real_time_when_tokios_clock_is_paused() {
    let holder = connected().await;
    let waiter = connected().await;
    let path = path("paused");
    let timeout = Duration::from_millis(200);
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let waiting = mutex(&waiter, &path);
    let began = Instant::now();
    assert!(
        soon(waiting.acquire_timeout(timeout))
            .await
            .unwrap()
            .is_none()
    );
    assert!(began.elapsed() >= timeout);
    // The release comes long after the timeout by tokio's clock.
    let release = async {
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        guard.release().await.unwrap();
    };
    let (acquired, ()) = tokio::join!(waiting.acquire_timeout(Duration::from_secs(60)), release);
    assert!(acquired.unwrap().is_some());
}
