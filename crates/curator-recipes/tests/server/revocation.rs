//! Somebody asks for the lock back.

use std::sync::Arc;

use curator_recipes::client::{self, CuratorClient, SessionEnd, ZPath};
use curator_recipes::{
    Error, InterProcessLock, InterProcessMultiLock, InterProcessReadWriteLock, InterProcessSemaphoreMutex,
    InterProcessSemaphoreV2, LockGuard, LossReason, revoke,
};
use curator_test::{FaultProxy, TestingServer};
use tokio::task::JoinHandle;

use crate::support::{
    children, client, connect, drop_after, end_session, mutex, path, queue_of, soon, still_waits, until,
};

/// Whether it has been asked for, once all that the server has said so far has been looked at.
async fn is_asked_for(client: &CuratorClient, guard: &LockGuard) -> bool {
    // What was sent before comes with the first answer; the node is read with the second, and watched with the third.
    for _ in 0..3 {
        tokio::select! {
            biased;
            lost = guard.lost() => panic!("{lost}"),
            checked = client.check_exists("/") => { checked.unwrap(); }
        }
    }
    tokio::select! {
        biased;
        asked = guard.revocation_requested() => {
            asked.unwrap();
            true
        }
        () = std::future::ready(()) => false,
    }
}

/// A holder that waits to be asked, and waits already on the server too.
async fn spawn_asked(guard: &Arc<LockGuard>) -> JoinHandle<Result<(), curator_recipes::LockLost>> {
    let waiting = tokio::spawn({
        let guard = Arc::clone(guard);
        async move { guard.revocation_requested().await }
    });
    let server = TestingServer::shared().await;
    let nodes: Vec<_> = guard.nodes().map(ToString::to_string).collect();
    let watched = async || {
        let watches = server.watches_by_path().await.unwrap();
        nodes.iter().all(|node| watches.get(node).is_some_and(|sessions| sessions.contains(&guard.session_id())))
    };
    until(watched).await;
    waiting
}

