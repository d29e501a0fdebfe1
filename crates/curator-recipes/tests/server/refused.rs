//! After the server has refused a release, a waiter fails if it would otherwise wait for the node
//! until its session ends. Other waiters are not affected.

use std::collections::BTreeMap;

use curator_recipes::client::{Acl, AuthId, CreateMode, CuratorClient, Permission, ZPath};
use curator_recipes::{Error, InterProcessMultiLock, InterProcessSemaphoreV2};
use curator_test::OpCode;

use crate::support::subjects::Kind;
use crate::support::{
    DEFAULT_TIMEOUT, Row, acquiring, arc, behind_proxy, children, client, mutex, owner, path,
    queue_of, soon, spawn_acquire, until, without_probes,
};

/// An owner, a client of another user, and a path. In the directory `below` the path, all clients
/// may create nodes, and only the owner may delete them.
async fn without_delete(name: &str, below: &str) -> (CuratorClient, CuratorClient, String) {
    let owner = owner().await;
    let client = client().await;
    let path = path(name);
    create_dir_that_only_its_owner_deletes_in(&owner, &format!("{path}{below}")).await;
    (owner, client, path)
}

async fn create_dir_that_only_its_owner_deletes_in(owner: &CuratorClient, path: &str) {
    let acl = [
        Acl::new(Permission::READ | Permission::CREATE, AuthId::anyone()),
        Acl::new(Permission::ALL, AuthId::authed()),
    ];
    owner
        .create()
        .creating_parent_containers()
        .with_acl(acl)
        .for_path(path, "")
        .await
        .unwrap();
}

