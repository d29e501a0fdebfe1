//! Releases that fail or take too long.

use std::sync::Arc;
use std::time::Duration;

use curator_recipes::{
    Error, InterProcessMultiLock, InterProcessReadWriteLock, InterProcessSemaphoreV2, client,
};
use curator_test::OpCode;

use crate::support::{
    DEFAULT_TIMEOUT, LONG_SESSION, arc, behind_proxy, builder, children, client, connect,
    create_dir_without_delete, gives_up, mutex, nothing_left, path, queue_of, simulated, soon,
    spawn_acquire, until_simulated, without_probes,
};

/// In this case, Curator clears its local state, and the node remains (Curator's issues 1193 and
/// 1006).
#[tokio::test(start_paused = true)]
async fn an_unconfirmed_release_continues_and_is_listed_by_the_janitor() {
    let (simulation, process, holder) = gives_up().await;
    let other = connect(&simulation.connect_string()).await;
    let path = "/release-pending";
    let mutex = mutex(&holder, path);
    let guard = mutex.acquire().await.unwrap();
    let node = guard.node().clone();
    simulation.partition(&process, 1);
    let error = soon(guard.release()).await.unwrap_err();
    assert!(
        matches!(&error, Error::ReleasePending { path, .. } if *path == node),
        "{error}"
    );
    let pending = holder.janitor().pending_deletes();
    assert_eq!(
        pending
            .iter()
            .map(|delete| delete.path.as_str())
            .collect::<Vec<_>>(),
        [node.as_str()]
    );
    assert!(!mutex.is_owned_by_current());
    simulation.heal_partition(&process, 1);
    nothing_left(&holder, &[path]).await;
    assert_eq!(children(&other, path).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releasing_a_lock_whose_node_is_gone_fails_with_lost() {
    let holder = client().await;
    let admin = client().await;
    let path = path("release-deleted");
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    admin.delete().for_path(guard.node()).await.unwrap();
    let error = soon(guard.release()).await.unwrap_err();
    assert!(matches!(&error, Error::Lost(_)), "{error}");
}

/// In this directory, any client may create nodes, and no client may delete them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_not_permitted_fails_and_is_listed_by_the_janitor() {
    let holder = client().await;
    let path = path("release-refused");
    create_dir_without_delete(&holder, &path).await;
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let node = guard.node().clone();
    let error = soon(guard.release()).await.unwrap_err();
    assert!(
        matches!(&error, Error::ReleaseRefused { path, .. } if *path == node),
        "{error}"
    );
    assert!(!error.is_retryable());
    soon(holder.janitor().idle()).await;
    let left = holder.janitor().pending_deletes();
    let left: Vec<_> = left
        .iter()
        .map(|delete| (delete.path.as_str(), delete.is_refused))
        .collect();
    assert_eq!(left, [(node.as_str(), true)]);
    // An acquire does not wait for a node that its own client could not delete.
    let error = soon(mutex(&holder, &path).acquire()).await.unwrap_err();
    assert!(
        matches!(&error, Error::ReleaseRefused { path, .. } if *path == node),
        "{error}"
    );
    // The session's end deletes the node, and so removes the janitor's record of it.
    holder.close().await.unwrap();
    queue_of(&client().await, &path, 0).await;
    assert!(holder.janitor().pending_deletes().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_timeout_of_any_guard_returns_on_time_and_the_release_continues() {
    let (proxy, holder) = behind_proxy().await;
    let other = client().await;
    let path = path("release-timeout");
    let path_of = |name: &str| format!("{path}/{name}");
    let mutex = mutex(&holder, &path_of("mutex"));
    let lock = InterProcessReadWriteLock::new(&holder, path_of("read-write")).unwrap();
    let semaphore = InterProcessSemaphoreV2::new(&holder, path_of("semaphore"), 1).unwrap();
    for limit in [Duration::ZERO, Duration::from_millis(50)] {
        let guard = mutex.acquire().await.unwrap();
        let writing = lock.write().acquire().await.unwrap();
        let lease = semaphore.acquire().await.unwrap();
        let nodes = [
            guard.node().clone(),
            writing.node().clone(),
            lease.node().clone(),
        ];
        proxy.hold_replies(OpCode::Delete);
        let released = [
            soon(guard.release_timeout(limit)).await,
            soon(writing.release_timeout(limit)).await,
            soon(lease.release_timeout(limit)).await,
        ];
        for (released, node) in released.into_iter().zip(nodes) {
            let error = released.unwrap_err();
            let Error::ReleasePending {
                path,
                cause: client::Error::OperationTimeout { after, .. },
            } = &error
            else {
                panic!("{error}");
            };
            assert_eq!((path, *after), (&node, limit));
        }
        for directory in ["mutex", "read-write", "semaphore/leases"] {
            queue_of(&other, &path_of(directory), 0).await;
        }
        proxy.release_held();
        soon(holder.janitor().idle()).await;
    }
    mutex
        .acquire()
        .await
        .unwrap()
        .release_timeout(DEFAULT_TIMEOUT)
        .await
        .unwrap();
}

/// The slow lock is the last one, and so it is released first. With a separate timeout for each
/// lock, the release of two slow ones would take twice as long.
#[tokio::test(start_paused = true)]
async fn locks_of_several_clients_share_the_timeout_of_a_release_which_reports_the_slow_ones() {
    const TIMEOUT: Duration = Duration::from_secs(1);
    for slow in [vec![1], vec![0, 1]] {
        let (simulation, process, client) = simulated(|builder| builder).await;
        let other_process = simulation.process("other");
        let other = other_process
            .run(builder(&simulation.connect_string(), LONG_SESSION).connect())
            .await
            .unwrap();
        let members =
            [(&other, "/other"), (&client, "/slow")].map(|(client, path)| arc(mutex(client, path)));
        let guard = InterProcessMultiLock::of(members)
            .unwrap()
            .acquire()
            .await
            .unwrap();
        let nodes: Vec<_> = guard.nodes().cloned().collect();
        for member in &slow {
            [&other_process, &process][*member].hold_replies(OpCode::Delete);
        }
        let began = tokio::time::Instant::now();
        let failures = match guard.release_timeout(TIMEOUT).await.unwrap_err() {
            Error::ReleasesFailed { failures } => failures,
            failure => vec![failure],
        };
        assert!(
            began.elapsed() < TIMEOUT + Duration::from_millis(10),
            "{:?}",
            began.elapsed()
        );
        assert!(
            matches!(&failures[0], Error::ReleasePending { path, .. } if *path == nodes[1]),
            "{failures:?}"
        );
        assert!(
            failures
                .iter()
                .all(|failure| matches!(failure, Error::ReleasePending { .. })),
            "{failures:?}"
        );
        // The timeout has expired when the second lock is released, so its release is not
        // confirmed.
        assert!(failures.len() >= slow.len(), "{failures:?}");
        for path in ["/other", "/slow"] {
            until_simulated(async || children(&client, path).await.is_empty()).await;
        }
    }
}

/// So other clients do not wait for these nodes while the acquire pauses.
#[tokio::test(start_paused = true)]
async fn the_other_nodes_of_a_multi_lock_whose_place_was_deleted_are_deleted_before_the_pause() {
    let policy = client::RetryNTimes::new(5, Duration::from_secs(30)).unwrap();
    let (simulation, _process, client) = simulated(|builder| builder.retry_policy(policy)).await;
    let other = connect(&simulation.connect_string()).await;
    let held = mutex(&other, "/b").acquire().await.unwrap();
    let lock = InterProcessMultiLock::non_reentrant(&client, ["/a", "/b"]).unwrap();
    let waiter = spawn_acquire(arc(lock));
    until_simulated(async || children(&other, "/b").await.len() == 2).await;
    let queue = children(&other, "/b").await;
    let place = queue.iter().find(|name| *name != held.node().name());
    let place = format!("/b/{}", place.unwrap());
    other.delete().for_path(&place).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!waiter.is_finished());
    assert_eq!(children(&other, "/a").await, [""; 0]);
    waiter.abort();
}

/// Changes a reply into an unspecified error of the server (-1).
fn unexpected(reply: &mut Vec<u8>) {
    reply.truncate(16);
    reply[12..16].copy_from_slice(&(-1_i32).to_be_bytes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_are_gone_after_an_unexpected_reply_count_as_released() {
    let (proxy, client) = behind_proxy().await;
    let paths = ["a", "b"].map(|name| format!("{}/{name}", path("unexpected")));
    let lock = InterProcessMultiLock::non_reentrant(&client, &paths).unwrap();
    let guard = soon(lock.acquire()).await.unwrap();
    proxy.alter_next_reply(OpCode::Multi, unexpected);
    soon(guard.release()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_janitor_checks_the_node_after_an_unexpected_reply() {
    let (proxy, client) = behind_proxy().await;
    let path = path("unexpected-one");
    let guard = soon(mutex(&client, &path).acquire()).await.unwrap();
    proxy.alter_next_reply(OpCode::Delete, unexpected);
    let error = soon(guard.release()).await.unwrap_err();
    assert!(matches!(error, Error::ReleaseRefused { .. }), "{error}");
    soon(client.janitor().idle()).await;
    assert_eq!(children(&client, &path).await, [""; 0]);
    let pending = client.janitor().pending_deletes();
    assert!(pending.is_empty(), "{pending:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_was_not_sent_is_sent_as_one_transaction_again() {
    let (_simulation, process, client) = simulated(|builder| builder).await;
    let lock = InterProcessMultiLock::non_reentrant(&client, ["/a", "/b"]).unwrap();
    let guard = lock.acquire().await.unwrap();
    process.cut_before_request(OpCode::Multi);
    guard.release().await.unwrap();
    let requests = process.requests();
    assert_eq!(requests.get(&OpCode::Delete), None, "{requests:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_denied_transaction_the_janitor_does_not_search_for_leases() {
    let (proxy, client) = behind_proxy().await;
    let path = path("denied-take");
    let no_create = client::Permission::READ | client::Permission::DELETE;
    client
        .create()
        .creating_parent_containers()
        .with_acl([client::Acl::new(no_create, client::AuthId::anyone())])
        .for_path(&format!("{path}/leases"), "")
        .await
        .unwrap();
    let semaphore = InterProcessSemaphoreV2::new(&client, &path, 2).unwrap();
    let lists = || {
        without_probes(&proxy)
            .get(&OpCode::GetChildren)
            .copied()
            .unwrap_or(0)
    };
    let before = lists();
    soon(semaphore.acquire()).await.unwrap_err();
    soon(client.janitor().idle()).await;
    assert_eq!(lists(), before);
}

#[tokio::test(start_paused = true)]
async fn a_refused_node_that_is_found_again_is_listed_once() {
    let (_simulation, process, client) = simulated(|builder| builder).await;
    create_dir_without_delete(&client, "/found").await;
    let session = client.session().await.unwrap();
    let dir = client::ZPath::on_server("/found").unwrap();
    let node = client::NodeSpec {
        path: dir.join("n-").unwrap(),
        data: Arc::clone(client.default_lock_data()),
        mode: client::CreateMode::EphemeralSequential,
        acl: Arc::clone(client.default_acl()),
    };
    for _ in 0..2 {
        session.create(&node).await.unwrap();
    }
    process.cut_before_reply(OpCode::Delete);
    let finder = client::node::find::NodeFinder::by_name(&dir, "n-");
    client.janitor().find_and_delete(&session, finder);
    client.janitor().idle().await;
    let pending = client.janitor().pending_deletes();
    assert_eq!(pending.len(), 2, "{pending:?}");
}
