//! Sessions of another client and of ours take one lock by turns, at random moments.

use std::sync::Arc;

use curator_recipes::{InterProcessLock, LockGuard, client::CuratorClient};
use curator_test::{DEFAULT_TIMEOUT, TestingServer, soon, unique_path, until};
use tokio::task::JoinHandle;

use crate::{
    numbers::Numbers,
    ours::{children, client},
    seed,
};

/// Sessions of each of the two clients.
const SESSIONS: usize = 4;

/// Creates our side of a lock for a session.
pub(crate) type Ours = fn(&CuratorClient, &str) -> Arc<dyn InterProcessLock>;

/// Holds a lock until all sessions contend for it, so that none finishes before another has begun.
pub(crate) struct StartBarrier {
    client: CuratorClient,
    guard: LockGuard,
    queues: Vec<String>,
    nodes: usize,
}

impl StartBarrier {
    /// Acquires the lock. [`release_when_queued`](Self::release_when_queued) releases it when the queues have this many
    /// nodes in total, including the node of this lock if it is in a queue.
    pub(crate) async fn hold(
        lock: impl Fn(&CuratorClient, &str) -> Arc<dyn InterProcessLock>,
        path: &str,
        queues: &[&str],
        nodes: usize,
    ) -> Self {
        let client = client(TestingServer::shared().await).await;
        let guard = lock(&client, path).acquire().await.unwrap();
        Self { client, guard, queues: queues.iter().map(ToString::to_string).collect(), nodes }
    }

    async fn release_when_queued(self) {
        until(async || {
            let mut seen = 0;
            for queue in &self.queues {
                seen += children(&self.client, queue).await.len();
            }
            seen == self.nodes
        })
        .await;
        self.guard.release().await.unwrap();
    }
}

/// Lets four sessions of each client contend for a lock, and checks that they hold it exclusively.
///
/// Each holder appends the creation zxid of its node to a log: it reads the log, and writes it without a version check.
/// Concurrent holders would be detected, as one of the two writes is lost. Returns the log's entries.
///
/// `theirs` starts a session of the other client, with the log's path and a seed; `ours` starts one of ours. Both get
/// the number of the session, and return how often the session has written.
pub(crate) async fn take_turns(
    barrier: StartBarrier,
    theirs: impl Fn(usize, &str, u64) -> JoinHandle<usize>,
    ours: impl Fn(usize, CuratorClient, String, Numbers) -> JoinHandle<usize>,
) -> Vec<i64> {
    let (server, log, mut seeds) = (TestingServer::shared().await, unique_path("log"), seed());
    let client_of_log = client(server).await;
    client_of_log.create().for_path(&log, "").await.unwrap();
    // The shift clears the top bit: Java and Go parse the seed as a signed number of 64 bits.
    let mut sessions: Vec<_> = (0..SESSIONS).map(|number| theirs(number, &log, seeds.next() >> 1)).collect();
    for number in 0..SESSIONS {
        sessions.push(ours(number, client(server).await, log.clone(), Numbers(seeds.next())));
    }
    barrier.release_when_queued().await;
    let mut writes = 0;
    for session in sessions {
        writes += soon(session).await.unwrap();
    }
    let written = read(&client_of_log, &log).await;
    let turns: Vec<i64> = written.split_whitespace().map(|turn| turn.parse().unwrap()).collect();
    assert_eq!(turns.len(), writes, "two holders wrote concurrently: {written}");
    turns
}

/// Asserts that the sessions held the lock in the order in which the server created their nodes.
pub(crate) fn assert_in_order(turns: &[i64]) {
    assert!(turns.is_sorted_by(|one, next| one < next), "a contender was overtaken: {turns:?}");
}

/// The work of one of our sessions with an exclusive lock.
pub(crate) async fn cycles(
    count: usize,
    client: CuratorClient,
    lock: Arc<dyn InterProcessLock>,
    log: String,
    mut numbers: Numbers,
) -> usize {
    for _ in 0..count {
        round_trips(&client, numbers.below(8)).await;
        let guard = lock.acquire_timeout(DEFAULT_TIMEOUT).await.unwrap().expect("the lock has not become free");
        write(&client, &guard, &log, &mut numbers).await;
        guard.release().await.unwrap();
    }
    count
}

/// Appends the token of the guard to the log: a read, some round trips, and a write.
pub(crate) async fn write(client: &CuratorClient, guard: &LockGuard, log: &str, numbers: &mut Numbers) {
    let before = read(client, log).await;
    round_trips(client, numbers.below(3)).await;
    client.set_data(log, format!("{before} {}", guard.fencing_token()), None).await.unwrap();
}

pub(crate) async fn read(client: &CuratorClient, log: &str) -> String {
    String::from_utf8(client.get_data(log).await.unwrap().0).unwrap()
}

pub(crate) async fn round_trips(client: &CuratorClient, number: usize) {
    for _ in 0..number {
        client.check_exists("/").await.unwrap();
    }
}
