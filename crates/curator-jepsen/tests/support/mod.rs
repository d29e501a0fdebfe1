//! Shared by the tests: a run that consists only of workers and the store.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use curator_jepsen::checker::{FinalSets, Findings, check};
use curator_jepsen::history::{
    CACHE, CACHED, CONDUCTOR, CacheSeen, CounterSeen, Event, Outcome, What,
};
use curator_jepsen::store::Store;
use curator_jepsen::work::{AGAIN, LOOK, LockKind, Part, QUIET, Transport, Variant, Work};
use curator_jepsen::worker::cached_nodes;
use curator_jepsen::{Process, boottime_offset};
use curator_recipes::client::{self, ClockInstant, CuratorClient};
use curator_test::{FaultProxy, TestingServer, close_session, until};
use rustix::process::Signal;
use tempfile::TempDir;

/// The transport of the workers.
pub(crate) fn transport() -> Transport {
    match test_support::transport::transport() {
        client::Transport::Native => Transport::Native,
        _ => Transport::ZookeeperClient,
    }
}

/// A session timeout that every server grants, and that no test exceeds accidentally.
pub(crate) const SESSION: Duration = Duration::from_secs(30);
/// The tick of a server that grants shorter session timeouts.
pub(crate) const TICK: Duration = Duration::from_millis(100);

pub(crate) const LOCKS: [LockKind; 6] = [
    LockKind::Mutex,
    LockKind::ReadWrite,
    LockKind::Semaphore,
    LockKind::Multi,
    LockKind::LeaderLatch,
    LockKind::LeaderSelector,
];
pub(crate) const VARIANTS: [Variant; 4] = [
    Variant::Plain,
    Variant::Guarded,
    Variant::Transaction,
    Variant::Token,
];

/// A store, and a directory for the histories.
pub(crate) struct Run {
    pub(crate) store: Store,
    directory: TempDir,
    began: u64,
}

/// A worker's process and its work. Dropping it kills the process.
pub(crate) struct Worker {
    process: Process,
    history: PathBuf,
}

impl Run {
    pub(crate) async fn start() -> Self {
        let store = Store::start().await.unwrap();
        let directory = TempDir::new().unwrap();
        Self {
            store,
            directory,
            began: ClockInstant::now().as_nanos(),
        }
    }

    pub(crate) fn work(&self, worker: u32, connect_string: String, parts: &[Part]) -> Work {
        Work {
            worker,
            life: 0,
            connect_string,
            follows: false,
            session_timeout_ms: SESSION.as_millis().try_into().unwrap(),
            transport: transport(),
            store: self.store.address().to_string(),
            history: self.directory.path().join(format!("w{worker}.0.jsonl")),
            seed: u64::from(worker),
            began: self.began,
            set_ms: 500,
            think_ms: 4,
            boottime_offset: boottime_offset(),
            parts: parts.to_vec(),
            cached: None,
            counters: false,
            services: false,
            shards: 0,
        }
    }

    /// Like [`work`](Self::work), with a cache.
    pub(crate) fn work_with_cache(
        &self,
        worker: u32,
        connect_string: String,
        parts: &[Part],
    ) -> Work {
        Work {
            cached: Some(CACHED.to_owned()),
            ..self.work(worker, connect_string, parts)
        }
    }

    /// Starts one of our workers.
    pub(crate) fn worker(&self, worker: u32, connect_string: String, parts: &[Part]) -> Worker {
        self.start_worker(&self.work(worker, connect_string, parts))
    }

    pub(crate) fn start_worker(&self, work: &Work) -> Worker {
        let mut command = Command::new(env!("CARGO_BIN_EXE_curator-jepsen"));
        command.arg("worker");
        Worker::start(&command, work)
    }
}

impl Worker {
    /// Starts a program, and passes its work to it.
    pub(crate) fn start(command: &Command, work: &Work) -> Self {
        let process =
            Process::start(env!("CARGO_BIN_EXE_curator-jepsen").as_ref(), command, work).unwrap();
        Self {
            process,
            history: work.history.clone(),
        }
    }

    /// All events that the worker has written so far. Fails if a complete line is not an event.
    pub(crate) fn history(&self) -> Vec<Event> {
        let text = std::fs::read_to_string(&self.history).unwrap_or_default();
        // The last line may be incomplete.
        text.rfind('\n')
            .map_or("", |end| &text[..end])
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
            .collect()
    }

