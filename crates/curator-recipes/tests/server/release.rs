//! Releases that fail.

use curator_recipes::Error;
use curator_test::Direction;

use crate::support::{client, gives_up, mutex, no_way_out, path, queue_of, soon};

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
