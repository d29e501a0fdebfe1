//! Lets sessions of another client and of ours take turns with one lock, after random pauses.

use std::sync::Arc;

use curator_recipes::{InterProcessLock, LockGuard, client::CuratorClient};
use curator_test::{DEFAULT_TIMEOUT, TestingServer, soon, unique_path, until};
use tokio::task::JoinHandle;

use crate::{
    numbers::Numbers,
    ours::{children, client},
    seed,
};

/// The number of sessions of each of the two clients.
const SESSIONS: usize = 4;

/// Creates our lock on a path that is shared with another client.
pub(crate) type Ours = fn(&CuratorClient, &str) -> Arc<dyn InterProcessLock>;

/// Lets four sessions of each client contend for a lock, and checks that they hold it exclusively,
/// in the order in which the server has created their nodes.
///
/// Each holder appends the creation zxid of its node to a log: it reads the log, and writes it
/// without a version check. Concurrent holders would be detected, because one of the two writes
/// would be lost.
///
/// `theirs` starts a session of the other client, given the number of the session, the path of the
/// log and a seed. `ours` starts the work of one of our clients. The tasks of both return how often
/// they have written.
pub(crate) async fn take_turns(
    lock: impl Fn(&CuratorClient, &str) -> Arc<dyn InterProcessLock>,
    path: &str,
    theirs: impl Fn(usize, &str, u64) -> JoinHandle<usize>,
    ours: impl Fn(CuratorClient, String, Numbers) -> JoinHandle<usize>,
) {
    let server = TestingServer::shared().await;
    let log = unique_path("log");
    let mut seeds = seed();
    let first = client(server).await;
    first.create().for_path(&log, "").await.unwrap();
    let guard = lock(&first, path).acquire().await.unwrap();
    // The shift clears the top bit: Java and Go parse the seed as a signed number of 64 bits.
    let mut sessions: Vec<_> = (0..SESSIONS)
        .map(|number| theirs(number, &log, seeds.next() >> 1))
        .collect();
    for _ in 0..SESSIONS {
        sessions.push(ours(
            client(server).await,
            log.clone(),
            Numbers(seeds.next()),
        ));
    }
    // All sessions are queued before the first of them acquires the lock.
    until(async || children(&first, path).await.len() == 1 + 2 * SESSIONS).await;
    guard.release().await.unwrap();
    let mut writes = 0;
    for session in sessions {
        writes += soon(session).await.unwrap();
    }
    let written = read(&first, &log).await;
    let turns: Vec<i64> = written
        .split_whitespace()
        .map(|turn| turn.parse().unwrap())
        .collect();
    assert_eq!(
        turns.len(),
        writes,
        "two holders wrote concurrently: {written}"
    );
    assert!(
        turns.is_sorted_by(|one, next| one < next),
        "a contender was overtaken: {turns:?}"
    );
}

/// Acquires an exclusive lock `count` times, and writes to the log each time. Returns `count`.
pub(crate) async fn cycles(
    count: usize,
    client: CuratorClient,
    lock: Arc<dyn InterProcessLock>,
    log: String,
    mut numbers: Numbers,
) -> usize {
    for _ in 0..count {
        round_trips(&client, numbers.below(8)).await;
        let guard = lock
            .acquire_timeout(DEFAULT_TIMEOUT)
            .await
            .unwrap()
            .expect("the lock has not become free");
        write(&client, &guard, &log, &mut numbers).await;
        guard.release().await.unwrap();
    }
    count
}

/// Appends the token of the guard to the log: a read, some round trips, and a write.
pub(crate) async fn write(
    client: &CuratorClient,
    guard: &LockGuard,
    log: &str,
    numbers: &mut Numbers,
) {
    let before = read(client, log).await;
    round_trips(client, numbers.below(3)).await;
    client
        .set_data(log, format!("{before} {}", guard.fencing_token()), None)
        .await
        .unwrap();
}

pub(crate) async fn read(client: &CuratorClient, log: &str) -> String {
    String::from_utf8(client.get_data(log).await.unwrap().0).unwrap()
}

pub(crate) async fn round_trips(client: &CuratorClient, number: usize) {
    for _ in 0..number {
        client.check_exists("/").await.unwrap();
    }
}