    /// Waits until the worker's history satisfies the condition.
    #[track_caller]
    pub(crate) fn until(&mut self, wanted: impl Fn(&[Event]) -> bool) -> impl Future<Output = ()> {
        until(async move || {
            assert_eq!(
                self.process.ended(),
                None,
                "the worker has ended: {}",
                self.process.output()
            );
            wanted(&self.history())
        })
    }

    /// Makes the worker finish, and waits until it has exited with status 0. Returns its history.
    pub(crate) async fn finish(mut self) -> Vec<Event> {
        self.process.close_input();
        until(async || self.process.ended().is_some()).await;
        assert!(
            self.process.ended().unwrap().success(),
            "{}",
            self.process.output()
        );
        self.history()
    }

    /// Writes a line to the worker's standard input.
    pub(crate) fn send_line(&mut self, line: &str) {
        self.process.send_line(line);
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        self.process.signal(signal).unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
    }
}

/// The elements of a history that were written with one of these outcomes.
pub(crate) fn elements(history: &[Event], outcomes: &[Outcome]) -> BTreeSet<(String, String)> {
    history
        .iter()
        .filter_map(|event| match &event.what {
            What::Wrote {
                set,
                element,
                outcome,
                ..
            } if outcomes.contains(outcome) => Some((set.clone(), element.clone())),
            _ => None,
        })
        .collect()
}

/// The number of acknowledged writes of a part.
pub(crate) fn acknowledged(history: &[Event], key: &str) -> usize {
    history
        .iter()
        .filter(|event| {
            matches!(&event.what, What::Wrote { part, outcome: Outcome::Acknowledged, .. } if part == key)
        })
        .count()
}

/// The number of acknowledged increments.
pub(crate) fn counted(history: &[Event]) -> usize {
    history
        .iter()
        .filter(|event| {
            matches!(
                event.what,
                What::Counter {
                    seen: CounterSeen::Counted {
                        outcome: Outcome::Acknowledged,
                        ..
                    },
                    ..
                }
            )
        })
        .count()
}

/// Runs the checker, and fails on violations and lost updates, even in plain variants. Then
/// compares the sets with the writes without the checker.
#[track_caller]
pub(crate) fn check_sets(histories: &[Vec<Event>], sets: &FinalSets) -> Findings {
    let all = histories.concat();
    let findings = check(&all, sets);
    assert_eq!([&findings.violations[..], &findings.of_peers].concat(), []);
    for (part, tally) in &findings.parts {
        assert_eq!((tally.lost, tally.changed), (0, 0), "{part}: {tally:?}");
    }
    let has: Vec<_> = sets
        .iter()
        .flat_map(|(set, has)| has.iter().map(|one| (set.clone(), one.clone())))
        .collect();
    let in_sets: BTreeSet<_> = has.iter().cloned().collect();
    assert_eq!(has.len(), in_sets.len(), "a set contains an element twice");
    let sure = elements(&all, &[Outcome::Acknowledged]);
    let unknown = elements(&all, &[Outcome::Unknown]);
    let lost: Vec<_> = sure.difference(&in_sets).collect();
    let unwanted: Vec<_> = in_sets
        .difference(&sure)
        .filter(|element| !unknown.contains(*element))
        .collect();
    assert!(
        lost.is_empty() && unwanted.is_empty(),
        "lost: {lost:?}; unwanted: {unwanted:?}"
    );
    findings
}

/// Checks that each hold begins, is sampled, and ends, in this order.
#[track_caller]
pub(crate) fn check_holds(history: &[Event]) {
    assert!(
        history.is_sorted_by_key(|event| event.at),
        "the events are not in the order of their times"
    );
    let mut holds: BTreeMap<u64, Vec<&What>> = BTreeMap::new();
    for event in history {
        if let Some(hold) = event.what.hold() {
            holds.entry(hold).or_default().push(&event.what);
        }
    }
    for (hold, story) in holds {
        let good = matches!(
            story[..],
            [
                What::Acquired { .. },
                What::Valid { .. } | What::Invalid { .. },
                ..,
                What::Releasing { .. },
                What::Released { .. }
            ]
        );
        assert!(good, "hold {hold}: {story:?}");
    }
}

