//! Sessions of both languages that take a lock again and again, and notice if they are not alone.

use std::sync::Arc;

use curator_recipes::{
    InterProcessLock, LockGuard,
    client::{CreateMode, CuratorClient},
};
use curator_test::{DEFAULT_TIMEOUT, soon, unique_path, until};

use super::{
    java::{JavaSession, java},
    stage::{children, ours},
};
use crate::{numbers::Numbers, seed};

/// How often each session takes the lock.
pub(super) const CYCLES: usize = 8;

/// A number that only holders raise, each by a read and a write that would lose what another holder writes at the same time.
/// Below it is a log, with an entry of each holder.
pub(super) struct Counter {
    pub(super) path: String,
    client: CuratorClient,
}

/// A holder, as it writes itself down.
struct Entry {
    /// The transaction that has made its node, if that is known.
    czxid: i64,
    /// Its node, or the session's name.
    name: String,
}

impl Entry {
    /// As the server counts the nodes of a directory.
    fn sequence(&self) -> i32 {
        self.name[self.name.len() - 10..].parse().unwrap()
    }
}

impl Counter {
    pub(super) async fn new() -> Self {
        let (client, path) = (ours().await, unique_path("counter"));
        client.create().for_path(&path, "0").await.unwrap();
        Self { path, client }
    }

    /// Nothing of what so many holders have written is lost.
    pub(super) async fn is(&self, holders: usize) {
        assert_eq!(read(&self.client, &self.path).await, holders as u64);
    }

    /// Nothing of what those in the log have written is lost.
    pub(super) async fn counts_its_log(&self) {
        self.is(self.log().await.len()).await;
    }

    /// All of them have held in the order in which the server has made their nodes.
    pub(super) async fn is_in_order(&self) {
        let log = self.log().await;
        for (one, next) in log.iter().zip(&log[1..]) {
            assert!(one.sequence() < next.sequence(), "{} held before {}", one.name, next.name);
            assert!(one.czxid < next.czxid, "{} held before {}", one.name, next.name);
        }
    }

    async fn log(&self) -> Vec<Entry> {
        let mut names = children(&self.client, &self.path).await;
        names.sort_unstable();
        let mut log = Vec::new();
        for name in names {
            let (data, _) = self.client.get_data(format!("{}/{name}", self.path)).await.unwrap();
            let (czxid, name) = std::str::from_utf8(&data).unwrap().split_once(' ').unwrap();
            log.push(Entry { czxid: czxid.parse().unwrap(), name: name.to_owned() });
        }
        log
    }

    pub(super) async fn close(self) {
        self.client.close().await.unwrap();
    }
}

/// What our side of a lock is, made for a session.
pub(super) type Ours = fn(&CuratorClient, &str) -> Arc<dyn InterProcessLock>;

/// Keeps all sessions out until each of them contends.
pub(super) struct Gate {
    client: CuratorClient,
    guard: LockGuard,
}

impl Gate {
    /// Holds this lock.
    pub(super) async fn shut(lock: Ours, path: &str) -> Self {
        let client = ours().await;
        let guard = lock(&client, path).acquire().await.unwrap();
        Self { client, guard }
    }

    /// Lets them in, when there are so many nodes in these queues, its own among them.
    pub(super) async fn open(self, queues: &[&str], nodes: usize) {
        until(async || {
            let mut seen = 0;
            for queue in queues {
                seen += children(&self.client, queue).await.len();
            }
            seen == nodes
        })
        .await;
        self.guard.release().await.unwrap();
        self.client.close().await.unwrap();
    }
}

/// Four sessions of each language take a lock by turns, in a random order. The first of each language takes the first path or
/// paths, and so on, in turn; without any of ours, there are only Java's sessions. The gate opens when there are so many nodes
/// in these queues.
pub(super) async fn four_of_each(
    kind: &str,
    java_paths: &[&str],
    our_locks: &[(&str, Ours)],
    (gate, queues, nodes): (Gate, &[&str], usize),
) -> Counter {
    let (counter, mut seeds) = (Counter::new().await, seed());
    let mut sessions: Vec<(JavaSession, String)> = Vec::new();
    for path in java_paths.iter().cycle().take(4) {
        // Java's numbers have a sign.
        let seed = seeds.next() >> 1;
        sessions.push((java().await, format!("cycles {kind} {path} {CYCLES} {} {seed}", counter.path)));
    }
    let mut tasks = Vec::new();
    for (paths, make) in our_locks.iter().cycle().take(4) {
        let client = ours().await;
        let lock = make(&client, paths);
        tasks.push(tokio::spawn(cycles(client, lock, counter.path.clone(), Numbers(seeds.next()))));
    }
    sessions.iter().for_each(|(session, command)| session.send(command));
    gate.open(queues, nodes).await;
    let holders = (sessions.len() + tasks.len()) * CYCLES;
    for task in tasks {
        soon(task).await.unwrap();
    }
    for (mut session, _) in sessions {
        assert_eq!(session.answer().await, "ok");
        session.close().await;
    }
    counter.is(holders).await;
    counter
}

async fn cycles(client: CuratorClient, lock: Arc<dyn InterProcessLock>, counter: String, mut numbers: Numbers) {
    for _ in 0..CYCLES {
        round_trips(&client, numbers.below(8)).await;
        let guard = lock.acquire_timeout(DEFAULT_TIMEOUT).await.unwrap().expect("the lock has not become free");
        hold(&client, &guard, &counter, &mut numbers).await;
        guard.release().await.unwrap();
    }
    client.close().await.unwrap();
}

/// What a holder does with the counter.
pub(super) async fn hold(client: &CuratorClient, guard: &LockGuard, counter: &str, numbers: &mut Numbers) {
    let number = read(client, counter).await;
    round_trips(client, numbers.below(3)).await;
    let stat = client.check_exists(guard.node()).await.unwrap().expect("the node of a holder");
    let entry = format!("{} {}", stat.czxid, guard.node().name());
    let log = client.create().with_mode(CreateMode::PersistentSequential);
    log.for_path(format!("{counter}/log-"), entry).await.unwrap();
    client.set_data(counter, (number + 1).to_string(), None).await.unwrap();
}

pub(super) async fn read(client: &CuratorClient, counter: &str) -> u64 {
    let (data, _) = client.get_data(counter).await.unwrap();
    std::str::from_utf8(&data).unwrap().parse().unwrap()
}

pub(super) async fn round_trips(client: &CuratorClient, number: usize) {
    for _ in 0..number {
        client.check_exists("/").await.unwrap();
    }
}
