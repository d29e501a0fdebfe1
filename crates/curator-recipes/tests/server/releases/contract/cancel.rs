//! A future may be dropped at any await point.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::stage::Stage;
use super::subjects::Kind;
use crate::support::{drop_after, drop_after_when, soon};

/// Calls `dropped_after` with 0, 1, 2, … polls before the drop, until it returns true, because the future was dropped at
/// each of its await points.
async fn at_every_await(mut dropped_after: impl AsyncFnMut(usize) -> bool) {
    /// More polls than any future needs.
    const MANY: usize = 200;
    for polls in 0..MANY {
        if dropped_after(polls).await {
            return;
        }
    }
    panic!("{MANY} polls were not enough");
}

pub(super) async fn an_acquire_of_a_free_lock_dropped_at_every_await_leaves_nothing(kind: Kind) {
    let mut stage = Stage::quiet(kind, "drop-free").await;
    let (client, path) = (stage.client().await, stage.path.clone());
    for with_directories in [false, true] {
        at_every_await(async |polls| {
            if !with_directories {
                stage.path = format!("{path}/{polls}/lock");
            }
            let lock = stage.lock(&client);
            let acquiring = async move { lock.acquire().await.unwrap() };
            let completed = soon(tokio::spawn(drop_after(acquiring, polls))).await.unwrap().is_some();
            stage.free(&client).await;
            completed
        })
        .await;
    }
}

pub(super) async fn an_acquire_of_a_held_lock_dropped_at_every_await_leaves_nothing(kind: Kind) {
    let stage = Stage::quiet(kind, "drop-taken").await;
    let waiter = stage.client().await;
    at_every_await(async |polls| {
        let guard = stage.blocker().acquire().await.unwrap();
        let held = stage.nodes().await;
        let lock = stage.lock(&waiter);
        let acquiring = async move { lock.acquire().await.unwrap() };
        let mut contending = tokio::spawn(drop_after(acquiring, polls));
        let mut was_waiting = false;
        tokio::select! {
            outcome = &mut contending => assert!(outcome.unwrap().is_none(), "the waiter acquired a held lock"),
            () = stage.until_settled(2) => {
                // The abort drops the acquire while it waits, unless its last poll happens just now.
                contending.abort();
                match contending.await {
                    Ok(outcome) => assert!(outcome.is_none(), "the waiter acquired a held lock"),
                    Err(error) => was_waiting = error.is_cancelled(),
                }
            }
        }
        soon(waiter.janitor().idle()).await;
        assert_eq!(stage.nodes().await, held);
        stage.until_watches(0).await;
        guard.release().await.unwrap();
        stage.free(&waiter).await;
        was_waiting
    })
    .await;
}

/// The acquire has waited, and is dropped when its turn comes.
pub(super) async fn an_acquire_dropped_at_every_await_of_its_turn_leaves_nothing(kind: Kind) {
    let stage = Stage::quiet(kind, "drop-turn").await;
    let waiter = stage.client().await;
    // With 0 polls after the release, the acquire has not noticed yet that its turn has come.
    at_every_await(async |polls| {
        let guard = stage.blocker().acquire().await.unwrap();
        let lock = stage.lock(&waiter);
        let released = Arc::new(AtomicBool::new(false));
        let acquiring = async move { lock.acquire().await.unwrap() };
        let counts = Arc::clone(&released);
        let contending = tokio::spawn(drop_after_when(acquiring, polls, move || counts.load(Ordering::SeqCst)));
        stage.until_settled(2).await;
        released.store(true, Ordering::SeqCst);
        guard.release().await.unwrap();
        let completed = soon(contending).await.unwrap().is_some();
        stage.free(&waiter).await;
        completed
    })
    .await;
}

pub(super) async fn a_release_dropped_at_every_await_still_releases(kind: Kind) {
    let stage = Stage::quiet(kind, "drop-release").await;
    let client = stage.client().await;
    at_every_await(async |polls| {
        let guard = stage.lock(&client).acquire().await.unwrap();
        let released = soon(tokio::spawn(drop_after(guard.release(), polls))).await.unwrap();
        stage.free(&client).await;
        released.transpose().unwrap().is_some()
    })
    .await;
}
