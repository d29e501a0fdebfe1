//! The mutex that is not reentrant.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{InterProcessSemaphoreMutex, OwnerId, ParticipantKind};
use tokio::task::JoinSet;

use super::{leases, nothing_left, stands};
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
    nothing_left(&client, &path, 1).await;
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
    nothing_left(&client, &path, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_at_a_time_holds_it_and_the_tokens_rise() {
    let path = path("semaphore-mutex-crowd");
    let (inside, last) = (Arc::new(AtomicUsize::new(0)), Arc::new(std::sync::Mutex::new(None)));
    let mut tasks = JoinSet::new();
    for _ in 0..6 {
        let mutex = mutex(&client().await, &path);
        let (inside, last) = (Arc::clone(&inside), Arc::clone(&last));
        tasks.spawn(async move {
            for _ in 0..20 {
                let guard = soon(mutex.acquire()).await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders at once");
                assert!(guard.is_valid());
                let before = last.lock().unwrap().replace(guard.fencing_token());
                assert!(before < Some(guard.fencing_token()));
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    soon(tasks.join_all()).await;
    let client = client().await;
    assert!(leases(&client, &path).await.is_empty());
    nothing_left(&client, &path, 1).await;
}
