//! Curator's `InterProcessReadWriteLock` and ours on one path.

use std::sync::Arc;

use curator_recipes::{
    InterProcessLock, InterProcessReadWriteLock, LockGuard, client::CuratorClient,
};
use curator_test::{DEFAULT_TIMEOUT, soon, unique_path};
use tokio::task::JoinHandle;

use super::{
    java::java,
    kinds::Side,
    stage::{
        CYCLES, id, java_turns, ours, until_children, until_waits, until_watches, waiting,
        waiting_for,
    },
};
use crate::{
    numbers::Numbers,
    still_waits::still_waits,
    turns::{self, read, round_trips, take_turns},
};

/// The exclusive side of the lock.
pub(super) fn write(client: &CuratorClient, path: &str) -> Arc<dyn InterProcessLock> {
    Arc::new(lock(client, path).write().clone())
}

fn lock(client: &CuratorClient, path: &str) -> InterProcessReadWriteLock {
    InterProcessReadWriteLock::new(client, path).unwrap()
}

/// A task that waits for the shared side of the lock.
fn waiting_to_read(client: &CuratorClient, path: &str) -> JoinHandle<LockGuard> {
    waiting(Side::Reader.acquire(client.clone(), path.to_owned()))
}

#[tokio::test]
async fn eight_sessions_that_read_and_write_never_hold_the_lock_beside_a_writer() {
    let path = unique_path("read-write");
    take_turns(
        write,
        &path,
        |_, log, seed| java_turns(format!("read-write-cycles {path} {log} {CYCLES} {seed}")),
        |client, log, numbers| {
            let lock = lock(&client, &path);
            tokio::spawn(read_and_write(client, lock, log, numbers))
        },
    )
    .await;
}

/// Reads or writes in each cycle. Returns how often it has written.
async fn read_and_write(
    client: CuratorClient,
    lock: InterProcessReadWriteLock,
    log: String,
    mut numbers: Numbers,
) -> usize {
    let mut writes = 0;
    for _ in 0..CYCLES {
        round_trips(&client, numbers.below(8)).await;
        if numbers.below(2) == 0 {
            let guard = lock
                .write()
                .acquire_timeout(DEFAULT_TIMEOUT)
                .await
                .unwrap()
                .expect("the lock has not become free");
            turns::write(&client, &guard, &log, &mut numbers).await;
            guard.release().await.unwrap();
            writes += 1;
            continue;
        }
        let guard = lock
            .read()
            .acquire_timeout(DEFAULT_TIMEOUT)
            .await
            .unwrap()
            .expect("the lock has not become free");
        let before = read(&client, &log).await;
        round_trips(&client, 1 + numbers.below(3)).await;
        assert_eq!(
            read(&client, &log).await,
            before,
            "a writer wrote while a reader held the lock"
        );
        guard.release().await.unwrap();
    }
    writes
}

