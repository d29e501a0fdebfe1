//! The mutex that is not reentrant.

use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{InterProcessSemaphoreMutex, OwnerId, ParticipantKind};

use super::{free, stands};
use crate::support::{client, path, soon};

fn mutex(client: &CuratorClient, path: &str) -> InterProcessSemaphoreMutex {
    InterProcessSemaphoreMutex::new(client, path).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_holds_it_does_not_get_it_again() {
    let (client, path) = (client().await, path("not-reentrant"));
    let mutex = mutex(&client, &path);
    let owner = OwnerId::new();
    let guard = mutex.acquire_as(&owner).await.unwrap();
    assert!(mutex.try_acquire_as(&owner).await.unwrap().is_none());
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert!(mutex.acquire_timeout(Duration::from_millis(50)).await.unwrap().is_none());
    assert!(mutex.is_acquired_in_this_process());
    guard.release().await.unwrap();
    assert!(!mutex.is_acquired_in_this_process());

    let guard = mutex.acquire().await.unwrap();
    assert!(mutex.try_acquire().await.unwrap().is_none(), "the same task has got it again");
    guard.release().await.unwrap();
    free(&client, &path, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_task_or_thread_may_release_it() {
    let (client, path) = (client().await, path("released-elsewhere"));
    let mutex = mutex(&client, &path).with_lock_data(*b"the holder");
    let guard = mutex.acquire().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = mutex.clone();
        async move { soon(mutex.acquire()).await.unwrap() }
    });
    stands(&client, &path, 1, 1).await;
    let participants = mutex.participants().await.unwrap();
    assert_eq!(participants.iter().map(|each| each.owns).collect::<Vec<_>>(), [true, false]);
    assert!(participants.iter().all(|each| each.kind == ParticipantKind::Exclusive));
    assert_eq!((&participants[0].path, &*participants[0].data), (guard.node(), &b"the holder"[..]));
    tokio::spawn(guard.release()).await.unwrap().unwrap();
    let guard = soon(waiting).await.unwrap();
    std::thread::spawn(move || guard.blocking_release().unwrap()).join().unwrap();
    free(&client, &path, 1).await;
}
