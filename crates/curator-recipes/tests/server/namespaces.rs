//! A lock returns paths that the client accepts unchanged, under any chroot and namespace.

use curator_recipes::client::{CreateMode, CuratorClient, ZPath};
use curator_recipes::{
    InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreMutex,
    InterProcessSemaphoreV2, LockGuard, LossReason, Participant, SharedCount, revoke,
};
use curator_test::TestingServer;

use crate::support::{LONG_SESSION, arc, builder, client, path, soon};
use crate::transactions::assert_lost;

/// Clients of the same server: plain, under a chroot, in a namespace, and in a namespace under a chroot.
async fn clients() -> Vec<CuratorClient> {
    let server = TestingServer::shared().await.connect_string();
    let (chroot, namespace) = (format!("{server}{}", path("chroot")), path("namespace"));
    let mut clients = Vec::new();
    for (to, namespace) in [(&server, ""), (&chroot, ""), (&server, &namespace[1..]), (&chroot, "inner")] {
        let builder = builder(to, LONG_SESSION);
        let builder = if namespace.is_empty() { builder } else { builder.namespace(namespace) };
        clients.push(builder.connect().await.unwrap());
    }
    clients
}

/// Checks that the client finds the guard's nodes, and the nodes of all paths that the lock returns.
async fn assert_paths_are_found(
    client: &CuratorClient,
    guard: &LockGuard,
    participants: Vec<Participant>,
    paths: &[ZPath],
) {
    let session = client.session().await.unwrap();
    for node in guard.nodes() {
        let (_, stat) = client.get_data(node).await.unwrap();
        assert_eq!(stat.ephemeral_owner, session.id());
        assert!(participants.iter().any(|participant| participant.path == *node && participant.owns));
    }
    for path in paths {
        assert!(client.check_exists(path).await.unwrap().is_some(), "{path}");
        assert_eq!(client.resolve(client.unresolve(path).unwrap()).unwrap(), *path);
    }
    let requested = guard.revocation_requested();
    revoke(client, guard.node()).await.unwrap();
    soon(requested).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_accepts_the_paths_of_every_lock_in_any_namespace() {
    for client in clients().await {
        let mutex = InterProcessMutex::new(&client, "/mutex").unwrap();
        let several = InterProcessMultiLock::new(&client, ["/a", "/b"]).unwrap();
        let read_write = InterProcessReadWriteLock::new(&client, "/read-write").unwrap();
        let semaphore_mutex = InterProcessSemaphoreMutex::new(&client, "/semaphore-mutex").unwrap();
        for (lock, paths) in [
            (arc(mutex.clone()), vec![mutex.path().clone()]),
            (arc(read_write.write().clone()), vec![read_write.path().clone()]),
            (arc(semaphore_mutex.clone()), vec![semaphore_mutex.path().clone()]),
            (arc(several.clone()), several.paths().to_vec()),
        ] {
            let guard = lock.acquire().await.unwrap();
            assert_paths_are_found(
                &client,
                &guard,
                lock.participants().await.unwrap(),
                &[paths, lock.paths()].concat(),
            )
            .await;
            guard.release().await.unwrap();
        }
        for (path, name) in [(read_write.path(), "/read-write"), (semaphore_mutex.path(), "/semaphore-mutex")] {
            assert_eq!(*path, client.resolve(name).unwrap());
        }
        // A lock on the returned path has the same queue: the namespace is not applied twice.
        let _held = mutex.acquire().await.unwrap();
        assert_eq!(InterProcessMutex::new(&client, mutex.path()).unwrap().path(), mutex.path());
        assert!(InterProcessMutex::new(&client, mutex.path()).unwrap().try_acquire().await.unwrap().is_none());

        let count = SharedCount::new(&client, "/count", 2).unwrap();
        let semaphore = InterProcessSemaphoreV2::with_shared_count(&client, "/semaphore", count.clone()).unwrap();
        let lease = semaphore.acquire().await.unwrap();
        let paths = [semaphore.path().clone(), count.path().clone()];
        assert_paths_are_found(&client, &lease, semaphore.participants().await.unwrap(), &paths).await;
        let versioned = count.versioned().await.unwrap();
        assert!(count.compare_and_set(&versioned, 3).await.unwrap());

        let guard = several.acquire().await.unwrap();
        let again = InterProcessMultiLock::new(&client, several.paths()).unwrap();
        assert_eq!(again.paths(), several.paths());
        let transaction = guard.transaction().create("/note", "", CreateMode::Persistent).unwrap();
        transaction.delete(guard.node(), None).unwrap().commit().await.unwrap();
        assert!(client.check_exists("/note").await.unwrap().is_some());
        assert!(client.check_exists(guard.node()).await.unwrap().is_none());
        let error = guard.transaction().set_data("/note", "1", None).unwrap().commit().await.unwrap_err();
        assert_lost(&error, guard.node(), LossReason::NodeDeleted);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_two_namespaces_share_a_session_and_do_not_exclude_each_other() {
    let (client, namespaces) = (client().await, [path("one"), path("other")]);
    let mutex = |namespace: &str| InterProcessMutex::new(&client.using_namespace(namespace).unwrap(), "/m").unwrap();
    let [one, other] = namespaces.each_ref().map(|namespace| mutex(namespace));
    let held = [one.acquire().await.unwrap(), other.try_acquire().await.unwrap().unwrap()];
    assert_eq!(held[0].session_id(), held[1].session_id());
    for (guard, namespace) in held.iter().zip(&namespaces) {
        assert_eq!(guard.node().parent().unwrap().as_str(), format!("{namespace}/m"));
        assert!(client.check_exists(guard.node()).await.unwrap().is_some());
    }
    // Both locks share a session, so one transaction can check both.
    let both = InterProcessMultiLock::of([arc(one), arc(other)]).unwrap().acquire().await.unwrap();
    both.transaction().commit().await.unwrap();
}
