//! The end of the sequence counter: the order is undefined from then on, so every new acquire
//! fails.

use std::time::Duration;

use curator_recipes::{Error, Result};
use tokio::task::JoinSet;

use super::subjects::{Held, Lock};
use crate::support::{KINDS, connect, nothing_left, overflow_server, path_of, soon};

/// Checks that an acquire failed because of the overflow; returns the directory in the error.
fn assert_overflow(acquired: Result<Option<Held>>) -> String {
    let refusal = match acquired {
        Err(Error::MultiLockMember {
            cause, rollback, ..
        }) if rollback.is_empty() => *cause,
        Err(error) => error,
        Ok(guard) => panic!("{guard:?}"),
    };
    let text = refusal.to_string();
    assert!(
        text.contains("delete the directory when no client") && text.contains("another path"),
        "{text}"
    );
    assert!(!refusal.is_retryable());
    let Error::SequenceOverflow { dir, node } = refusal else {
        panic!("{text}")
    };
    assert!(
        text.contains(dir.as_str()) && text.contains(&node),
        "{text}"
    );
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
    let (server, admin) = overflow_server().await;
    let mut clients = vec![admin];
    for _ in 0..2 {
        clients.push(connect(&server.connect_string()).await);
    }
    for kind in KINDS {
        let path = path_of(kind, i32::MAX);
        // A single contender, and a crowd.
        for contenders in [1, 9] {
            let mut acquiring = JoinSet::new();
            for who in 0..contenders {
                let lock = kind.lock(&clients[who % clients.len()], &path);
                let method = who / 3;
                acquiring.spawn(async move { soon(acquire(lock, method)).await });
            }
            while let Some(acquired) = acquiring.join_next().await {
                let dir = assert_overflow(acquired.unwrap());
                assert!(kind.dirs(&path).contains(&dir), "{kind:?}: {dir}");
            }
            for client in &clients {
                nothing_left(client, &kind.dirs(&path)).await;
            }
        }
        let lock = kind.lock(&clients[1], &path);
        assert_eq!(lock.participants().await.unwrap(), [], "{kind:?}");
        // The remedy: delete the directories.
        for dir in kind.dirs(&path) {
            clients[0].delete().for_path(&dir).await.unwrap();
        }
        soon(lock.acquire()).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_from_before_a_sequence_overflow_keeps_the_lock() {
    let (server, admin) = overflow_server().await;
    let other = connect(&server.connect_string()).await;
    for kind in KINDS {
        let path = path_of(kind, i32::MAX - 1);
        let lock = kind.lock(&admin, &path);
        let guard = soon(lock.acquire()).await.unwrap();
        for method in 0..3 {
            assert_overflow(soon(acquire(kind.lock(&other, &path), method)).await);
        }
        soon(other.janitor().idle()).await;
        let owners: Vec<_> = lock
            .participants()
            .await
            .unwrap()
            .into_iter()
            .filter(|one| one.owns)
            .collect();
        assert_eq!(owners.len(), kind.kinds().len(), "{kind:?}: {owners:?}");
        assert!(guard.is_valid());
        guard.release().await.unwrap();
        for client in [&admin, &other] {
            nothing_left(client, &kind.dirs(&path)).await;
        }
    }
}
