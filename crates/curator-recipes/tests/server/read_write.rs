//! Readers together, a writer alone, in the order of their coming.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::{CuratorClient, ZPath};
use curator_recipes::{Error, InterProcessReadWriteLock, OwnerId, Participant, ParticipantKind};
use curator_test::OpCode;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::support::{
    DEFAULT_TIMEOUT, Witness, behind_proxy, children, client, path, queue_of, read_write as lock, soon, still_waits,
    without_probes,
};

/// Work that takes some round trips, in which somebody who should not be there would show.
async fn work(client: &CuratorClient) {
    for _ in 0..3 {
        client.check_exists("/").await.unwrap();
    }
}

/// Readers that come one after another, with no writer between.
struct Group {
    size: usize,
    /// Whoever is in it has come after so many others.
    after: usize,
    all: Barrier,
}

async fn read(who: usize, lock: InterProcessReadWriteLock, client: CuratorClient, witness: Witness, group: Arc<Group>) {
    let guard = soon(lock.read().acquire()).await.unwrap();
    witness.enter(who, true, &guard);
    // If one of the group had to wait for another one's release, this would last for ever.
    soon(group.all.wait()).await;
    assert!(guard.is_valid());
    let finished = witness.left();
    assert!((group.after..group.after + group.size).contains(&finished), "{finished} before group {}", group.after);
    work(&client).await;
    witness.leave(true);
    guard.release().await.unwrap();
    // And once more, in any order.
    let guard = soon(lock.read().acquire()).await.unwrap();
    witness.enter(who, true, &guard);
    work(&client).await;
    witness.leave(true);
    guard.release().await.unwrap();
}

