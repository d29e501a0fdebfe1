//! Both sides of a read-write lock: a writer that also reads, a reader that wants to write, and the
//! lists of participants.
//!
//! `contract/` tests what each side has in common with the other locks.

use std::time::Duration;

use curator_recipes::{
    Error, InterProcessReadWriteLock, LockGuard, OwnerId, Participant, ParticipantKind, Result,
};
use curator_test::OpCode;
use futures_util::future::join_all;

use crate::support::{
    DEFAULT_TIMEOUT, behind_proxy, children, client, path, queue_of, read_write as lock,
    round_trips, soon, until,
};

/// Whether this acquire succeeds; if so, releases the lock.
async fn is_free(acquired: impl Future<Output = Result<Option<impl Into<LockGuard>>>>) -> bool {
    match acquired.await.unwrap() {
        Some(guard) => {
            guard.into().release().await.unwrap();
            true
        }
        None => false,
    }
}

/// Whether another owner can acquire the read lock now, and whether it can acquire the write lock.
async fn free_for(other: &InterProcessReadWriteLock) -> [bool; 2] {
    let owner = OwnerId::new();
    [
        is_free(other.read().try_acquire_as(&owner)).await,
        is_free(other.write().try_acquire_as(&owner)).await,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_also_reads_admits_readers_after_releasing_the_write_lock() {
    let holder = client().await;
    let other = client().await;
    let path = path("write-read");
    let holding = lock(&holder, &path);
    let wanted = lock(&other, &path);
    assert_eq!(free_for(&wanted).await, [true, true]);
    let writing = [
        holding.write().acquire().await.unwrap(),
        holding.write().try_acquire().await.unwrap().unwrap(),
    ];
    assert_eq!(free_for(&wanted).await, [false, false]);
    let reading = [
        holding.read().acquire().await.unwrap(),
        holding.read().try_acquire().await.unwrap().unwrap(),
    ];
    assert_eq!(reading[0].fencing_token(), writing[0].fencing_token());
    assert!(holding.read().is_owned_by_current() && holding.write().is_owned_by_current());
    // Each side has one node, for any number of guards.
    soon(other.janitor().idle()).await;
    assert_eq!(children(&holder, &path).await.len(), 2);
    for guard in writing {
        assert_eq!(free_for(&wanted).await, [false, false]);
        guard.release().await.unwrap();
    }
    assert!(holding.read().is_owned_by_current() && !holding.write().is_owned_by_current());
    for guard in reading {
        assert!(guard.is_valid());
        assert_eq!(free_for(&wanted).await, [true, false]);
        guard.release().await.unwrap();
    }
    assert_eq!(free_for(&wanted).await, [true, true]);

    // The releases may also be in the other order.
    let writing = holding.write().acquire().await.unwrap();
    let reading = holding.read().acquire().await.unwrap();
    reading.release().await.unwrap();
    assert!(!holding.read().is_acquired_in_this_process());
    assert_eq!(free_for(&wanted).await, [false, false]);
    writing.release().await.unwrap();
    assert_eq!(free_for(&wanted).await, [true, true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_acquire_method_refuses_an_upgrade_immediately() {
    let client = client().await;
    let path = path("upgrade");
    let lock = lock(&client, &path);
    let reading = lock.read().acquire().await.unwrap();
    let refusals = [
        soon(lock.write().acquire()).await.map(Some),
        soon(lock.write().try_acquire()).await,
        soon(lock.write().acquire_timeout(2 * DEFAULT_TIMEOUT)).await,
        soon(lock.write().acquire_timeout(Duration::ZERO)).await,
    ];
    for refused in refusals {
        match refused.unwrap_err() {
            Error::UpgradeRefused { dir, owner } => {
                assert_eq!((dir.as_str(), owner), (path.as_str(), OwnerId::current()));
            }
            other => panic!("{other}"),
        }
    }
    assert!(reading.is_valid());
    assert_eq!(children(&client, &path).await, [reading.node().name()]);

    // Another owner is not refused: it would wait.
    let owner = OwnerId::new();
    assert!(lock.write().try_acquire_as(&owner).await.unwrap().is_none());
    // After the reader's release, the write lock is free.
    reading.release().await.unwrap();
    soon(lock.write().acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    queue_of(&client, &path, 0).await;
}

/// Two futures of one task have the same owner: in either order, neither waits for the other
/// forever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joined_read_and_write_acquires_of_one_task_do_not_wait_for_each_other() {
    let client = client().await;
    let path = path("upgrade-joined");
    let lock = lock(&client, &path);
    let (read, write) =
        soon(async { tokio::join!(lock.read().acquire(), lock.write().acquire()) }).await;
    assert!(
        matches!(write, Err(Error::UpgradeRefused { .. })),
        "{write:?}"
    );
    read.unwrap().release().await.unwrap();
    queue_of(&client, &path, 0).await;

    let (write, read) =
        soon(async { tokio::join!(lock.write().acquire(), lock.read().acquire()) }).await;
    let write = write.unwrap();
    let read = read.unwrap();
    assert_eq!(children(&client, &path).await.len(), 2);
    write.release().await.unwrap();
    read.release().await.unwrap();
    queue_of(&client, &path, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_side_lists_its_participants_and_the_lock_lists_both() {
    use ParticipantKind::{Read, Write};
    let client = client().await;
    let path = path("read-write-participants");
    let lock = lock(&client, &path);
    let writing = lock.write().acquire().await.unwrap();
    let _reading = lock.read().acquire().await.unwrap();
    let mut waiting = Vec::new();
    for (place, read) in [true, false, true].into_iter().enumerate() {
        let lock = lock.clone();
        waiting.push(tokio::spawn(async move {
            if read {
                lock.read().acquire().await.unwrap()
            } else {
                lock.write().acquire().await.unwrap().into()
            }
        }));
        queue_of(&client, &path, place + 3).await;
    }
    let kinds = |all: &[Participant]| {
        all.iter()
            .map(|each| (each.kind, each.owns))
            .collect::<Vec<_>>()
    };
    let mut all = lock.participants().await.unwrap();
    // The two nodes of one holder have the same number, so their order is undefined.
    all[..2].sort_by_key(|each| each.kind == Read);
    assert_eq!(
        kinds(&all),
        [
            (Write, true),
            (Read, true),
            (Read, false),
            (Write, false),
            (Read, false)
        ]
    );
    for (side, kind) in [
        (lock.read().participants().await, Read),
        (lock.write().participants().await, Write),
    ] {
        let expected: Vec<_> = all
            .iter()
            .filter(|each| each.kind == kind)
            .cloned()
            .collect();
        assert_eq!(side.unwrap(), expected);
    }
    // Now two readers hold the lock, and the writer and the reader behind it wait.
    writing.release().await.unwrap();
    let _second = soon(&mut waiting[0]).await.unwrap();
    let all = lock.participants().await.unwrap();
    assert_eq!(
        kinds(&all),
        [(Read, true), (Read, true), (Write, false), (Read, false)]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_of_one_client_enter_a_free_lock_sixteen_at_a_time() {
    let (proxy, readers) = behind_proxy().await;
    let other = client().await;
    let path = path("sixteen-readers");
    let lock = InterProcessReadWriteLock::non_reentrant(&readers, &path).unwrap();
    lock.read()
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    proxy.reset_counts();
    proxy.hold_replies(OpCode::Create2);
    let reading: Vec<_> = std::iter::repeat_n(lock, 20)
        .map(|lock| tokio::spawn(async move { lock.read().acquire().await }))
        .collect();
    until(async || proxy.requests().get(&OpCode::Create2) == Some(&16)).await;
    // A further create would arrive within these round trips.
    round_trips(&other).await;
    assert_eq!(proxy.requests()[&OpCode::Create2], 16);
    proxy.release_held();
    for guard in soon(join_all(reading)).await {
        assert!(guard.unwrap().unwrap().is_valid());
    }
}