#[tokio::test]
async fn a_reader_does_not_overtake_a_writer_of_the_other_language() {
    let client = ours().await;
    let other = ours().await;
    let path = unique_path("read-write");
    let mut writer = java().await;
    let mut reader = java().await;
    let guard = soon(waiting_to_read(&client, &path)).await.unwrap();
    writer.send(&format!("acquire write {path}"));
    until_waits(&path, writer.id()).await;
    let our_reader = waiting_to_read(&other, &path);
    reader.send(&format!("acquire read {path}"));
    until_waits(&path, reader.id()).await;
    until_waits(&path, id(&other)).await;
    assert!(
        writer.still_waits().await
            && reader.still_waits().await
            && still_waits(&our_reader, &other).await
    );
    guard.release().await.unwrap();
    assert_eq!(writer.answer().await, "ok true");
    assert!(reader.still_waits().await && still_waits(&our_reader, &other).await);
    // Now both readers hold the lock. Then our writer waits for Java's reader.
    assert_eq!(writer.ask(&format!("release write {path}")).await, "ok");
    assert_eq!(reader.answer().await, "ok true");
    let guard = soon(our_reader).await.unwrap();
    let our_writer = waiting_for(&write(&client, &path));
    until_waits(&path, id(&client)).await;
    guard.release().await.unwrap();
    assert!(still_waits(&our_writer, &client).await);
    assert_eq!(reader.ask(&format!("release read {path}")).await, "ok");
    soon(our_writer).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_java_writer_that_downgrades_keeps_our_writer_out() {
    let client = ours().await;
    let reading = ours().await;
    let mut java = java().await;
    let path = unique_path("downgrade");
    assert_eq!(java.ask(&format!("acquire write {path}")).await, "ok true");
    let writer = waiting_for(&write(&client, &path));
    until_waits(&path, id(&client)).await;
    assert_eq!(java.ask(&format!("acquire read {path}")).await, "ok true");
    assert_eq!(java.ask(&format!("release write {path}")).await, "ok");
    assert!(still_waits(&writer, &client).await);
    // A new reader does not overtake the writer.
    assert!(
        lock(&reading, &path)
            .read()
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(java.ask(&format!("release read {path}")).await, "ok");
    let guard = soon(writer).await.unwrap();
    guard.release().await.unwrap();
    until_children(&client, &path, 0).await;
}

#[tokio::test]
async fn our_writer_that_downgrades_keeps_javas_writer_out() {
    let client = ours().await;
    let mut reader = java().await;
    let mut java = java().await;
    let path = unique_path("downgrade");
    let guard = lock(&client, &path).write().acquire().await.unwrap();
    java.send(&format!("acquire write {path}"));
    until_waits(&path, java.id()).await;
    let guard = guard.downgrade().await.unwrap();
    // Java has detected that our write node is gone, and found our read node.
    until_watches(guard.node().as_str(), java.id()).await;
    assert!(java.still_waits().await);
    reader.send(&format!("acquire read {path}"));
    until_waits(&path, reader.id()).await;
    assert!(reader.still_waits().await && guard.is_valid());
    guard.release().await.unwrap();
    assert_eq!(java.answer().await, "ok true");
    assert!(reader.still_waits().await);
    assert_eq!(java.ask(&format!("release write {path}")).await, "ok");
    assert_eq!(reader.answer().await, "ok true");
    assert_eq!(reader.ask(&format!("release read {path}")).await, "ok");
}

#[tokio::test]
async fn readers_of_the_other_language_share_the_lock_with_a_downgraded_writer() {
    let client = ours().await;
    let mut java = java().await;
    let path = unique_path("downgrade");
    let guard = lock(&client, &path)
        .write()
        .acquire()
        .await
        .unwrap()
        .downgrade()
        .await
        .unwrap();
    assert_eq!(java.ask(&format!("acquire read {path}")).await, "ok true");
    guard.release().await.unwrap();
    assert_eq!(java.ask(&format!("release read {path}")).await, "ok");
    for command in ["acquire write", "acquire read", "release write"] {
        assert!(
            java.ask(&format!("{command} {path}"))
                .await
                .starts_with("ok")
        );
    }
    let guard = lock(&client, &path)
        .read()
        .try_acquire()
        .await
        .unwrap()
        .expect("readers share");
    guard.release().await.unwrap();
    assert_eq!(java.ask(&format!("release read {path}")).await, "ok");
}

#[tokio::test]
async fn both_languages_list_the_same_readers_and_writers_in_the_same_order() {
    let client = ours().await;
    let other = ours().await;
    let mut java = java().await;
    let path = unique_path("read-write");
    let our_lock = lock(&client, &path);
    let guard = soon(waiting_to_read(&client, &path)).await.unwrap();
    assert_eq!(java.ask(&format!("acquire read {path}")).await, "ok true");
    let writer = waiting_for(&write(&other, &path));
    until_waits(&path, id(&other)).await;
    let names = |participants: Vec<curator_recipes::Participant>| -> Vec<String> {
        participants
            .into_iter()
            .map(|participant| participant.path.name().to_owned())
            .collect()
    };
    let all = our_lock.participants().await.unwrap();
    assert_eq!(
        all.iter()
            .map(|participant| participant.owns)
            .collect::<Vec<_>>(),
        [true, true, false]
    );
    assert_eq!(
        all.iter()
            .map(|participant| participant.session_id)
            .collect::<Vec<_>>(),
        [id(&client), java.id(), id(&other)]
    );
    let readers = names(our_lock.read().participants().await.unwrap());
    assert_eq!(
        java.tell(&format!("participants read {path}")).await,
        readers
    );
    let writers = names(our_lock.write().participants().await.unwrap());
    assert_eq!(
        java.tell(&format!("participants write {path}")).await,
        writers
    );
    assert_eq!(names(all), [readers, writers].concat());
    guard.release().await.unwrap();
    assert_eq!(java.ask(&format!("release read {path}")).await, "ok");
    soon(writer).await.unwrap().release().await.unwrap();
}
