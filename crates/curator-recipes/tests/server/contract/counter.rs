//! The end of the sequence counter: the order is undefined from then on, so every new acquire fails.
//!
//! Each test covers all kinds on one server, because setting the counters of a real server takes two restarts.

use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{Error, Result};
use curator_test::TestingServer;
use tokio::task::JoinSet;

use super::subjects::{Held, Kind, Lock};
use crate::support::{connect, nothing_left, server_at, soon};

const KINDS: [Kind; 7] =
    [Kind::Mutex, Kind::SemaphoreMutex, Kind::Write, Kind::Read, Kind::Semaphore, Kind::Paths, Kind::Locks];

fn path(kind: Kind) -> String {
    format!("/{kind:?}")
}

/// A server on which the sequence counters of all locks' directories have this value.
async fn server_with_all_at(counter: i32) -> (TestingServer, CuratorClient) {
    let dirs: Vec<_> = KINDS.iter().flat_map(|kind| kind.dirs(&path(*kind))).collect();
    let dirs: Vec<_> = dirs.iter().map(String::as_str).collect();
    server_at(counter, &dirs).await
}

/// Checks that an acquire failed because of the overflow; returns the directory in the error.
fn assert_overflow(acquired: Result<Option<Held>>) -> String {
    let refusal = match acquired {
        Err(Error::MultiLockMember { cause, rollback, .. }) if rollback.is_empty() => *cause,
        Err(error) => error,
        Ok(guard) => panic!("{guard:?}"),
    };
    let text = refusal.to_string();
    assert!(text.contains("delete the directory when no client") && text.contains("another path"), "{text}");
    assert!(!refusal.is_retryable());
    let Error::SequenceOverflow { dir, node } = refusal else { panic!("{text}") };
    assert!(text.contains(dir.as_str()) && text.contains(&node), "{text}");
    dir.as_str().to_owned()
}

/// Acquires with one of the three acquire methods.
async fn acquire(lock: Lock, method: usize) -> Result<Option<Held>> {
    match method % 3 {
        0 => lock.acquire().await.map(Some),
        1 => lock.try_acquire().await,
        _ => lock.acquire_timeout(Duration::from_secs(20)).await,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acquire_fails_after_a_sequence_overflow() {
    let (server, admin) = server_with_all_at(i32::MAX).await;
    let mut clients = vec![admin];
    for _ in 0..2 {
        clients.push(connect(&server.connect_string()).await);
    }
    for kind in KINDS {
        // A single contender, and a crowd.
        for contenders in [1, 9] {
            let mut acquiring = JoinSet::new();
            for who in 0..contenders {
                let (lock, method) = (kind.lock(&clients[who % clients.len()], &path(kind)), who / 3);
                acquiring.spawn(async move { soon(acquire(lock, method)).await });
            }
            while let Some(acquired) = acquiring.join_next().await {
                let dir = assert_overflow(acquired.unwrap());
                assert!(kind.dirs(&path(kind)).contains(&dir), "{kind:?}: {dir}");
            }
            for client in &clients {
                nothing_left(client, &kind.dirs(&path(kind))).await;
            }
        }
        let lock = kind.lock(&clients[1], &path(kind));
        assert_eq!(lock.participants().await.unwrap(), [], "{kind:?}");
        // The remedy: delete the directories.
        for dir in kind.dirs(&path(kind)) {
            clients[0].delete().for_path(&dir).await.unwrap();
        }
        soon(lock.acquire()).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_from_before_a_sequence_overflow_keeps_the_lock() {
    let (server, admin) = server_with_all_at(i32::MAX - 1).await;
    let other = connect(&server.connect_string()).await;
    for kind in KINDS {
        let lock = kind.lock(&admin, &path(kind));
        let guard = soon(lock.acquire()).await.unwrap();
        for method in 0..3 {
            assert_overflow(soon(acquire(kind.lock(&other, &path(kind)), method)).await);
        }
        soon(other.janitor().idle()).await;
        let owners: Vec<_> = lock.participants().await.unwrap().into_iter().filter(|one| one.owns).collect();
        assert_eq!(owners.len(), kind.kinds().len(), "{kind:?}: {owners:?}");
        assert!(guard.is_valid());
        guard.release().await.unwrap();
        for client in [&admin, &other] {
            nothing_left(client, &kind.dirs(&path(kind))).await;
        }
    }
}