fn is_refused<T>(result: Result<T, Error>, node: &ZPath) -> bool {
    match result {
        Err(Error::ReleaseRefused { path, .. }) => path == *node,
        Err(error) => panic!("{error}"),
        Ok(_) => false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_fail_when_a_release_of_their_client_is_refused() {
    let (_owner, client, path) = without_delete("refused-told", "").await;
    let guard = mutex(&client, &path).acquire().await.unwrap();
    let node = guard.node().clone();
    let mut waiters = Vec::new();
    for place in 1..5 {
        waiters.push(acquiring(&client, &path));
        queue_of(&client, &path, place + 1).await;
    }
    assert!(is_refused(guard.release().await, &node));
    for waiter in waiters {
        // The error names the node ahead, or a node that one of the other waiters has left.
        let error = soon(waiter).await.unwrap().unwrap_err();
        assert!(matches!(&error, Error::ReleaseRefused { .. }), "{error}");
        assert_eq!(error.to_string().matches(&path).count(), 1, "{error}");
    }
    let fresh = mutex(&client, &path);
    assert!(matches!(
        soon(fresh.acquire()).await,
        Err(Error::ReleaseRefused { .. })
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_multi_lock_fails_when_the_release_of_one_of_its_paths_is_refused() {
    let (_owner, client, refused) = without_delete("refused-two", "").await;
    let paths = [path("refused-one"), refused];
    let guard = mutex(&client, &paths[1]).acquire().await.unwrap();
    let node = guard.node().clone();
    let lock = InterProcessMultiLock::new(&client, &paths).unwrap();
    let waiter = spawn_acquire(arc(lock));
    queue_of(&client, &paths[1], 2).await;
    drop(guard);
    assert!(is_refused(soon(waiter).await.unwrap(), &node));
    // The other node is deleted.
    queue_of(&client, &paths[0], 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_node_that_another_client_has_deleted_does_not_block() {
    let (owner, client, path) = without_delete("refused-gone", "").await;
    let guard = mutex(&client, &path).acquire().await.unwrap();
    let node = guard.node().clone();
    assert!(is_refused(guard.release().await, &node));
    soon(client.janitor().idle()).await;
    owner.delete().for_path(&node).await.unwrap();
    let held = mutex(&owner, &path).acquire().await.unwrap();
    let waiter = acquiring(&client, &path);
    queue_of(&client, &path, 2).await;
    // When the waiter has found that the node is gone, the janitor no longer lists it.
    until(async || {
        client.check_exists("/").await.unwrap();
        client.janitor().pending_deletes().is_empty()
    })
    .await;
    held.release().await.unwrap();
    assert!(soon(waiter).await.unwrap().unwrap().is_valid());
}

/// A lease whose release is refused counts until its session ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_fails_if_it_needs_a_lease_whose_release_was_refused() {
    let owner = owner().await;
    let (proxy, client) = behind_proxy().await;
    let path = path("refused-lease");
    let leases = format!("{path}/leases");
    create_dir_that_only_its_owner_deletes_in(&owner, &leases).await;
    let semaphore =
        |client: &CuratorClient| InterProcessSemaphoreV2::new(client, &path, 2).unwrap();
    let theirs = semaphore(&owner).acquire().await.unwrap();
    let ours = semaphore(&client).acquire().await.unwrap();
    let node = ours.node().clone();
    let acquiring = |quantity| {
        let semaphore = semaphore(&client);
        tokio::spawn(async move { soon(semaphore.acquire_many(quantity)).await })
    };
    let locks = format!("{path}/locks");
    let greedy = acquiring(2);
    queue_of(&owner, &locks, 1).await;
    let modest = acquiring(1);
    queue_of(&owner, &locks, 2).await;
    assert!(is_refused(ours.release().await, &node));
    assert!(is_refused(soon(greedy).await.unwrap(), &node));
    // `modest` needs only one of the two leases, and the owner will release its lease. `modest` has
    // listed the leases, and waits.
    proxy.wait_for_reply(OpCode::GetChildren, 2).await.unwrap();
    theirs.release().await.unwrap();
    assert_eq!(soon(modest).await.unwrap().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_may_not_delete_leaves_one_node_and_then_sends_two_requests_per_attempt() {
    let owner = owner().await;
    for kind in [Kind::Mutex, Kind::Write, Kind::Paths, Kind::Semaphore] {
        let _row = Row::of(kind);
        let (proxy, client) = behind_proxy().await;
        let path = path("refused-often");
        // The last directory: the leases of the semaphore, or the last of several paths.
        let dir = kind.dirs(&path).pop().unwrap();
        create_dir_that_only_its_owner_deletes_in(&owner, &dir).await;
        let lock = kind.lock(&client, &path);
        drop(soon(lock.acquire()).await.unwrap());
        soon(client.janitor().idle()).await;
        let left = children(&owner, &dir).await;
        proxy.reset_counts();
        for attempt in 0..9 {
            let acquired = match attempt % 3 {
                0 => soon(lock.acquire()).await.map(Some),
                1 => soon(lock.acquire_timeout(DEFAULT_TIMEOUT)).await,
                _ => soon(lock.try_acquire()).await,
            };
            let error = acquired.unwrap_err();
            assert!(
                matches!(&error, Error::ReleaseRefused { path, .. } if path.name() == left[0]),
                "{error}"
            );
        }
        // Each attempt checks that the node exists, and then tries again to delete it.
        assert_eq!(
            without_probes(&proxy),
            BTreeMap::from([(OpCode::Exists, 9), (OpCode::Delete, 9)])
        );
        assert_eq!(
            (
                children(&owner, &dir).await,
                client.janitor().pending_deletes().len()
            ),
            (left, 1)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_acquire_deletes_a_refused_node_once_that_is_permitted() {
    let (owner, client, path) = without_delete("refused-repaired", "").await;
    drop(mutex(&client, &path).acquire().await.unwrap());
    soon(client.janitor().idle()).await;
    assert!(matches!(
        soon(mutex(&client, &path).acquire()).await,
        Err(Error::ReleaseRefused { .. })
    ));
    owner
        .set_acl(&path, [Acl::new(Permission::ALL, AuthId::anyone())], None)
        .await
        .unwrap();
    let guard = soon(mutex(&client, &path).try_acquire())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (
            children(&owner, &path).await.len(),
            client.janitor().pending_deletes().len()
        ),
        (1, 0)
    );
    guard.release().await.unwrap();
}

/// The session that owns the node identifies it, not its name: another session's node may reuse a
/// deleted name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_another_session_with_the_name_of_a_refused_node_is_not_deleted() {
    let (owner, client, path) = without_delete("refused-name", "").await;
    let guard = mutex(&client, &path).acquire().await.unwrap();
    let node = guard.node().clone();
    assert!(is_refused(guard.release().await, &node));
    owner.delete().for_path(&node).await.unwrap();
    owner
        .create()
        .with_mode(CreateMode::Ephemeral)
        .for_path(&node, "")
        .await
        .unwrap();
    owner
        .set_acl(&path, [Acl::new(Permission::ALL, AuthId::anyone())], None)
        .await
        .unwrap();
    assert!(mutex(&client, &path).try_acquire().await.unwrap().is_none());
    assert!(owner.check_exists(&node).await.unwrap().is_some());
}
