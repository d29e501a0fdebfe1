//! Nodes of a multi-lock that somebody else deletes.

use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::{CuratorClient, ZPath};
use curator_recipes::{Error, InterProcessMultiLock, LockGuard, LossReason};
use curator_test::{FaultProxy, OpCode, TestingServer};

use super::own::arc;
use super::{acquiring, holds_all, multi, paths, queues_of};
use crate::support::{
    FAULTS, LONG_SESSION, builder, children, client, connect, end_session, free, mutex, soon, still_waits, until,
};

fn one_by_one(client: &CuratorClient, paths: &[String]) -> InterProcessMultiLock {
    InterProcessMultiLock::of(paths.iter().map(|path| arc(mutex(client, path)))).unwrap()
}

fn nodes(guard: &LockGuard) -> Vec<ZPath> {
    guard.nodes().cloned().collect()
}

fn is_lost(error: &Error, node: &ZPath) {
    let Error::Lost(lost) = error else { panic!("{error}") };
    assert_eq!((&lost.path, lost.reason), (node, LossReason::NodeDeleted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_which_one_node_is_gone_names_it_and_releases_the_others() {
    let (client, admin, paths) = (client().await, client().await, paths::<3>("one-gone"));
    for lock in [multi(&client, &paths), one_by_one(&client, &paths)] {
        for gone in 0..3 {
            let guard = lock.acquire().await.unwrap();
            let node = nodes(&guard).remove(gone);
            admin.delete().for_path(&node).await.unwrap();
            is_lost(&soon(guard.release()).await.unwrap_err(), &node);
            queues_of(&admin, &paths, &[0; 3]).await;
            free(&client, &paths).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_of_which_one_node_is_deleted_is_told_and_still_releases_the_others() {
    let (client, admin, paths) = (client().await, client().await, paths::<3>("told"));
    for lock in [multi(&client, &paths), one_by_one(&client, &paths)] {
        for gone in 0..3 {
            for dropped in [false, true] {
                let guard = Arc::new(lock.acquire().await.unwrap());
                let node = nodes(&guard).remove(gone);
                let told = tokio::spawn({
                    let guard = Arc::clone(&guard);
                    async move { guard.lost().await }
                });
                admin.delete().for_path(&node).await.unwrap();
                let lost = soon(told).await.unwrap();
                assert_eq!((&lost.path, lost.reason), (&node, LossReason::NodeDeleted));
                assert!(!guard.is_valid());
                assert!(!lock.is_acquired_in_this_process());
                let guard = Arc::into_inner(guard).unwrap();
                if dropped {
                    drop(guard);
                } else {
                    is_lost(&soon(guard.release()).await.unwrap_err(), &node);
                }
                free(&client, &paths).await;
            }
        }
    }
}

/// That the lock was lost is known already. A lost answer on top of it does not make it forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_known_loss_is_told_by_the_release_even_if_an_answer_is_lost() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let client = builder(&proxy.connect_string(), LONG_SESSION).operation_timeout(Duration::from_millis(300));
    let (client, admin, paths) = (client.connect().await.unwrap(), self::client().await, paths::<3>("known-loss"));
    for (_, fault) in FAULTS {
        let guard = multi(&client, &paths).acquire().await.unwrap();
        let node = nodes(&guard).remove(1);
        let (lost, deleted) = soon(async { tokio::join!(guard.lost(), admin.delete().for_path(&node)) }).await;
        deleted.unwrap();
        assert_eq!(lost.path, node);
        fault(&proxy, OpCode::Multi);
        is_lost(&soon(guard.release()).await.unwrap_err(), &node);
        free(&client, &paths).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_loses_one_of_its_places_begins_anew_in_all_queues() {
    let (holder, waiter, other) = (client().await, client().await, client().await);
    // It waits in the second queue; its place in the first, where it is next, or in the second, where it is not, is deleted.
    for deleted in [0, 1] {
        let paths = paths::<2>("begins-anew");
        let held = mutex(&holder, &paths[1]).acquire().await.unwrap();
        let waiting = acquiring(&multi(&waiter, &paths));
        queues_of(&holder, &paths, &[1, 2]).await;
        let places = async || {
            let mut places = Vec::new();
            for path in &paths {
                let names = children(&holder, path).await.into_iter().map(|name| format!("{path}/{name}"));
                places.push(names.collect::<Vec<_>>());
            }
            places
        };
        let mut before = places().await;
        before[1].retain(|place| *place != held.node().as_str());
        let behind = tokio::spawn({
            let mutex = mutex(&other, &paths[0]);
            async move { soon(mutex.acquire()).await.unwrap() }
        });
        queues_of(&holder, &paths, &[2, 2]).await;

        holder.delete().for_path(&before[deleted][0]).await.unwrap();
        // The one behind it in the first queue has its turn, and the old place in the other queue is given up.
        let single = soon(behind).await.unwrap();
        until(async || {
            let now = places().await;
            now.iter().all(|queue| queue.len() == 2) && now.iter().zip(&before).all(|(now, old)| !now.contains(&old[0]))
        })
        .await;
        held.release().await.unwrap();
        queues_of(&holder, &paths, &[2, 1]).await;
        assert!(still_waits(&waiting, &waiter).await && single.is_valid());
        let token = single.fencing_token();
        single.release().await.unwrap();
        let guard = soon(waiting).await.unwrap();
        holds_all(&holder, &guard, &paths).await;
        assert!(guard.fencing_token() > token);
        for path in &paths {
            assert!(mutex(&other, path).try_acquire().await.unwrap().is_none());
        }
        guard.release().await.unwrap();
        soon(other.janitor().idle()).await;
        free(&holder, &paths).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_session_loses_all_and_a_waiter_comes_back_in_all_queues() {
    let server = TestingServer::shared().await;
    let (steady, paths) = (client().await, paths::<3>("session"));
    let proxy = FaultProxy::start(server.address()).unwrap();
    let unlucky = connect(&proxy.connect_string()).await;
    let lock = multi(&unlucky, &paths);

    let guard = lock.acquire().await.unwrap();
    let waiting = acquiring(&multi(&steady, &paths));
    queues_of(&steady, &paths, &[2; 3]).await;
    end_session(server, &proxy).await;
    let theirs = soon(waiting).await.unwrap();
    assert!(matches!(soon(guard.lost()).await.reason, LossReason::SessionLost(_)));
    assert!(!guard.is_valid() && !lock.is_acquired_in_this_process());
    holds_all(&steady, &theirs, &paths).await;
    assert!(matches!(soon(guard.release()).await.unwrap_err(), Error::Lost(_)));

    let waiting = acquiring(&lock);
    queues_of(&steady, &paths, &[2; 3]).await;
    let before = children(&steady, &paths[2]).await;
    let old_session = unlucky.session().await.unwrap().id();
    end_session(server, &proxy).await;
    until(async || {
        let now = children(&steady, &paths[2]).await;
        now.len() == 2 && now.iter().any(|name| !before.contains(name))
    })
    .await;
    assert!(still_waits(&waiting, &unlucky).await);
    theirs.release().await.unwrap();
    let guard = soon(waiting).await.unwrap();
    assert_ne!(guard.session_id(), old_session);
    holds_all(&steady, &guard, &paths).await;
    guard.release().await.unwrap();
    free(&steady, &paths).await;
}