/// Makes the first worker, the only writer, pause its writes, and all workers report the content of
/// their caches. Returns the event with the nodes on the server, which the conductor would write.
pub(crate) async fn look(workers: &mut [Worker], client: &CuratorClient, look: u32) -> Event {
    let sees = |history: &[Event], wanted: &dyn Fn(&CacheSeen) -> bool| {
        history
            .iter()
            .any(|event| matches!(&event.what, What::Cache { seen, .. } if wanted(seen)))
    };
    workers[0].send_line(&format!("{QUIET}{look}"));
    workers[0]
        .until(|history| sees(history, &|seen| *seen == CacheSeen::Quiet { look }))
        .await;
    let nodes = cached_nodes(client).await.unwrap();
    for worker in &mut *workers {
        // Peers cannot report that they have caught up. Without nodes, there is no event to wait
        // for.
        if let Some(last) = nodes.iter().max_by_key(|node| node.mzxid).cloned() {
            worker
                .until(|history| {
                    sees(history, &|seen| match seen {
                        CacheSeen::Created { node } | CacheSeen::Changed { node, .. } => {
                            *node == last
                        }
                        CacheSeen::Resync { .. } => true,
                        _ => false,
                    })
                })
                .await;
        }
        worker.send_line(&format!("{LOOK}{look}"));
        worker
            .until(|history| {
                sees(
                    history,
                    &|seen| matches!(seen, CacheSeen::Snapshot { look: Some(it), .. } if *it == look),
                )
            })
            .await;
    }
    workers[0].send_line(AGAIN);
    let asked = (0..).take(workers.len()).collect();
    Event {
        at: ClockInstant::now().as_nanos(),
        worker: CONDUCTOR,
        life: 0,
        what: What::Cache {
            part: CACHE.to_owned(),
            seen: CacheSeen::Tree { look, asked, nodes },
        },
    }
}

/// The names of the nodes below the directories of all locks.
pub(crate) async fn lock_nodes(client: &CuratorClient) -> Vec<String> {
    let mut left = Vec::new();
    let mut paths = vec!["/jepsen".to_owned()];
    while let Some(path) = paths.pop() {
        // The server may remove a directory that is a container.
        for child in client.get_children(&path).await.unwrap_or_default() {
            let child = format!("{path}/{child}");
            if client
                .check_exists(&child)
                .await
                .unwrap()
                .is_some_and(|stat| stat.ephemeral_owner != 0)
            {
                left.push(child.clone());
            }
            paths.push(child);
        }
    }
    left
}

pub(crate) fn sessions(history: &[Event]) -> Vec<i64> {
    history
        .iter()
        .filter_map(|event| match event.what {
            What::Session { session, .. } => Some(session),
            _ => None,
        })
        .collect()
}

/// Ends the session of a worker that was started with this run and connect string, and waits until
/// each of these parts has written in the next session. Returns its history.
pub(crate) async fn lose_session(
    start: impl FnOnce(&Run, String) -> Worker,
    parts: &[String],
) -> Vec<Event> {
    let server = TestingServer::start().await.unwrap();
    let proxy = FaultProxy::start(server.address()).unwrap();
    let run = Run::start().await;
    let mut worker = start(&run, proxy.connect_string());
    worker
        .until(|history| acknowledged(history, &parts[0]) > 0)
        .await;
    close_session(server.address(), &proxy.sessions().pop().unwrap())
        .await
        .unwrap();
    worker
        .until(|history| {
            let next = history
                .iter()
                .filter(|event| matches!(event.what, What::Session { .. }))
                .nth(1);
            next.is_some_and(|next| {
                let later: Vec<_> = history
                    .iter()
                    .filter(|event| event.at > next.at)
                    .cloned()
                    .collect();
                parts.iter().all(|part| acknowledged(&later, part) > 0)
            })
        })
        .await;
    let history = worker.finish().await;
    check_holds(&history);
    let sessions = sessions(&history);
    assert!(
        sessions.len() == 2 && sessions[0] != sessions[1],
        "{sessions:?}"
    );
    // Without another worker, no update may be lost.
    check_sets(std::slice::from_ref(&history), &run.store.stop().await);
    history
}
