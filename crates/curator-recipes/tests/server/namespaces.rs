//! A lock returns paths that the client accepts unchanged, under any chroot and namespace.

use curator_recipes::client::{CreateMode, CuratorClient};
use curator_recipes::{InterProcessMultiLock, InterProcessMutex, LossReason, SharedCount, revoke};
use curator_test::TestingServer;

use crate::support::subjects::Kind;
use crate::support::{LONG_SESSION, arc, builder, client, path, soon};
use crate::transactions::assert_lost;

/// Clients of the same server: plain, under a chroot, in a namespace, and in a namespace under a
/// chroot.
async fn clients() -> Vec<CuratorClient> {
    let server = TestingServer::shared().await.connect_string();
    let chroot = format!("{server}{}", path("chroot"));
    let namespace = path("namespace");
    let mut clients = Vec::new();
    for (to, namespace) in [
        (&server, ""),
        (&chroot, ""),
        (&server, &namespace[1..]),
        (&chroot, "inner"),
    ] {
        let builder = builder(to, LONG_SESSION);
        let builder = if namespace.is_empty() {
            builder
        } else {
            builder.namespace(namespace)
        };
        clients.push(builder.connect().await.unwrap());
    }
    clients
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_accepts_the_paths_of_every_lock_in_any_namespace() {
    for client in clients().await {
        let session = client.session().await.unwrap().id();
        for kind in Kind::all() {
            let lock = kind.lock(&client, &format!("/{kind:?}"));
            let held = lock.acquire().await.unwrap();
            let participants = lock.participants().await.unwrap();
            for node in held.nodes() {
                assert_eq!(
                    client.get_data(node).await.unwrap().1.ephemeral_owner,
                    session
                );
                assert!(
                    participants
                        .iter()
                        .any(|participant| participant.path == *node && participant.owns)
                );
                assert_eq!(
                    client.resolve(client.unresolve(node).unwrap()).unwrap(),
                    *node
                );
            }
            let requested = held.revocation_requested();
            revoke(&client, held.node()).await.unwrap();
            soon(requested).await.unwrap();
            held.release().await.unwrap();
        }

        // A lock on the returned path has the same queue: the namespace is not applied twice.
        let mutex = InterProcessMutex::new(&client, "/mutex").unwrap();
        assert_eq!(*mutex.path(), client.resolve("/mutex").unwrap());
        let _held = mutex.acquire().await.unwrap();
        assert!(
            InterProcessMutex::new(&client, mutex.path())
                .unwrap()
                .try_acquire()
                .await
                .unwrap()
                .is_none()
        );
        let count = SharedCount::new(&client, "/count", 2).unwrap();
        let versioned = count.versioned().await.unwrap();
        assert!(count.compare_and_set(&versioned, 3).await.unwrap());

        let several = InterProcessMultiLock::new(&client, ["/a", "/b"]).unwrap();
        let guard = several.acquire().await.unwrap();
        assert_eq!(
            InterProcessMultiLock::new(&client, several.paths())
                .unwrap()
                .paths(),
            several.paths()
        );
        guard
            .transaction()
            .create("/note", "", CreateMode::Persistent)
            .unwrap()
            .delete(guard.node(), None)
            .unwrap()
            .commit()
            .await
            .unwrap();
        assert!(client.check_exists("/note").await.unwrap().is_some());
        let error = guard
            .transaction()
            .set_data("/note", "1", None)
            .unwrap()
            .commit()
            .await
            .unwrap_err();
        assert_lost(&error, guard.node(), LossReason::NodeDeleted);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_two_namespaces_share_a_session_and_do_not_exclude_each_other() {
    let client = client().await;
    let namespaces = [path("one"), path("other")];
    let mutex = |namespace: &str| {
        InterProcessMutex::new(&client.using_namespace(namespace).unwrap(), "/m").unwrap()
    };
    let [one, other] = namespaces.each_ref().map(|namespace| mutex(namespace));
    let held = [
        one.acquire().await.unwrap(),
        other.try_acquire().await.unwrap().unwrap(),
    ];
    assert_eq!(held[0].session_id(), held[1].session_id());
    for (guard, namespace) in held.iter().zip(&namespaces) {
        assert_eq!(
            guard.node().parent().unwrap().as_str(),
            format!("{namespace}/m")
        );
        assert!(client.check_exists(guard.node()).await.unwrap().is_some());
    }
    // Both locks share a session, so one transaction can check both.
    let both = InterProcessMultiLock::of([arc(one), arc(other)])
        .unwrap()
        .acquire()
        .await
        .unwrap();
    both.transaction().commit().await.unwrap();
}
