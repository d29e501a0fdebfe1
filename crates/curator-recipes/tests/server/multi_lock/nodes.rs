//! Nodes of a multi-lock that another client deletes.

use std::time::Duration;

use curator_recipes::client::ZPath;
use curator_recipes::{Error, InterProcessMultiLock, LockGuard, LossReason};
use curator_test::OpCode;

use super::{assert_holds_all, multi, one_by_one, paths, queues_of};
use crate::support::{
    FAULTS, Row, arc, behind_proxy_with, children, client, free, keep, mutex, nothing_left, soon,
    spawn_acquire, still_waits, until,
};
use crate::transactions::assert_lost;

fn nodes(guard: &LockGuard) -> Vec<ZPath> {
    guard.nodes().cloned().collect()
}

/// What the holder does after the deletion of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Releases,
    ReleasesWhenNotified,
    DropsWhenNotified,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_loss_of_one_of_several_nodes_is_reported_and_the_others_are_deleted() {
    let admin = client().await;
    let client = client().await;
    let paths = paths::<3>("one-gone");
    for lock in [multi(&client, &paths), one_by_one(&client, &paths)] {
        for lost_node in 0..3 {
            for way in [
                Way::Releases,
                Way::ReleasesWhenNotified,
                Way::DropsWhenNotified,
            ] {
                let guard = lock.acquire().await.unwrap();
                let node = nodes(&guard).remove(lost_node);
                let handle = guard.loss();
                let late = guard.loss();
                if way == Way::Releases {
                    admin.delete().for_path(&node).await.unwrap();
                } else {
                    let (lost, deleted) =
                        soon(async { tokio::join!(handle, admin.delete().for_path(&node)) }).await;
                    deleted.unwrap();
                    assert_eq!((&lost.path, lost.reason), (&node, LossReason::NodeDeleted));
                    assert_eq!(soon(guard.lost()).await, lost);
                    assert!(!guard.is_valid() && !lock.is_acquired_in_this_process());
                }
                if way == Way::DropsWhenNotified {
                    drop(guard);
                    // The other nodes were deleted before this handle is polled for the first time.
                    let lost = soon(late).await;
                    assert_eq!((&lost.path, lost.reason), (&node, LossReason::NodeDeleted));
                } else {
                    assert_lost(
                        &soon(guard.release()).await.unwrap_err(),
                        &node,
                        LossReason::NodeDeleted,
                    );
                    queues_of(&admin, &paths, &[0; 3]).await;
                }
                free(&client, &paths).await;
            }
        }
        // If the hold is not lost, its handles complete at the release.
        let guard = lock.acquire().await.unwrap();
        let waiting = tokio::spawn(guard.loss());
        let late = guard.loss();
        assert!(still_waits(&waiting, &client).await);
        guard.release().await.unwrap();
        assert!(!late.is_valid());
        assert_eq!(
            [soon(waiting).await.unwrap().reason, soon(late).await.reason],
            [LossReason::Released; 2]
        );
    }
}

/// `guard = lock.acquire().await?` drops the lost guard only after the next acquire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_acquired_anew_while_the_guard_of_a_lost_hold_is_kept() {
    let admin = client().await;
    let client = client().await;
    let paths = paths::<3>("kept");
    for lock in [
        multi(&client, &paths),
        InterProcessMultiLock::non_reentrant(&client, &paths).unwrap(),
    ] {
        for (deleted, waits) in [
            (0, true),
            (1, true),
            (2, true),
            (0, false),
            (1, false),
            (2, false),
        ] {
            let lost = lock.acquire().await.unwrap();
            let node = nodes(&lost).remove(deleted);
            let (reported, delete) =
                soon(async { tokio::join!(lost.lost(), admin.delete().for_path(&node)) }).await;
            delete.unwrap();
            assert_eq!(reported.reason, LossReason::NodeDeleted);
            // Remaining nodes of the lost hold would be ahead of this acquire's nodes.
            let anew = if waits {
                soon(lock.acquire()).await
            } else {
                lock.try_acquire().await.map(Option::unwrap)
            };
            let anew = anew.unwrap();
            assert!(anew.is_valid() && !anew.is_reentry());
            assert_lost(
                &soon(lost.release()).await.unwrap_err(),
                &node,
                LossReason::NodeDeleted,
            );
            assert_holds_all(&admin, &anew, &paths).await;
            anew.release().await.unwrap();
            queues_of(&admin, &paths, &[0; 3]).await;
        }
    }
}

