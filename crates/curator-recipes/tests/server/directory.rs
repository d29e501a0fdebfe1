//! Locks whose directory is missing, or is created or removed while they are used. Runs in real
//! time: each transport handles a dropped future by itself.

use curator_recipes::Error;
use curator_recipes::client::{Acl, AuthId, CuratorClient, Error as ClientError, Permission};
use curator_test::{FaultProxy, OpCode};

use crate::support::subjects::{Kind, Lock};
use crate::support::{
    acquiring, behind_proxy, children, client, mutex, owner, path, remove_empty, soon,
};

/// Checks that each directory is missing or has had a child: before ZooKeeper 3.10, the server never
/// removes an empty container that has never had a child, and later only after minutes.
async fn assert_none_unused(client: &CuratorClient, dirs: impl Iterator<Item = &str>, after: &str) {
    for dir in dirs {
        if let Some(stat) = client.check_exists(dir).await.unwrap() {
            assert!(stat.cversion > 0, "{after}: {dir} has never had a child");
        }
    }
}

/// Drops an acquire after the server has applied its `nth` request of this kind, and before the
/// reply arrives. Returns whether there was such a request.
async fn dropped_at(
    (op, nth): (OpCode, u64),
    (proxy, client): (&FaultProxy, &CuratorClient),
    lock: Lock,
) -> bool {
    proxy.reset_counts();
    proxy.hold_nth_reply(op, nth);
    let mut acquiring = tokio::spawn(async move { lock.acquire().await });
    let was_held = tokio::select! {
        biased;
        held = proxy.wait_for_reply(op, nth) => held.is_ok(),
        guard = &mut acquiring => {
            drop(guard.unwrap().unwrap());
            false
        }
    };
    if was_held {
        acquiring.abort();
        drop(acquiring.await);
    }
    proxy.disarm();
    proxy.release_held();
    soon(client.janitor().idle()).await;
    was_held
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_acquire_dropped_at_any_request_leaves_no_unused_directory() {
    // One lock for each way in which locks create their directories.
    for kind in [Kind::Mutex, Kind::Paths, Kind::Semaphore, Kind::SharedLimit] {
        let (proxy, client) = behind_proxy().await;
        let mut dropped = 0;
        for op in [
            OpCode::Create2,
            OpCode::GetChildren,
            OpCode::MultiRead,
            OpCode::Multi,
            OpCode::Exists,
        ] {
            for nth in 1.. {
                let top = path("first");
                let lock = format!("{top}/a/lock");
                let mut dirs = vec![top, lock.replace("/lock", ""), lock.clone()];
                dirs.extend(kind.dirs(&lock));
                let was_dropped =
                    dropped_at((op, nth), (&proxy, &client), kind.lock(&client, &lock)).await;
                let after = format!("{kind:?}, {op:?} {nth}");
                assert_none_unused(&client, dirs.iter().map(String::as_str), &after).await;
                if !was_dropped {
                    break;
                }
                dropped += 1;
            }
        }
        assert!(dropped > 7, "{kind:?}: {dropped}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn directories_created_concurrently_by_other_clients_are_used() {
    let other = client().await;
    for existing in ["", "/a", "/a/lock"] {
        for held in [OpCode::Create2, OpCode::Multi] {
            let (proxy, client) = behind_proxy().await;
            let top = path("race");
            let dir = format!("{top}/a/lock");
            // The reply is outdated when the client receives it.
            proxy.hold_nth_reply(held, 1);
            let acquiring = acquiring(&client, &dir);
            soon(proxy.wait_for_reply(held, 1)).await.unwrap();
            other
                .create()
                .creating_parent_containers()
                .for_path(format!("{top}{existing}"), "")
                .await
                .unwrap();
            proxy.release_held();
            let guard = soon(acquiring).await.unwrap().unwrap();
            assert_eq!(
                children(&client, &dir).await,
                [guard.node().name()],
                "{existing}, {held:?}"
            );
            guard.release().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_another_client_creates_is_used_where_the_parent_permits_no_create() {
    let owner = owner().await;
    let (proxy, client) = behind_proxy().await;
    let top = path("race");
    let ours = Acl::new(Permission::ALL, AuthId::authed());
    let open = Acl::new(Permission::ALL, AuthId::anyone());
    owner
        .create()
        .with_acl([ours, Acl::new(Permission::READ, AuthId::anyone())])
        .for_path(&top, "")
        .await
        .unwrap();
    let dir = format!("{top}/lock");
    let error = soon(mutex(&client, &dir).acquire()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Client(ClientError::NoAuth { path, .. }) if path.as_str() == dir),
        "{error}"
    );
    proxy.reset_counts();
    proxy.hold_nth_reply(OpCode::GetChildren, 1);
    let acquiring = acquiring(&client, &dir);
    soon(proxy.wait_for_reply(OpCode::GetChildren, 1))
        .await
        .unwrap();
    owner
        .create()
        .with_acl([open])
        .for_path(&dir, "")
        .await
        .unwrap();
    proxy.release_held();
    soon(acquiring)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_when_the_directory_is_recreated_and_sequence_numbers_restart() {
    let holder = client().await;
    let path = path("token-of-a-new-directory");
    let mutex = mutex(&holder, &path);
    let mut before = None;
    for _ in 0..3 {
        let guard = mutex.acquire().await.unwrap();
        assert!(
            guard.node().name().ends_with("-lock-0000000000"),
            "{}",
            guard.node()
        );
        assert!(before < Some(guard.fencing_token()));
        before = Some(guard.fencing_token());
        guard.release().await.unwrap();
        remove_empty(&holder, &path).await;
    }
}
