//! Releases that fail or take too long.

use std::time::{Duration, Instant};

use curator_recipes::{Error, InterProcessMultiLock, InterProcessReadWriteLock, InterProcessSemaphoreV2, client};
use curator_test::{Direction, OpCode};

use crate::support::{
    DEFAULT_TIMEOUT, SLACK, arc, behind_proxy, client, create_dir_without_delete, gives_up, mutex, path, queue_of, soon,
};

/// In this case, Curator clears its local state, and the node remains (Curator's issues 1193 and 1006).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unconfirmed_release_continues_and_is_listed_by_the_janitor() {
    let ((proxy, holder), other, path) = (gives_up().await, client().await, path("release-pending"));
    let mutex = mutex(&holder, &path);
    let guard = mutex.acquire().await.unwrap();
    let node = guard.node().clone();
    proxy.black_hole(Direction::Both);
    let error = soon(guard.release()).await.unwrap_err();
    assert!(matches!(&error, Error::ReleasePending { path, .. } if *path == node), "{error}");
    let pending = holder.janitor().pending_deletes();
    assert_eq!(pending.iter().map(|delete| delete.path.as_str()).collect::<Vec<_>>(), [node.as_str()]);
    assert!(!mutex.is_owned_by_current());
    proxy.heal();
    soon(holder.janitor().idle()).await;
    queue_of(&other, &path, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releasing_a_lock_whose_node_is_gone_fails_with_lost() {
    let (holder, admin, path) = (client().await, client().await, path("release-deleted"));
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    admin.delete().for_path(guard.node()).await.unwrap();
    let error = soon(guard.release()).await.unwrap_err();
    assert!(matches!(&error, Error::Lost(_)), "{error}");
}

/// In this directory, any client may create nodes, and no client may delete them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_not_permitted_fails_and_is_listed_by_the_janitor() {
    let (holder, path) = (client().await, path("release-refused"));
    create_dir_without_delete(&holder, &path).await;
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let node = guard.node().clone();
    let error = soon(guard.release()).await.unwrap_err();
    assert!(matches!(&error, Error::ReleaseRefused { path, .. } if *path == node), "{error}");
    assert!(!error.is_retryable());
    soon(holder.janitor().idle()).await;
    let left = holder.janitor().pending_deletes();
    let left: Vec<_> = left.iter().map(|delete| (delete.path.as_str(), delete.given_up)).collect();
    assert_eq!(left, [(node.as_str(), true)]);
    // An acquire does not wait for a node that its own client could not delete.
    let error = soon(mutex(&holder, &path).acquire()).await.unwrap_err();
    assert!(matches!(&error, Error::ReleaseRefused { path, .. } if *path == node), "{error}");
    // The session's end deletes the node, and so removes the record of it.
    holder.close().await.unwrap();
    queue_of(&client().await, &path, 0).await;
    assert!(holder.janitor().pending_deletes().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_timeout_of_any_guard_returns_in_time_and_the_release_continues() {
    let ((proxy, holder), other, path) = (behind_proxy().await, client().await, path("release-timeout"));
    let of = |name: &str| format!("{path}/{name}");
    let mutex = mutex(&holder, &of("mutex"));
    let lock = InterProcessReadWriteLock::new(&holder, of("read-write")).unwrap();
    let semaphore = InterProcessSemaphoreV2::new(&holder, of("semaphore"), 1).unwrap();
    for limit in [Duration::ZERO, Duration::from_millis(50)] {
        let guard = mutex.acquire().await.unwrap();
        let (writing, lease) = (lock.write().acquire().await.unwrap(), semaphore.acquire().await.unwrap());
        let nodes = [guard.node().clone(), writing.node().clone(), lease.node().clone()];
        proxy.hold_replies(OpCode::Delete);
        let released = [
            soon(guard.release_timeout(limit)).await,
            soon(writing.release_timeout(limit)).await,
            soon(lease.release_timeout(limit)).await,
        ];
        for (released, node) in released.into_iter().zip(nodes) {
            let error = released.unwrap_err();
            let Error::ReleasePending { path, cause: client::Error::OperationTimeout { after, .. } } = &error else {
                panic!("{error}");
            };
            assert_eq!((path, *after), (&node, limit));
        }
        for directory in ["mutex", "read-write", "semaphore/leases"] {
            queue_of(&other, &of(directory), 0).await;
        }
        proxy.release_held();
        soon(holder.janitor().idle()).await;
    }
    mutex.acquire().await.unwrap().release_timeout(DEFAULT_TIMEOUT).await.unwrap();
}

/// The slow lock is the last one, and so it is released first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_timeout_of_several_clients_reports_the_slow_one_and_all_are_released() {
    let ((proxy, slow), quick, path) = (behind_proxy().await, client().await, path("release-of-several"));
    let members =
        [(&quick, "quick"), (&slow, "slow")].map(|(client, name)| arc(mutex(client, &format!("{path}/{name}"))));
    let guard = InterProcessMultiLock::of(members).unwrap().acquire().await.unwrap();
    let last = guard.nodes().last().unwrap().clone();
    proxy.hold_replies(OpCode::Delete);
    let failures = match soon(guard.release_timeout(Duration::from_millis(50))).await.unwrap_err() {
        Error::ReleasesFailed { failures } => failures,
        failure => vec![failure],
    };
    assert!(matches!(&failures[0], Error::ReleasePending { path, .. } if *path == last), "{failures:?}");
    queue_of(&quick, &format!("{path}/quick"), 0).await;
    proxy.release_held();
    queue_of(&quick, &format!("{path}/slow"), 0).await;
}

/// With a separate timeout for each lock, the release would take twice as long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_of_several_clients_share_the_timeout_of_a_release() {
    let ((proxy, one), (other_proxy, other)) = (behind_proxy().await, behind_proxy().await);
    let path = path("release-shared-timeout");
    let members =
        [(&one, "one"), (&other, "other")].map(|(client, name)| arc(mutex(client, &format!("{path}/{name}"))));
    let guard = InterProcessMultiLock::of(members).unwrap().acquire().await.unwrap();
    for proxy in [&proxy, &other_proxy] {
        proxy.hold_replies(OpCode::Delete);
    }
    let started = Instant::now();
    let released = soon(guard.release_timeout(SLACK)).await;
    let took = started.elapsed();
    let Err(Error::ReleasesFailed { failures }) = released else { panic!("{released:?}") };
    assert!(failures.iter().all(|failure| matches!(failure, Error::ReleasePending { .. })), "{failures:?}");
    assert!(failures.len() == 2 && (SLACK..2 * SLACK).contains(&took), "{took:?}: {failures:?}");
    for proxy in [&proxy, &other_proxy] {
        proxy.release_held();
    }
}