/// A multi-lock of paths deletes its nodes in one transaction, in the order of the paths. A
/// multi-lock of locks releases its locks one after another, the last one first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_with_two_nodes_gone_reports_both_in_the_order_of_the_releases() {
    let admin = client().await;
    let client = client().await;
    let paths = paths::<3>("two-gone");
    for (lock, order) in [
        (multi(&client, &paths), [0, 2]),
        (one_by_one(&client, &paths), [2, 0]),
    ] {
        let guard = lock.acquire().await.unwrap();
        let nodes = nodes(&guard);
        for deleted in [0, 2] {
            admin.delete().for_path(&nodes[deleted]).await.unwrap();
        }
        let error = soon(guard.release()).await.unwrap_err();
        let Error::ReleasesFailed { failures } = &error else {
            panic!("{error}")
        };
        assert_eq!(failures.len(), 2, "{error}");
        for (failure, deleted) in failures.iter().zip(order) {
            assert_lost(failure, &nodes[deleted], LossReason::NodeDeleted);
        }
        free(&client, &paths).await;
    }
}

/// The loss is known already, and a lost reply does not hide it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_reports_a_known_loss_despite_a_lost_reply() {
    let (proxy, client) =
        behind_proxy_with(|builder| builder.operation_timeout(Duration::from_millis(300))).await;
    let admin = self::client().await;
    let paths = paths::<3>("known-loss");
    // Otherwise the armed fault would meet the transaction that creates a directory.
    keep(&admin, &paths).await;
    for (_, fault) in FAULTS {
        let guard = multi(&client, &paths).acquire().await.unwrap();
        let node = nodes(&guard).remove(1);
        let (lost, deleted) =
            soon(async { tokio::join!(guard.lost(), admin.delete().for_path(&node)) }).await;
        deleted.unwrap();
        assert_eq!(lost.path, node);
        fault(&proxy, OpCode::Multi);
        assert_lost(
            &soon(guard.release()).await.unwrap_err(),
            &node,
            LossReason::NodeDeleted,
        );
        nothing_left(&client, &paths).await;
        // An attempt of the other client may end without a reply on a busy machine.
        free(&admin, &paths).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_loses_one_of_its_places_starts_again_in_all_queues() {
    let holder = client().await;
    let waiter = client().await;
    // The waiter is first in the first queue, and second in the second queue. Its node in one of
    // the queues is deleted.
    for deleted in [0, 1] {
        let _row = Row::of(deleted);
        let paths = paths::<2>("begins-anew");
        let held = mutex(&holder, &paths[1]).acquire().await.unwrap();
        let waiting = spawn_acquire(arc(multi(&waiter, &paths)));
        queues_of(&holder, &paths, &[1, 2]).await;
        let places = async || {
            let mut places = Vec::new();
            for path in &paths {
                let mut names = children(&holder, path).await;
                names.retain(|name| *name != held.node().name());
                places.push(names);
            }
            places
        };
        let before = places().await;
        holder
            .delete()
            .for_path(format!("{}/{}", paths[deleted], before[deleted][0]))
            .await
            .unwrap();
        // The waiter removes its old node in the other queue.
        until(async || {
            let now = places().await;
            now.iter()
                .zip(&before)
                .all(|(now, old)| now.len() == 1 && now != old)
        })
        .await;
        assert!(still_waits(&waiting, &waiter).await);
        held.release().await.unwrap();
        let guard = soon(waiting).await.unwrap().unwrap();
        assert_holds_all(&holder, &guard, &paths).await;
        guard.release().await.unwrap();
        free(&holder, &paths).await;
    }
}
