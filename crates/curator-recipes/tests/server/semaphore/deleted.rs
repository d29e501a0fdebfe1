//! Nodes that somebody else deletes or creates.

use curator_recipes::client::{CreateMode, CuratorClient, ZPath};
use curator_recipes::{Error, LossReason, SemaphoreLease};
use curator_test::{FaultProxy, OpCode, TestingServer};

use super::{acquiring, free, leases_dir, locks_dir, queue, semaphore, stands};
use crate::support::{client, connect, path, requests_of, round_trips, soon, still_waits, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_place_is_deleted_takes_nothing_without_one_and_comes_back() {
    let (admin, path) = (client().await, path("place-deleted"));
    let held = semaphore(&admin, &path, 1).acquire().await.unwrap();
    let clients = [client().await, client().await, client().await];
    let mut waiters = Vec::new();
    for (place, client) in clients.iter().enumerate() {
        waiters.push(acquiring(&semaphore(client, &path, 1), 1));
        stands(&admin, &path, 1, place + 1).await;
    }
    let mut before = queue(&admin, &path).await;
    before.sort_by_key(|name| name.rsplit('-').next().unwrap().to_owned());
    // The second, which waits for the first: it notices at once.
    admin.delete().for_path(format!("{}/{}", locks_dir(&path), before[1])).await.unwrap();
    until(async || {
        let now = queue(&admin, &path).await;
        now.len() == 3 && !now.contains(&before[1])
    })
    .await;
    // The first, which waits for a lease.
    admin.delete().for_path(format!("{}/{}", locks_dir(&path), before[0])).await.unwrap();
    held.release().await.unwrap();
    // All of them come to it, one at a time.
    for _ in 0..3 {
        until(async || waiters.iter().any(tokio::task::JoinHandle::is_finished)).await;
        let finished = waiters.iter().position(tokio::task::JoinHandle::is_finished).unwrap();
        let leases = waiters.remove(finished).await.unwrap();
        for client in &clients {
            round_trips(client).await;
        }
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()), "two at once");
        assert_eq!(super::leases(&admin, &path).await, [leases[0].name()]);
        SemaphoreLease::release_all(leases).await.unwrap();
    }
    free(&admin, &path, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_in_the_queue_starts_over_when_the_whole_lock_is_deleted_before_it_takes_its_lease() {
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let (admin, client, path) = (client().await, connect(&proxy.connect_string()).await, path("tree-deleted"));
    let semaphore = semaphore(&client, &path, 1);
    semaphore.acquire().await.unwrap().release().await.unwrap();
    proxy.reset_counts();
    proxy.hold_replies(OpCode::MultiRead);
    let waiting = acquiring(&semaphore, 1);
    until(async || queue(&admin, &path).await.len() == 1).await;
    admin.delete().deleting_children_if_needed().for_path(&path).await.unwrap();
    proxy.release_held();
    let leases = soon(waiting).await.unwrap();
    assert!(leases[0].is_valid());
    assert_eq!(super::leases(&admin, &path).await, [leases[0].name()]);
    SemaphoreLease::release_all(leases).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_lease_is_deleted_is_told_and_another_has_it() {
    let (holder, waiter, path) = (client().await, client().await, path("lease-deleted"));
    let mut held = semaphore(&holder, &path, 2).acquire_many(2).await.unwrap();
    let waiting = acquiring(&semaphore(&waiter, &path, 2), 1);
    stands(&holder, &path, 2, 1).await;
    let (lost, kept) = (held.remove(0), held.remove(0));
    let node = lost.node().clone();
    waiter.delete().for_path(&node).await.unwrap();
    let told = soon(lost.lost()).await;
    assert_eq!((told.path, told.reason), (node.clone(), LossReason::NodeDeleted));
    assert!(!lost.is_valid());
    let lease = soon(waiting).await.unwrap();
    assert!(kept.is_valid() && lease[0].is_valid());
    assert!(lease[0].fencing_token() > lost.fencing_token());

    // The others are given back although one cannot be.
    let error = soon(SemaphoreLease::release_all([lost, kept])).await.unwrap_err();
    assert!(matches!(&error, Error::Lost(lost) if lost.path == node), "{error}");
    stands(&waiter, &path, 1, 0).await;
    SemaphoreLease::release_all(lease).await.unwrap();
    free(&waiter, &path, 2).await;
}

/// What Curator's Java semaphore does: its place in the queue, then its lease, then it waits until there are not too many,
/// then it leaves the queue.
struct JavaContender {
    client: CuratorClient,
    place: ZPath,
    lease: ZPath,
}

impl JavaContender {
    async fn enqueue(path: &str) -> (CuratorClient, ZPath) {
        let client = client().await;
        let place = create(&client, &locks_dir(path), "lock").await;
        (client, place)
    }

    async fn take((client, place): (CuratorClient, ZPath), path: &str) -> Self {
        let lease = create(&client, &leases_dir(path), "lease").await;
        Self { client, place, lease }
    }

    async fn admitted(&self) {
        self.client.delete().for_path(&self.place).await.unwrap();
    }

    async fn release(self) {
        self.client.delete().for_path(&self.lease).await.unwrap();
    }
}

async fn create(client: &CuratorClient, dir: &str, kind: &str) -> ZPath {
    let name = format!("{dir}/_c_{}-{kind}-", curator_recipes::Uuid::new_v4());
    let create = client.create().creating_parent_containers().with_mode(CreateMode::EphemeralSequential);
    create.for_path(name, "127.0.0.1").await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_java_waiter_that_has_its_lease_already_is_waited_for() {
    let (holder, path) = (client().await, path("java-first"));
    let held = semaphore(&holder, &path, 1).acquire().await.unwrap();
    // One lease too many, which is held by nobody yet.
    let java = JavaContender::take(JavaContender::enqueue(&path).await, &path).await;
    let proxy = FaultProxy::start(TestingServer::shared().await.address()).unwrap();
    let ours = connect(&proxy.connect_string()).await;
    proxy.reset_counts();
    let waiting = acquiring(&semaphore(&ours, &path, 1), 1);
    stands(&holder, &path, 2, 2).await;
    assert!(semaphore(&holder, &path, 1).try_acquire().await.unwrap().is_none());

    held.release().await.unwrap();
    stands(&holder, &path, 1, 2).await;
    assert!(still_waits(&waiting, &ours).await);
    java.admitted().await;
    // Now ours is the first, and looks; the only lease is Java's.
    proxy.wait_for_reply(OpCode::GetChildren, 1).await.unwrap();
    assert!(still_waits(&waiting, &ours).await);
    assert_eq!(requests_of(&proxy, OpCode::Multi), 0, "it has tried to take a lease");
    stands(&holder, &path, 1, 1).await;
    java.release().await;
    SemaphoreLease::release_all(soon(waiting).await.unwrap()).await.unwrap();
    free(&holder, &path, 1).await;
}

/// It is first in the queue, and creates its lease only now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_java_waiter_between_its_place_and_its_lease_is_not_passed() {
    let (admin, path) = (client().await, path("java-between"));
    let queued = JavaContender::enqueue(&path).await;
    let ours = acquiring(&semaphore(&admin, &path, 1), 1);
    stands(&admin, &path, 0, 2).await;
    assert!(semaphore(&admin, &path, 1).try_acquire().await.unwrap().is_none());
    let java = JavaContender::take(queued, &path).await;
    java.admitted().await;
    stands(&admin, &path, 1, 1).await;
    assert!(still_waits(&ours, &admin).await);
    java.release().await;
    SemaphoreLease::release_all(soon(ours).await.unwrap()).await.unwrap();
}

/// It gives up: its lease goes first, and then its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_java_waiter_that_gives_up_leaves_its_lease_to_us() {
    let (holder, path) = (client().await, path("java-gives-up"));
    let held = semaphore(&holder, &path, 2).acquire().await.unwrap();
    let mut java = Vec::new();
    let queued = JavaContender::enqueue(&path).await;
    java.push(JavaContender::take(queued, &path).await);
    java[0].admitted().await;
    let queued = JavaContender::enqueue(&path).await;
    java.push(JavaContender::take(queued, &path).await);
    let ours = acquiring(&semaphore(&holder, &path, 2), 1);
    stands(&holder, &path, 3, 2).await;
    let gives_up = java.pop().unwrap();
    gives_up.client.delete().for_path(&gives_up.lease).await.unwrap();
    gives_up.client.delete().for_path(&gives_up.place).await.unwrap();
    stands(&holder, &path, 2, 1).await;
    assert!(still_waits(&ours, &holder).await);
    // The session of the other one dies.
    java.pop().unwrap().client.close().await.unwrap();
    let lease = soon(ours).await.unwrap();
    assert!(held.is_valid());
    SemaphoreLease::release_all(lease.into_iter().chain([held])).await.unwrap();
    free(&holder, &path, 2).await;
}
