//! `acquire_timeout` and `try_acquire`.

use std::time::{Duration, Instant};

use super::stage::Stage;
use super::subjects::{Kind, Lock};
use crate::support::{DEFAULT_TIMEOUT, SLACK, soon, still_waits};

pub(super) async fn a_timed_acquire_gives_up_in_time_and_leaves_nothing_behind(kind: Kind) {
    const TIMEOUT: Duration = Duration::from_millis(100);
    let stage = Stage::quiet(kind, "timed").await;
    let waiter = stage.client().await;
    let guard = stage.blocker().acquire().await.unwrap();
    let before = stage.nodes().await;
    let began = Instant::now();
    assert!(soon(stage.lock(&waiter).acquire_timeout(TIMEOUT)).await.unwrap().is_none());
    assert!((TIMEOUT..TIMEOUT + SLACK).contains(&began.elapsed()), "{:?}", began.elapsed());
    soon(waiter.janitor().idle()).await;
    assert_eq!(stage.nodes().await, before);
    stage.until_watches(0).await;
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
        let guard = soon(waiting).await.unwrap().expect("the lock became free in time");
        assert!(guard.is_valid());
        guard.release().await.unwrap();
        stage.free(&waiter).await;
    }
}

pub(super) async fn a_zero_wait_acquire_takes_a_free_lock_and_never_waits(kind: Kind) {
    let stage = Stage::quiet(kind, "zero-wait").await;
    let (holder, other) = (stage.client().await, stage.client().await);
    // The first time, the directories are missing.
    for zero_timeout in [false, true] {
        let zero_wait = async |lock: Lock| {
            let acquired =
                if zero_timeout { lock.acquire_timeout(Duration::ZERO).await } else { lock.try_acquire().await };
            acquired.unwrap()
        };
        let guard = zero_wait(stage.lock(&holder)).await.expect("the lock is free");
        assert!(guard.is_valid());
        let beside = zero_wait(stage.lock(&other)).await;
        assert_eq!(beside.is_some(), kind == Kind::Read);
        drop(beside);
        drop(guard);
        stage.free(&other).await;
        stage.free(&holder).await;
    }
    let guard = stage.blocker().acquire().await.unwrap();
    let before = stage.nodes().await;
    assert!(stage.lock(&other).try_acquire().await.unwrap().is_none());
    assert!(stage.lock(&other).acquire_timeout(Duration::ZERO).await.unwrap().is_none());
    soon(other.janitor().idle()).await;
    assert_eq!(stage.nodes().await, before);
    stage.until_watches(0).await;
    guard.release().await.unwrap();
    stage.free(&other).await;
}
