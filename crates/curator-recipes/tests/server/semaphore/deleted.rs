//! Nodes that another client deletes or creates.

use curator_recipes::client::{CreateMode, CuratorClient, ZPath};
use curator_recipes::{Error, LossReason, SemaphoreLease};
use curator_test::OpCode;

use super::{acquiring, free, leases_dir, locks_dir, semaphore, until_counts};
use crate::support::{behind_proxy, client, path, requests_of, soon, still_waits};
use crate::transactions::assert_lost;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_all_reports_the_leases_that_are_gone_and_releases_the_others() {
    let (holder, admin, path) = (client().await, client().await, path("leases-gone"));
    for gone in [vec![0], vec![0, 2]] {
        let held = semaphore(&holder, &path, 3).acquire_many(3).await.unwrap();
        let gone: Vec<_> = gone.into_iter().map(|lease: usize| held[lease].node().clone()).collect();
        for node in &gone {
            admin.delete().for_path(node).await.unwrap();
        }
        let failures = match soon(SemaphoreLease::release_all(held)).await.unwrap_err() {
            Error::ReleasesFailed { failures } if gone.len() > 1 => failures,
            error => vec![error],
        };
        assert_eq!(failures.len(), gone.len());
        for (failure, node) in failures.iter().zip(&gone) {
            assert_lost(failure, node, LossReason::NodeDeleted);
        }
        until_counts(&admin, &path, 0, 0).await;
        free(&holder, &path, 3).await;
    }
}

async fn create(client: &CuratorClient, dir: &str, kind: &str) -> ZPath {
    let name = format!("{dir}/_c_{}-{kind}-", curator_recipes::driver::Uuid::new_v4());
    let create = client.create().creating_parent_containers().with_mode(CreateMode::EphemeralSequential);
    create.for_path(name, "127.0.0.1").await.unwrap()
}

/// Curator's Java semaphore creates its queue node and then its lease node, waits until the number of lease nodes is
/// within the limit, and then leaves the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lease_node_of_a_waiting_java_contender_counts_as_used() {
    let ((proxy, ours), holder, java, path) =
        (behind_proxy().await, client().await, client().await, path("java-first"));
    let held = semaphore(&holder, &path, 1).acquire().await.unwrap();
    // This lease exceeds the limit, so it has no holder yet.
    let place = create(&java, &locks_dir(&path), "lock").await;
    let lease = create(&java, &leases_dir(&path), "lease").await;
    proxy.reset_counts();
    let waiting = acquiring(&semaphore(&ours, &path, 1), 1);
    until_counts(&holder, &path, 2, 2).await;
    assert!(semaphore(&holder, &path, 1).try_acquire().await.unwrap().is_none());

    held.release().await.unwrap();
    until_counts(&holder, &path, 1, 2).await;
    assert!(still_waits(&waiting, &ours).await);
    java.delete().for_path(&place).await.unwrap();
    // Now our waiter is first, and lists the leases; the only lease is Java's.
    proxy.wait_for_reply(OpCode::GetChildren, 1).await.unwrap();
    assert!(still_waits(&waiting, &ours).await);
    assert_eq!(requests_of(&proxy, OpCode::Multi), 0, "our waiter has tried to take a lease");
    java.delete().for_path(&lease).await.unwrap();
    SemaphoreLease::release_all(soon(waiting).await.unwrap()).await.unwrap();
    free(&holder, &path, 1).await;
}
