//! Nodes that another client deletes or creates.

use curator_recipes::client::{CreateMode, CuratorClient, ZPath};
use curator_recipes::{Error, LossReason, SemaphoreLease};
use curator_test::OpCode;

use super::{acquiring, free, leases, leases_dir, locks_dir, queue, semaphore, until_counts};
use crate::support::{
    behind_proxy, client, path, requests_of, round_trips, soon, still_waits, until,
};
use crate::transactions::assert_lost;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_place_is_deleted_takes_no_lease_until_it_is_queued_again() {
    let admin = client().await;
    let path = path("place-deleted");
    let held = semaphore(&admin, &path, 1).acquire().await.unwrap();
    let clients = [client().await, client().await];
    let mut waiters = Vec::new();
    for (place, client) in clients.iter().enumerate() {
        waiters.push(acquiring(&semaphore(client, &path, 1), 1));
        until_counts(&admin, &path, 1, place + 1).await;
    }
    // Deletes the node of the first waiter, which waits for a lease.
    let mut before = queue(&admin, &path).await;
    before.sort_by_key(|name| name.rsplit('-').next().unwrap().to_owned());
    admin
        .delete()
        .for_path(format!("{}/{}", locks_dir(&path), before[0]))
        .await
        .unwrap();
    held.release().await.unwrap();
    // Both waiters acquire, one after the other.
    for _ in 0..2 {
        until(async || waiters.iter().any(tokio::task::JoinHandle::is_finished)).await;
        let finished = waiters
            .iter()
            .position(tokio::task::JoinHandle::is_finished)
            .unwrap();
        let taken = waiters.remove(finished).await.unwrap();
        for client in &clients {
            round_trips(client).await;
        }
        assert!(
            waiters.iter().all(|waiter| !waiter.is_finished()),
            "both hold the only lease"
        );
        assert_eq!(leases(&admin, &path).await, [taken[0].name()]);
        SemaphoreLease::release_all(taken).await.unwrap();
    }
    free(&admin, &path, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_is_notified_of_its_deleted_lease_and_a_waiter_acquires_one() {
    let holder = client().await;
    let waiter = client().await;
    let path = path("lease-deleted");
    let held = semaphore(&holder, &path, 3).acquire_many(3).await.unwrap();
    let waiting = acquiring(&semaphore(&waiter, &path, 3), 1);
    until_counts(&holder, &path, 3, 1).await;
    let node = held[0].node().clone();
    waiter.delete().for_path(&node).await.unwrap();
    let lost = soon(held[0].lost()).await;
    assert_eq!((lost.path, lost.reason), (node, LossReason::NodeDeleted));
    assert!(!held[0].is_valid());
    let lease = soon(waiting).await.unwrap();
    assert!(held[1].is_valid() && lease[0].is_valid());
    assert!(lease[0].fencing_token() > held[0].fencing_token());
    drop((held, lease));
    free(&waiter, &path, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_all_reports_the_leases_that_are_gone_and_releases_the_others() {
    let holder = client().await;
    let admin = client().await;
    let path = path("leases-gone");
    for indexes in [vec![0], vec![0, 2]] {
        let held = semaphore(&holder, &path, 3).acquire_many(3).await.unwrap();
        let deleted: Vec<_> = indexes
            .into_iter()
            .map(|index: usize| held[index].node().clone())
            .collect();
        for node in &deleted {
            admin.delete().for_path(node).await.unwrap();
        }
        let failures = match soon(SemaphoreLease::release_all(held)).await.unwrap_err() {
            Error::ReleasesFailed { failures } if deleted.len() > 1 => failures,
            error => vec![error],
        };
        assert_eq!(failures.len(), deleted.len());
        for (failure, node) in failures.iter().zip(&deleted) {
            assert_lost(failure, node, LossReason::NodeDeleted);
        }
        until_counts(&admin, &path, 0, 0).await;
        free(&holder, &path, 3).await;
    }
}

async fn create(client: &CuratorClient, dir: &str, kind: &str) -> ZPath {
    let name = format!(
        "{dir}/_c_{}-{kind}-",
        curator_recipes::driver::Uuid::new_v4()
    );
    client
        .create()
        .creating_parent_containers()
        .with_mode(CreateMode::EphemeralSequential)
        .for_path(name, "127.0.0.1")
        .await
        .unwrap()
}

/// Curator's Java semaphore creates its queue node and then its lease node, waits until the number
/// of lease nodes is within the limit, and then leaves the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_node_of_a_waiting_java_contender_counts_as_used() {
    let (proxy, ours) = behind_proxy().await;
    let holder = client().await;
    let java = client().await;
    let path = path("java-first");
    let held = semaphore(&holder, &path, 1).acquire().await.unwrap();
    // This lease exceeds the limit, so it has no holder yet.
    let place = create(&java, &locks_dir(&path), "lock").await;
    let lease = create(&java, &leases_dir(&path), "lease").await;
    proxy.reset_counts();
    let waiting = acquiring(&semaphore(&ours, &path, 1), 1);
    until_counts(&holder, &path, 2, 2).await;
    assert!(
        semaphore(&holder, &path, 1)
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );

    held.release().await.unwrap();
    until_counts(&holder, &path, 1, 2).await;
    assert!(still_waits(&waiting, &ours).await);
    java.delete().for_path(&place).await.unwrap();
    // Now our waiter is first, and lists the leases; the only lease is Java's.
    proxy.wait_for_reply(OpCode::GetChildren, 1).await.unwrap();
    assert!(still_waits(&waiting, &ours).await);
    assert_eq!(
        requests_of(&proxy, OpCode::Multi),
        0,
        "our waiter has tried to take a lease"
    );
    java.delete().for_path(&lease).await.unwrap();
    SemaphoreLease::release_all(soon(waiting).await.unwrap())
        .await
        .unwrap();
    free(&holder, &path, 1).await;
}
