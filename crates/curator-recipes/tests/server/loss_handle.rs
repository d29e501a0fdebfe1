//! A handle tells any task that a lock is no longer held, wherever the guard is.

use std::sync::Arc;

use curator_recipes::client::SessionEnd;
use curator_recipes::{InterProcessLock, InterProcessMultiLock, LockGuard, LossHandle, LossReason};
use curator_test::{OpCode, TestingServer};
use futures_util::FutureExt as _;
use tracing::Level;

use crate::support::{
    Logs, behind_proxy, children, client, end_session, mutex, nothing_left, path, read_write, requests_of, round_trips,
    soon, still_waits, until,
};

/// A task that waits for the end of the lock.
fn watching(handle: &LossHandle) -> tokio::task::JoinHandle<LossReason> {
    let handle = handle.clone();
    tokio::spawn(async move { handle.await.reason })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_task_with_a_handle_learns_of_the_end_of_the_session() {
    let server = TestingServer::shared().await;
    let (proxy, holder) = behind_proxy().await;
    let guard = mutex(&holder, &path("handle/session")).acquire().await.unwrap();
    let (handle, node) = (guard.loss(), guard.node().clone());
    assert!(handle.is_valid());
    let tasks = [&handle, &handle, &guard.loss()].map(watching);
    // The guard has gone elsewhere.
    let elsewhere = tokio::spawn(async move { guard.lost().await.reason });
    end_session(server, &proxy).await;
    let expired = LossReason::SessionLost(SessionEnd::Expired);
    for task in tasks {
        assert_eq!(soon(task).await.unwrap(), expired);
    }
    assert_eq!(soon(elsewhere).await.unwrap(), expired);
    // One that nobody has polled yet, although the guard is gone by now.
    assert!(!handle.is_valid());
    let lost = soon(handle).await;
    assert_eq!((lost.path, lost.reason), (node, expired));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_task_with_a_handle_learns_of_the_deletion_of_the_node_from_one_watch() {
    let ((proxy, holder), admin) = (behind_proxy().await, client().await);
    let guard = mutex(&holder, &path("handle/deleted")).acquire().await.unwrap();
    let handle = guard.loss();
    // The others are still told if one handle is not polled any more, or is dropped.
    let (mut parked, mut dropped) = (guard.loss(), handle.clone());
    assert!((&mut parked).now_or_never().is_none() && (&mut dropped).now_or_never().is_none());
    drop(dropped);
    let tasks = [&handle, &handle, &parked, &guard.loss()].map(watching);
    proxy.wait_for_reply(OpCode::GetData, 1).await.unwrap();
    for task in &tasks {
        assert!(still_waits(task, &holder).await);
    }
    assert_eq!(requests_of(&proxy, OpCode::GetData), 1, "each has set a watch");
    admin.delete().for_path(guard.node()).await.unwrap();
    for task in tasks {
        assert_eq!(soon(task).await.unwrap(), LossReason::NodeDeleted);
    }
    assert!(!handle.is_valid());
    // What was lost before the release stays lost after it.
    drop(guard);
    assert_eq!(soon(handle).await.reason, LossReason::NodeDeleted);
    // It says the same as often as it is asked.
    for _ in 0..2 {
        assert_eq!(soon(&mut parked).await.reason, LossReason::NodeDeleted);
    }
}

/// No event of the server is needed to tell it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_ends_with_the_last_guard_and_keeps_no_lock() {
    let ((proxy, holder), path) = (behind_proxy().await, path("handle/released"));
    let mutex = mutex(&holder, &path);
    for connected in [true, false] {
        let (guard, again) = (mutex.acquire().await.unwrap(), mutex.acquire().await.unwrap());
        let handle = guard.loss();
        let task = watching(&handle);
        drop(again);
        assert!(still_waits(&task, &holder).await);
        assert!(handle.is_valid());
        if connected {
            guard.release().await.unwrap();
        } else {
            proxy.refuse(true).unwrap();
            proxy.cut();
            until(async || holder.try_session().is_err()).await;
            assert!(handle.is_valid());
            drop(guard);
        }
        assert!(!handle.is_valid());
        assert_eq!(soon(task).await.unwrap(), LossReason::Released);
        proxy.refuse(false).unwrap();
        nothing_left(&holder, &[&path]).await;
        // The handle is still there, and polled for the first time.
        assert_eq!(soon(handle).await.reason, LossReason::Released);
    }
}

/// It waits for an answer, or for an event, and nobody will ever fetch it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_that_nobody_polls_keeps_neither_the_client_open_nor_the_span_of_the_hold() {
    for polls in [1, 20] {
        let (proxy, holder) = behind_proxy().await;
        let logs = Logs::at(Level::DEBUG);
        let guard = logs.hear(mutex(&holder, &path("handle/kept")).acquire()).await.unwrap();
        assert_eq!(logs.open_spans(), ["hold"]);
        let mut parked = guard.loss();
        for _ in 0..polls {
            assert!((&mut parked).now_or_never().is_none());
            round_trips(&holder).await;
        }
        guard.release().await.unwrap();
        assert!(logs.open_spans().is_empty(), "{:?}", logs.open_spans());
        drop(holder);
        proxy.wait_for_request(OpCode::CloseSession, 1).await.unwrap();
        drop(parked);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_of_several_locks_ends_with_any_of_them() {
    let (holder, admin) = (client().await, client().await);
    let [one, two] = ["handle/one", "handle/two"].map(path);
    let together = InterProcessMultiLock::new(&holder, [&one, &two]).unwrap();
    let members = [&one, &two].map(|path| Arc::new(mutex(&holder, path)) as Arc<dyn InterProcessLock>);
    let in_turn = InterProcessMultiLock::of(members).unwrap();
    for lock in [together, in_turn] {
        for lost in [Some(0), Some(1), None] {
            let guard: LockGuard = soon(lock.acquire()).await.unwrap();
            let (handle, late, nodes) = (guard.loss(), guard.loss(), guard.nodes().cloned().collect::<Vec<_>>());
            let task = watching(&handle);
            assert!(still_waits(&task, &holder).await);
            match lost {
                Some(index) => {
                    admin.delete().for_path(&nodes[index]).await.unwrap();
                    let lost = soon(handle).await;
                    assert_eq!((&lost.path, lost.reason), (&nodes[index], LossReason::NodeDeleted));
                    assert_eq!(soon(task).await.unwrap(), LossReason::NodeDeleted);
                    drop(guard);
                    // The others were released, and this handle looks only now.
                    let lost = soon(late).await;
                    assert_eq!((&lost.path, lost.reason), (&nodes[index], LossReason::NodeDeleted));
                }
                None => {
                    guard.release().await.unwrap();
                    assert!(!handle.is_valid());
                    assert_eq!(soon(task).await.unwrap(), LossReason::Released);
                    assert_eq!(soon(late).await.reason, LossReason::Released);
                }
            }
            nothing_left(&holder, &[&one, &two]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_downgrade_ends_the_handle_of_the_writer_and_the_reader_has_another() {
    let (holder, path) = (client().await, path("handle/downgrade"));
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
