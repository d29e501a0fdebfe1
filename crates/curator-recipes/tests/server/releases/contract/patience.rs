//! `acquire_timeout` and `try_acquire`.

use std::time::{Duration, Instant};

use super::stage::Stage;
use super::subjects::Kind;
use crate::support::{DEFAULT_TIMEOUT, soon, still_waits};

pub(super) async fn a_timed_acquire_gives_up_in_time_and_leaves_nothing_behind(kind: Kind) {
    let stage = Stage::quiet(kind, "timed").await;
    let waiter = stage.client().await;
    let lock = stage.lock(&waiter);
    let guard = stage.blocker().acquire().await.unwrap();
    let before = stage.nodes().await;
    for timeout in [Duration::ZERO, Duration::from_millis(100)] {
        let began = Instant::now();
        assert!(soon(lock.acquire_timeout(timeout)).await.unwrap().is_none());
        assert!(began.elapsed() >= timeout, "{:?}", began.elapsed());
        assert!(lock.try_acquire().await.unwrap().is_none());
        soon(waiter.janitor().idle()).await;
        assert_eq!(stage.nodes().await, before);
        stage.until_watches(0).await;
    }
    assert!(guard.is_valid());
    guard.release().await.unwrap();
    stage.free(&waiter).await;
}

pub(super) async fn a_timed_acquire_whose_turn_comes_in_time_acquires(kind: Kind) {
    let stage = Stage::quiet(kind, "in-time").await;
    let waiter = stage.client().await;
    for timeout in [DEFAULT_TIMEOUT, Duration::MAX] {
        let guard = stage.blocker().acquire().await.unwrap();
        let lock = stage.lock(&waiter);
        let waiting = tokio::spawn(async move { lock.acquire_timeout(timeout).await.unwrap() });
        stage.until_settled(2).await;
        assert!(still_waits(&waiting, &waiter).await);
        guard.release().await.unwrap();
        let guard = soon(waiting)
            .await
            .unwrap()
            .expect("the lock became free in time");
        assert!(guard.is_valid());
        guard.release().await.unwrap();
        stage.free(&waiter).await;
    }
}

pub(super) async fn a_zero_wait_acquire_takes_a_free_lock(kind: Kind) {
    let stage = Stage::quiet(kind, "zero-wait").await;
    let client = stage.client().await;
    // The first time, the directories are missing.
    for zero_timeout in [false, true] {
        let lock = stage.lock(&client);
        let acquired = if zero_timeout {
            lock.acquire_timeout(Duration::ZERO).await
        } else {
            lock.try_acquire().await
        };
        assert!(acquired.unwrap().expect("the lock is free").is_valid());
        stage.free(&client).await;
    }
}
