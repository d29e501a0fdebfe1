//! A limit of leases that is stored in a node.

use curator_recipes::client::CuratorClient;
use curator_recipes::{Error, InterProcessSemaphoreV2, SemaphoreLease, SharedCount, ValueError};
use curator_test::{FaultProxy, OpCode};
use tokio::task::JoinHandle;

use super::{acquiring, leases, leases_dir, locks_dir, queue, until_counts};
use crate::support::{
    DEFAULT_TIMEOUT, behind_proxy, client, keep_empty, path, requests_of, round_trips, soon,
    still_waits,
};

fn count(client: &CuratorClient, path: &str, seed: i32) -> SharedCount {
    SharedCount::new(client, format!("{path}/limit"), seed).unwrap()
}

fn semaphore(client: &CuratorClient, path: &str, seed: i32) -> InterProcessSemaphoreV2 {
    InterProcessSemaphoreV2::with_shared_count(client, path, count(client, path, seed)).unwrap()
}

/// Returns a waiter whose requests are counted, and which sends nothing more before the next event.
async fn counted_waiter(
    path: &str,
    seed: i32,
) -> (FaultProxy, CuratorClient, JoinHandle<Vec<SemaphoreLease>>) {
    let (proxy, client) = behind_proxy().await;
    proxy.reset_counts();
    let waiting = acquiring(&semaphore(&client, path, seed), 1);
    // The waiter watches the limit and the list of the leases.
    proxy.wait_for_reply(OpCode::GetData, 1).await.unwrap();
    proxy.wait_for_reply(OpCode::GetChildren, 1).await.unwrap();
    (proxy, client, waiting)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_raised_or_recreated_limit_wakes_a_waiter() {
    for deleted in [false, true] {
        let holder = client().await;
        let path = path("raised");
        let limit = count(&holder, &path, 2);
        limit.set(1).await.unwrap();
        let held = semaphore(&holder, &path, 2).acquire().await.unwrap();
        let (proxy, waiter, waiting) = counted_waiter(&path, 2).await;
        assert!(still_waits(&waiting, &waiter).await);
        assert_eq!(requests_of(&proxy, OpCode::GetData), 1, "the waiter polls");
        assert_eq!(
            requests_of(&proxy, OpCode::GetChildren),
            1,
            "the waiter polls"
        );
        if deleted {
            // The limit is created again with its seed, which is higher.
            holder.delete().for_path(limit.path()).await.unwrap();
        } else {
            limit.set(2).await.unwrap();
        }
        let lease = soon(waiting).await.unwrap();
        assert!(held.is_valid());
        assert_eq!(leases(&holder, &path).await.len(), 2);
        assert_eq!(limit.get().await.unwrap(), 2);
        // The waiter has read the limit again, if its node existed, and taken the lease.
        assert!(deleted || requests_of(&proxy, OpCode::GetData) == 2);
        assert_eq!(requests_of(&proxy, OpCode::GetChildren), 1);
        SemaphoreLease::release_all(lease.into_iter().chain([held]))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lowered_limit_revokes_no_lease_and_admits_none_until_fewer_are_held() {
    let holder = client().await;
    let path = path("lowered");
    // Otherwise the waiter may send a transaction that creates its queue.
    keep_empty(&holder, &[locks_dir(&path), leases_dir(&path)]).await;
    let limit = count(&holder, &path, 2);
    let mut held = semaphore(&holder, &path, 2).acquire_many(2).await.unwrap();
    limit.set(1).await.unwrap();
    let (proxy, waiter, waiting) = counted_waiter(&path, 2).await;
    assert!(held.iter().all(|lease| lease.is_valid()));
    held.remove(0).release().await.unwrap();
    proxy.wait_for_reply(OpCode::GetChildren, 2).await.unwrap();
    assert!(still_waits(&waiting, &waiter).await);
    assert_eq!(
        requests_of(&proxy, OpCode::Multi),
        0,
        "the waiter has tried to take a lease"
    );
    assert!(held[0].is_valid());
    held.remove(0).release().await.unwrap();
    SemaphoreLease::release_all(soon(waiting).await.unwrap())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_lowered_just_before_a_lease_is_taken_is_respected() {
    let admin = client().await;
    let path = path("lowered-late");
    let limit = count(&admin, &path, 1);
    keep_empty(&admin, &[locks_dir(&path), leases_dir(&path)]).await;
    // This creates the limit. So the waiter decides by its first read.
    semaphore(&admin, &path, 1)
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let (proxy, client) = behind_proxy().await;
    // The waiter's read of the limit is answered, but the reply is held back.
    proxy.reset_counts();
    proxy.hold_replies(OpCode::MultiRead);
    let waiting = acquiring(&semaphore(&client, &path, 1), 1);
    proxy.wait_for_reply(OpCode::MultiRead, 1).await.unwrap();
    limit.set(0).await.unwrap();
    proxy.release_held();
    proxy.wait_for_reply(OpCode::GetChildren, 1).await.unwrap();
    assert!(still_waits(&waiting, &client).await);
    assert_eq!(
        requests_of(&proxy, OpCode::Multi),
        1,
        "one transaction was sent, and refused"
    );
    assert!(leases(&admin, &path).await.is_empty());
    // A negative number counts as zero.
    limit.set(-1).await.unwrap();
    proxy.wait_for_reply(OpCode::GetData, 2).await.unwrap();
    round_trips(&client).await;
    assert!(leases(&admin, &path).await.is_empty());
    limit.set(1).await.unwrap();
    SemaphoreLease::release_all(soon(waiting).await.unwrap())
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_limit_node_is_created_with_its_seed() {
    let client = client().await;
    let path = path("seeded");
    let limit = count(&client, &format!("{path}/deep"), 2);
    let semaphore =
        InterProcessSemaphoreV2::with_shared_count(&client, &path, limit.clone()).unwrap();
    let held = soon(semaphore.acquire_many(2)).await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    let (data, stat) = client.get_data(limit.path()).await.unwrap();
    assert_eq!((&*data, stat.ephemeral_owner), (&[0, 0, 0, 2][..], 0));
    SemaphoreLease::release_all(held).await.unwrap();
    // `try_acquire` also creates the node.
    client.delete().for_path(limit.path()).await.unwrap();
    semaphore
        .try_acquire()
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    assert_eq!(limit.versioned().await.unwrap().version, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_limit_is_an_error_that_blocks_no_contender() {
    let admin = client().await;
    let path = path("no-number");
    let limit = count(&admin, &path, 1);
    let semaphore = semaphore(&admin, &path, 1);
    let held = semaphore.acquire().await.unwrap();
    let assert_invalid_limit = |error: &Error| {
        let Error::Value(value) = error else {
            panic!("{error}")
        };
        assert!(
            matches!(&**value, ValueError::Invalid { path, .. } if path == limit.path()),
            "{error}"
        );
        assert!(
            error.to_string().contains("expected 4 bytes, found 3"),
            "{error}"
        );
    };
    // The limit becomes invalid while an acquire waits.
    let waits = semaphore.clone();
    let waiting = tokio::spawn(async move { waits.acquire().await });
    until_counts(&admin, &path, 1, 1).await;
    admin.set_data(limit.path(), "one", None).await.unwrap();
    assert_invalid_limit(&soon(waiting).await.unwrap().unwrap_err());
    // The limit is invalid before an acquire.
    assert_invalid_limit(&soon(semaphore.acquire()).await.unwrap_err());
    assert_invalid_limit(&semaphore.try_acquire().await.unwrap_err());
    assert_invalid_limit(
        &soon(semaphore.acquire_timeout(DEFAULT_TIMEOUT))
            .await
            .unwrap_err(),
    );
    soon(admin.janitor().idle()).await;
    assert!(queue(&admin, &path).await.is_empty());
    assert!(held.is_valid());
    held.release().await.unwrap();

    limit.set(1).await.unwrap();
    soon(semaphore.acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}