/// The participant with this number, the first being 0.
async fn participant(client: &CuratorClient, path: &str, number: usize) -> ZPath {
    mutex(client, path).participants().await.unwrap()[number].path.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_comes_while_the_lock_is_waited_for_is_told_to_the_holder() {
    let (first, path) = (client().await, path("revoke-waiting"));
    let mut guard = mutex(&first, &path).acquire().await.unwrap();
    // At the places where a waiter watches its own node already, and where it does not yet.
    let mut waiters = Vec::new();
    for place in 1..=4 {
        let client = client().await;
        let mutex = mutex(&client, &path);
        waiters.push((place, client, tokio::spawn(async move { mutex.acquire().await.unwrap() })));
        queue_of(&first, &path, place + 1).await;
    }
    // All but the third.
    let asked = [1, 2, 4];
    for place in asked {
        let waiter = participant(&first, &path, place).await;
        revoke(&first, &waiter).await.unwrap();
    }
    for (place, client, waiter) in waiters {
        assert!(still_waits(&waiter, &client).await, "to be asked for it is no reason to get it");
        guard.release().await.unwrap();
        guard = soon(waiter).await.unwrap();
        if asked.contains(&place) {
            soon(guard.revocation_requested()).await.unwrap();
        }
        assert_eq!(is_asked_for(&client, &guard).await, asked.contains(&place), "place {place}");
        assert!(guard.is_valid());
    }
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_told_whenever_it_comes_to_a_holder() {
    let (holder, admin, path) = (client().await, client().await, path("revoke-holding"));
    for waited in [false, true] {
        for listening in [false, true] {
            let before = mutex(&admin, &path).acquire().await.unwrap();
            let acquiring = tokio::spawn({
                let mutex = mutex(&holder, &path);
                async move { mutex.acquire().await.unwrap() }
            });
            if waited {
                queue_of(&admin, &path, 2).await;
            }
            before.release().await.unwrap();
            let guard = Arc::new(soon(acquiring).await.unwrap());
            // Nobody has asked, and one who asks is there already or comes later.
            let waiting = if listening { Some(spawn_asked(&guard).await) } else { None };
            revoke(&admin, &participant(&admin, &path, 0).await).await.unwrap();
            assert_eq!(holder.get_data(guard.node()).await.unwrap().0, b"__REVOKE__");
            if let Some(waiting) = waiting {
                soon(waiting).await.unwrap().unwrap();
            }
            // From now on at once, as often as one asks.
            for _ in 0..2 {
                soon(guard.revocation_requested()).await.unwrap();
            }
            assert!(guard.is_valid(), "it is no more than a request");
            Arc::into_inner(guard).unwrap().release().await.unwrap();
        }
    }
    // The next hold is another one.
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    assert!(!is_asked_for(&holder, &guard).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_data_in_the_node_is_no_request() {
    let (holder, admin, path) = (client().await, client().await, path("revoke-other-data"));
    let guard = Arc::new(mutex(&holder, &path).acquire().await.unwrap());
    let waiting = spawn_asked(&guard).await;
    for data in ["", "__REVOKE_", "__REVOKE__ ", "__revoke__", "anything"] {
        admin.set_data(guard.node(), data, None).await.unwrap();
        assert!(!is_asked_for(&holder, &guard).await, "{data:?}");
    }
    assert!(still_waits(&waiting, &holder).await);
    revoke(&admin, guard.node()).await.unwrap();
    soon(waiting).await.unwrap().unwrap();
    // It was said, and cannot be unsaid.
    admin.set_data(guard.node(), "never mind", None).await.unwrap();
    assert!(is_asked_for(&holder, &guard).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_to_be_asked_is_told_of_the_loss() {
    let server = TestingServer::shared().await;
    let proxy = FaultProxy::start(server.address()).unwrap();
    let (holder, admin, path) = (connect(&proxy.connect_string()).await, client().await, path("revoke-lost"));
    let guard = Arc::new(mutex(&holder, &path).acquire().await.unwrap());
    let waiting = spawn_asked(&guard).await;
    admin.delete().for_path(guard.node()).await.unwrap();
    let lost = soon(waiting).await.unwrap().unwrap_err();
    assert_eq!((&lost.path, lost.reason), (guard.node(), LossReason::NodeDeleted));
    assert_eq!(soon(guard.revocation_requested()).await, Err(lost));
    drop(guard);

    let guard = Arc::new(mutex(&holder, &path).acquire().await.unwrap());
    let waiting = spawn_asked(&guard).await;
    end_session(server, &proxy).await;
    let lost = soon(waiting).await.unwrap().unwrap_err();
    assert_eq!(lost.reason, LossReason::SessionLost(SessionEnd::Expired));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_has_left_cannot_be_asked() {
    let (holder, admin, path) = (client().await, client().await, path("revoke-left"));
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let left = participant(&admin, &path, 0).await;
    guard.release().await.unwrap();
    let error = revoke(&admin, &left).await.unwrap_err();
    assert!(matches!(&error, Error::Client(client::Error::NoNode { path, .. }) if *path == left), "{error}");
    assert_eq!(children(&admin, &path).await, [""; 0], "the request has made the node anew");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_reader_is_asked_for_itself() {
    let (holder, admin, path) = (client().await, client().await, path("revoke-readers"));
    let lock = InterProcessReadWriteLock::new(&holder, &path).unwrap();
    let read = async || {
        let lock = lock.clone();
        Arc::new(tokio::spawn(async move { lock.read().acquire().await.unwrap() }).await.unwrap())
    };
    let (first, second, third) = (read().await, read().await, read().await);
    let (one, two) = (spawn_asked(&first).await, spawn_asked(&second).await);
    revoke(&admin, first.node()).await.unwrap();
    soon(one).await.unwrap().unwrap();
    assert!(!is_asked_for(&holder, &second).await && still_waits(&two, &holder).await);
    revoke(&admin, second.node()).await.unwrap();
    soon(two).await.unwrap().unwrap();
    // The one goes, and the other is asked for still; nobody has asked the third.
    Arc::into_inner(first).unwrap().release().await.unwrap();
    assert!(second.is_valid());
    assert!(is_asked_for(&holder, &second).await);
    assert!(!is_asked_for(&holder, &third).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_to_be_asked_that_is_dropped_loses_no_request() {
    let (holder, admin, path) = (client().await, client().await, path("revoke-dropped"));
    for polls in 0..6 {
        let guard = mutex(&holder, &path).acquire().await.unwrap();
        // What is never asked for does not wake for ever, so the request is made beside it.
        let (_, revoked) = tokio::join!(drop_after(guard.revocation_requested(), polls), revoke(&admin, guard.node()));
        revoked.unwrap();
        soon(guard.revocation_requested()).await.unwrap();
        guard.release().await.unwrap();
    }
    // Nobody polls it, and nobody else is blinded by it.
    let guard = Arc::new(mutex(&holder, &path).acquire().await.unwrap());
    let mut parked = Box::pin(guard.revocation_requested());
    tokio::select! {
        biased;
        asked = &mut parked => panic!("{asked:?}"),
        () = std::future::ready(()) => {}
    }
    let waiting = spawn_asked(&guard).await;
    revoke(&admin, guard.node()).await.unwrap();
    soon(waiting).await.unwrap().unwrap();
    soon(parked).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multi_lock_is_asked_for_by_any_of_its_nodes() {
    let (holder, admin) = (client().await, client().await);
    for of_locks in [false, true] {
        for index in 0..3 {
            for listening in [false, true] {
                let paths = [path("revoke-multi"), path("revoke-multi"), path("revoke-multi")];
                let lock = if of_locks {
                    let locks: [Arc<dyn InterProcessLock>; 3] = [
                        Arc::new(mutex(&holder, &paths[0])),
                        Arc::new(InterProcessSemaphoreMutex::new(&holder, &paths[1]).unwrap()),
                        Arc::new(InterProcessReadWriteLock::new(&holder, &paths[2]).unwrap().write().clone()),
                    ];
                    InterProcessMultiLock::of(locks).unwrap()
                } else {
                    InterProcessMultiLock::new(&holder, &paths).unwrap()
                };
                let guard = Arc::new(lock.acquire().await.unwrap());
                let waiting = if listening { Some(spawn_asked(&guard).await) } else { None };
                let asked = lock.participants().await.unwrap()[index].path.clone();
                revoke(&admin, &asked).await.unwrap();
                if let Some(waiting) = waiting {
                    soon(waiting).await.unwrap().unwrap();
                }
                soon(guard.revocation_requested()).await.unwrap();
                assert!(guard.is_valid());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_and_a_downgraded_writer_can_be_asked_too() {
    let (holder, admin) = (client().await, client().await);
    let semaphore = InterProcessSemaphoreV2::new(&holder, path("revoke-lease"), 2).unwrap();
    let leases = semaphore.acquire_many(2).await.unwrap();
    revoke(&admin, leases[1].node()).await.unwrap();
    soon(leases[1].revocation_requested()).await.unwrap();
    assert!(!is_asked_for(&holder, &leases[0]).await);

    let lock = InterProcessReadWriteLock::new(&holder, path("revoke-downgraded")).unwrap();
    let reading = lock.write().acquire().await.unwrap().downgrade().await.unwrap();
    assert!(!is_asked_for(&holder, &reading).await);
    revoke(&admin, reading.node()).await.unwrap();
    soon(reading.revocation_requested()).await.unwrap();
}
