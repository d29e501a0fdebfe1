//! Releases that fail, or take too long.

use std::time::Duration;

use curator_recipes::{Error, InterProcessReadWriteLock, InterProcessSemaphoreV2, client};
use curator_test::{Direction, OpCode};

use crate::support::{DEFAULT_TIMEOUT, behind_proxy, client, gives_up, mutex, no_way_out, path, queue_of, soon};

/// Curator's issues 1193 and 1006: local state is cleared, and the node lives on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_cannot_be_confirmed_goes_on_and_can_be_asked_about() {
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
async fn releasing_a_lock_whose_node_is_gone_says_that_it_was_lost() {
    let (holder, admin, path) = (client().await, client().await, path("release-deleted"));
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    admin.delete().for_path(guard.node()).await.unwrap();
    let error = soon(guard.release()).await.unwrap_err();
    assert!(matches!(&error, Error::Lost(_)), "{error}");
}

/// The directory lets everybody in and nobody out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_not_permitted_says_so_and_can_be_asked_about() {
    let (holder, path) = (client().await, path("release-refused"));
    no_way_out(&holder, &path).await;
    let guard = mutex(&holder, &path).acquire().await.unwrap();
    let node = guard.node().clone();
    let error = soon(guard.release()).await.unwrap_err();
    assert!(matches!(&error, Error::ReleaseRefused { path, .. } if *path == node), "{error}");
    assert!(!error.is_retryable());
    soon(holder.janitor().idle()).await;
    let left = holder.janitor().pending_deletes();
    let left: Vec<_> = left.iter().map(|delete| (delete.path.as_str(), delete.given_up)).collect();
    assert_eq!(left, [(node.as_str(), true)]);
    // Nobody waits for what this client itself has left there.
    let error = soon(mutex(&holder, &path).acquire()).await.unwrap_err();
    assert!(matches!(&error, Error::ReleaseRefused { path, .. } if *path == node), "{error}");
    // With the session the node goes, and with the node the note.
    holder.close().await.unwrap();
    queue_of(&client().await, &path, 0).await;
    assert!(holder.janitor().pending_deletes().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_takes_too_long_says_so_in_time_and_goes_on() {
    let ((proxy, holder), other) = (behind_proxy().await, client().await);
    for limit in [Duration::ZERO, Duration::from_millis(50)] {
        let path = path("release-timeout");
        let guard = mutex(&holder, &path).acquire().await.unwrap();
        let node = guard.node().clone();
        proxy.hold_replies(OpCode::Delete);
        let error = soon(guard.release_timeout(limit)).await.unwrap_err();
        let Error::ReleasePending { path: late, cause: client::Error::OperationTimeout { after, .. } } = &error else {
            panic!("{error}");
        };
        assert_eq!((late, *after), (&node, limit));
        // It was sent.
        queue_of(&other, &path, 0).await;
        proxy.release_held();
        soon(holder.janitor().idle()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_any_guard_that_is_answered_in_time_is_confirmed() {
    let (holder, path) = (client().await, path("release-in-time"));
    let of = |name: &str| format!("{path}/{name}");
    let guard = mutex(&holder, &of("mutex")).acquire().await.unwrap();
    guard.release_timeout(DEFAULT_TIMEOUT).await.unwrap();
    let lock = InterProcessReadWriteLock::new(&holder, of("read-write")).unwrap();
    lock.write().acquire().await.unwrap().release_timeout(DEFAULT_TIMEOUT).await.unwrap();
    let semaphore = InterProcessSemaphoreV2::new(&holder, of("semaphore"), 1).unwrap();
    semaphore.acquire().await.unwrap().release_timeout(DEFAULT_TIMEOUT).await.unwrap();
    for directory in ["mutex", "read-write", "semaphore/leases"] {
        queue_of(&holder, &of(directory), 0).await;
    }
}