async fn write(who: usize, lock: InterProcessReadWriteLock, client: CuratorClient, witness: Witness, after: usize) {
    let guard = soon(lock.write().acquire()).await.unwrap();
    witness.enter(who, false, &guard);
    assert!(guard.is_valid());
    assert_eq!(witness.left(), after, "it was passed, or has passed somebody");
    work(&client).await;
    witness.leave(false);
    guard.release().await.unwrap();
    let guard = soon(lock.write().acquire()).await.unwrap();
    witness.enter(who, false, &guard);
    work(&client).await;
    witness.leave(false);
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_readers_and_eight_writers_never_overlap_and_readers_do() {
    const GROUPS: [usize; 8] = [2, 3, 2, 3, 2, 3, 2, 3];
    let (first, path) = (client().await, path("readers-writers"));
    let mut sessions = Vec::new();
    for _ in 0..10 {
        sessions.push(client().await);
    }
    let mut sessions = sessions.iter().cycle();
    let witness = Witness::default();
    let guard = lock(&first, &path).write().acquire().await.unwrap();
    let mut contenders = JoinSet::new();
    let mut queued = 0;
    for size in GROUPS {
        let group = Arc::new(Group { size, after: queued, all: Barrier::new(size) });
        for _ in 0..size {
            let client = sessions.next().unwrap().clone();
            contenders.spawn(read(queued, lock(&client, &path), client, witness.clone(), Arc::clone(&group)));
            queued += 1;
            queue_of(&first, &path, queued + 1).await;
        }
        let client = sessions.next().unwrap().clone();
        contenders.spawn(write(queued, lock(&client, &path), client, witness.clone(), queued));
        queued += 1;
        queue_of(&first, &path, queued + 1).await;
    }
    assert_eq!(queued, 20 + 8);
    assert_eq!(witness.left(), 0, "somebody did not wait");
    guard.release().await.unwrap();
    soon(contenders.join_all()).await;
    assert_eq!(witness.left(), 2 * 28);
    let most = witness.most_sharing();
    assert!(most >= 3, "at most {most} readers at once");
    queue_of(&first, &path, 0).await;
}

/// What another session can have now: to read, to write.
async fn free_for(other: &InterProcessReadWriteLock) -> [bool; 2] {
    let owner = OwnerId::new();
    let read = other.read().try_acquire_as(&owner).await.unwrap();
    let can_read = read.is_some();
    if let Some(guard) = read {
        guard.release().await.unwrap();
    }
    let write = other.write().try_acquire_as(&owner).await.unwrap();
    let can_write = write.is_some();
    if let Some(guard) = write {
        guard.release().await.unwrap();
    }
    [can_read, can_write]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_reads_too_lets_readers_in_when_it_writes_no_more() {
    let (holder, other, path) = (client().await, client().await, path("write-read"));
    let (holding, wanted) = (lock(&holder, &path), lock(&other, &path));
    assert_eq!(free_for(&wanted).await, [true, true]);
    let writing = holding.write().acquire().await.unwrap();
    assert_eq!(free_for(&wanted).await, [false, false]);
    let reading = holding.read().acquire().await.unwrap();
    assert_eq!(reading.fencing_token(), writing.fencing_token());
    assert!(holding.read().is_owned_by_current() && holding.write().is_owned_by_current());
    assert_eq!(free_for(&wanted).await, [false, false]);
    writing.release().await.unwrap();
    assert!(holding.read().is_owned_by_current() && !holding.write().is_owned_by_current());
    assert!(reading.is_valid());
    assert_eq!(free_for(&wanted).await, [true, false]);
    reading.release().await.unwrap();
    assert_eq!(free_for(&wanted).await, [true, true]);

    // In the other order of the releases.
    let writing = holding.write().acquire().await.unwrap();
    let reading = holding.read().acquire().await.unwrap();
    reading.release().await.unwrap();
    assert!(!holding.read().is_acquired_in_this_process());
    assert_eq!(free_for(&wanted).await, [false, false]);
    writing.release().await.unwrap();
    assert_eq!(free_for(&wanted).await, [true, true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_sides_are_reentrant_and_free_only_after_the_last_release() {
    let (holder, other, path) = (client().await, client().await, path("read-write-again"));
    let (holding, wanted) = (lock(&holder, &path), lock(&other, &path));
    let writing = [holding.write().acquire().await.unwrap(), holding.write().try_acquire().await.unwrap().unwrap()];
    let reading = [holding.read().acquire().await.unwrap(), holding.read().try_acquire().await.unwrap().unwrap()];
    // One node for each side, however often it was entered.
    assert_eq!(children(&holder, &path).await.len(), 2);
    for guard in writing {
        assert_eq!(free_for(&wanted).await, [false, false]);
        guard.release().await.unwrap();
    }
    for guard in reading {
        assert_eq!(free_for(&wanted).await, [true, false]);
        guard.release().await.unwrap();
    }
    assert_eq!(free_for(&wanted).await, [true, true]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upgrade_is_refused_at_once_in_every_way_to_ask_for_it() {
    let (client, path) = (client().await, path("upgrade"));
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

    // Another owner is not refused: it waits.
    let owner = OwnerId::new();
    assert!(lock.write().try_acquire_as(&owner).await.unwrap().is_none());
    let waiting = tokio::spawn({
        let (lock, owner) = (lock.clone(), owner.clone());
        async move { lock.write().acquire_as(&owner).await.unwrap() }
    });
    queue_of(&client, &path, 2).await;
    assert!(still_waits(&waiting, &client).await);
    reading.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();

    // Who reads no more may write.
    soon(lock.write().acquire()).await.unwrap().release().await.unwrap();
    queue_of(&client, &path, 0).await;
}

/// Two futures of one task are one owner, and whichever comes first, none waits for the other for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_and_writing_joined_in_one_task_wait_for_nothing() {
    let (client, path) = (client().await, path("upgrade-joined"));
    let lock = lock(&client, &path);
    let (read, write) = soon(async { tokio::join!(lock.read().acquire(), lock.write().acquire()) }).await;
    assert!(matches!(write, Err(Error::UpgradeRefused { .. })), "{write:?}");
    read.unwrap().release().await.unwrap();
    queue_of(&client, &path, 0).await;

    let (write, read) = soon(async { tokio::join!(lock.write().acquire(), lock.read().acquire()) }).await;
    let (write, read) = (write.unwrap(), read.unwrap());
    assert_eq!(children(&client, &path).await.len(), 2);
    write.release().await.unwrap();
    read.release().await.unwrap();
    queue_of(&client, &path, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_behind_three_writers_is_woken_once() {
    let (first, path) = (client().await, path("woken-once"));
    let mut guard = lock(&first, &path).write().acquire().await.unwrap();
    let mut writers = Vec::new();
    for place in 0..2 {
        let writer = client().await;
        let lock = lock(&writer, &path);
        writers.push(tokio::spawn(async move { lock.write().acquire().await.unwrap() }));
        queue_of(&first, &path, place + 2).await;
    }
    let (proxy, reader) = behind_proxy().await;
    let reading = tokio::spawn({
        let lock = lock(&reader, &path);
        async move { lock.read().acquire().await.unwrap() }
    });
    proxy.wait_for_reply(OpCode::GetData, 1).await.unwrap();
    let waiting = BTreeMap::from([(OpCode::Create2, 1), (OpCode::GetChildren, 1), (OpCode::GetData, 1)]);
    for writer in writers {
        guard.release().await.unwrap();
        guard = soon(writer).await.unwrap();
        assert!(still_waits(&reading, &reader).await);
        let mut requests = without_probes(&proxy);
        requests.remove(&OpCode::Exists);
        assert_eq!(requests, waiting, "the reader was woken by a writer that it does not wait for");
    }
    guard.release().await.unwrap();
    let guard = soon(reading).await.unwrap();
    let mut requests = without_probes(&proxy);
    requests.remove(&OpCode::Exists);
    let woken = BTreeMap::from([(OpCode::Create2, 1), (OpCode::GetChildren, 2), (OpCode::GetData, 1)]);
    assert_eq!(requests, woken);
    guard.release().await.unwrap();
}

fn told(participants: &[Participant]) -> Vec<(&ZPath, ParticipantKind, bool)> {
    participants.iter().map(|each| (&each.path, each.kind, each.owns)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn participants_are_told_of_each_side_and_of_both() {
    use ParticipantKind::{Read, Write};
    let (first, path) = (client().await, path("read-write-participants"));
    let lock = lock(&first, &path).with_lock_data(*b"the data");
    assert_eq!(lock.participants().await.unwrap(), []);
    let spawn = |read: bool| {
        let lock = lock.clone();
        tokio::spawn(async move {
            if read { lock.read().acquire().await.unwrap() } else { lock.write().acquire().await.unwrap().into() }
        })
    };
    let writing = lock.write().acquire().await.unwrap();
    let reading = lock.read().acquire().await.unwrap();
    let mut waiting = Vec::new();
    for (place, read) in [true, true, false, true].into_iter().enumerate() {
        waiting.push(spawn(read));
        queue_of(&first, &path, place + 3).await;
    }
    let all = lock.participants().await.unwrap();
    assert!(all.iter().all(|each| each.session_id == writing.session_id() && each.data == b"the data"), "{all:?}");
    // The two nodes of one holder have one number, and no order.
    let (mut holders, waiters) = (told(&all[..2]), told(&all[2..]));
    holders.sort_by_key(|(_, kind, _)| *kind != Write);
    assert_eq!(holders, [(writing.node(), Write, true), (reading.node(), Read, true)]);
    let waiters: Vec<_> = waiters.iter().map(|(_, kind, owns)| (*kind, *owns)).collect();
    assert_eq!(waiters, [(Read, false), (Read, false), (Write, false), (Read, false)]);
    for (side, kind) in [(lock.read().participants().await, Read), (lock.write().participants().await, Write)] {
        let expected: Vec<_> = all.iter().filter(|each| each.kind == kind).cloned().collect();
        assert_eq!(side.unwrap(), expected);
    }

    // Now three readers own, and the writer and the reader behind it wait.
    writing.release().await.unwrap();
    let mut readers = vec![reading];
    for reader in waiting.drain(..2) {
        readers.push(soon(reader).await.unwrap());
    }
    let all = lock.participants().await.unwrap();
    let kinds: Vec<_> = told(&all).iter().map(|(_, kind, owns)| (*kind, *owns)).collect();
    assert_eq!(kinds, [(Read, true), (Read, true), (Read, true), (Write, false), (Read, false)]);
    for reader in readers {
        reader.release().await.unwrap();
    }
    for waiter in waiting {
        soon(waiter).await.unwrap().release().await.unwrap();
    }
    assert_eq!(lock.participants().await.unwrap(), []);
}
