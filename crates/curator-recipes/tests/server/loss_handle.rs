//! A loss handle notifies any task when a lock is no longer held, even if another task has the
//! guard.

use curator_recipes::{LossHandle, LossReason};
use curator_test::OpCode;
use futures_util::FutureExt as _;
use tracing::Level;

use crate::support::{
    LOSSES, Logs, Row, behind_proxy, children, client, lose, mutex, nothing_left, path, read_write,
    requests_of, round_trips, soon, still_waits, unplug,
};

/// Spawns a task that waits for the end of the hold.
fn watching(handle: &LossHandle) -> tokio::task::JoinHandle<LossReason> {
    let handle = handle.clone();
    tokio::spawn(async move { handle.await.reason })
}

// Runs in real time, to test both transports: a simulation supports only the native one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_watch_notifies_every_task_with_a_loss_handle() {
    for reason in LOSSES {
        let _row = Row::of(reason);
        let (proxy, holder) = behind_proxy().await;
        let guard = mutex(&holder, &path("handle/lost"))
            .acquire()
            .await
            .unwrap();
        let handle = guard.loss();
        let unpolled = guard.loss();
        let node = guard.node().clone();
        let token = guard.cancellation_token();
        let on_loss = guard.cancellation_token_on_loss();
        // An unpolled or dropped handle does not affect the others.
        let mut parked = guard.loss();
        let mut dropped = handle.clone();
        assert!((&mut parked).now_or_never().is_none() && (&mut dropped).now_or_never().is_none());
        drop(dropped);
        let tasks = [&handle, &handle, &parked, &guard.loss()].map(watching);
        proxy.wait_for_reply(OpCode::GetData, 1).await.unwrap();
        for task in &tasks {
            assert!(still_waits(task, &holder).await);
        }
        assert!(handle.is_valid() && !token.is_cancelled() && !on_loss.is_cancelled());
        assert_eq!(
            requests_of(&proxy, OpCode::GetData),
            1,
            "handles and tokens must share one watch"
        );
        lose(&guard, &proxy, reason).await;
        // Moves the guard into another task.
        let elsewhere = tokio::spawn(async move { guard.lost().await.reason });
        for task in tasks.into_iter().chain([elsewhere]) {
            assert_eq!(soon(task).await.unwrap(), reason);
        }
        soon(token.cancelled()).await;
        soon(on_loss.cancelled()).await;
        // Handles still report the loss after the guard is dropped, even a handle that was never
        // polled.
        assert!(!handle.is_valid());
        for handle in [handle, unpolled] {
            let lost = soon(handle).await;
            assert_eq!((&lost.path, lost.reason), (&node, reason));
        }
        // A handle that is awaited again returns the same reason.
        for _ in 0..2 {
            assert_eq!(soon(&mut parked).await.reason, reason);
        }
    }
}

/// The handle completes without an event from the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_ends_with_the_last_guard_and_does_not_keep_the_lock() {
    let (proxy, holder) = behind_proxy().await;
    let path = path("handle/released");
    let mutex = mutex(&holder, &path);
    for connected in [true, false] {
        let guard = mutex.acquire().await.unwrap();
        let again = mutex.acquire().await.unwrap();
        let handle = guard.loss();
        let task = watching(&handle);
        drop(again);
        assert!(still_waits(&task, &holder).await);
        assert!(handle.is_valid());
        if connected {
            guard.release().await.unwrap();
        } else {
            unplug(&proxy, &holder).await;
            assert!(handle.is_valid());
            drop(guard);
        }
        assert!(!handle.is_valid());
        assert_eq!(soon(task).await.unwrap(), LossReason::Released);
        proxy.refuse(false).unwrap();
        nothing_left(&holder, &[&path]).await;
        // This handle is polled for the first time after the release.
        assert_eq!(soon(handle).await.reason, LossReason::Released);
    }
}

/// The reply or event of the handle's watch is never consumed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unpolled_handle_keeps_neither_the_client_open_nor_the_span_of_the_hold() {
    for polls in [1, 20] {
        let (proxy, holder) = behind_proxy().await;
        let logs = Logs::at(Level::DEBUG);
        let guard = logs
            .capture(mutex(&holder, &path("handle/kept")).acquire())
            .await
            .unwrap();
        assert_eq!(logs.open_spans(), ["hold"]);
        let mut parked = guard.loss();
        for _ in 0..polls {
            assert!((&mut parked).now_or_never().is_none());
            round_trips(&holder).await;
        }
        guard.release().await.unwrap();
        assert!(logs.open_spans().is_empty(), "{:?}", logs.open_spans());
        drop(holder);
        proxy
            .wait_for_request(OpCode::CloseSession, 1)
            .await
            .unwrap();
        drop(parked);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_ends_the_handle_of_the_writer_and_the_reader_has_another() {
    let holder = client().await;
    let path = path("handle/downgrade");
    let writing = read_write(&holder, &path).write().acquire().await.unwrap();
    let handle = writing.loss();
    let task = watching(&handle);
    let reading = writing.downgrade().await.unwrap();
    assert_eq!(soon(task).await.unwrap(), LossReason::Released);
    assert!(!handle.is_valid());
    assert!(reading.loss().is_valid());
    assert_eq!(children(&holder, &path).await.len(), 1);
    reading.release().await.unwrap();
}
