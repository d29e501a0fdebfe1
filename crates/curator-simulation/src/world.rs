//! The state that all processes of a schedule share: its time, its phases, its calls, and its first
//! failure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curator_recipes::client::source::watch;
use tokio::time::Instant;

use crate::mutex::lock;
use crate::servers::{Nodes, Servers};

/// The phase of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Faults occur, and the processes work.
    Faults,
    /// No more faults occur. The processes complete their last steps.
    Healed,
    /// All processes have completed their last steps, and keep their clients and recipes open. They
    /// check these, and make calls that must succeed.
    Rest,
    /// The processes do nothing. Their requests are counted.
    Idle,
    /// The processes close everything.
    Close,
}

/// The state that the processes of one schedule share.
#[derive(Debug)]
pub struct World {
    servers: Arc<Servers>,
    start: Instant,
    // Not tokio's channel, which would wake the processes in a random order.
    phase: watch::Sender<Phase>,
    failure: watch::Sender<Option<Failure>>,
    log: Mutex<Vec<String>>,
    calls: Mutex<Calls>,
    /// The nodes that were read last, by their root, with the last zxid at that time.
    latest: Mutex<BTreeMap<String, (i64, Arc<Nodes>)>>,
    /// The nodes that an operator has deleted, or is about to.
    deleted: Mutex<BTreeSet<String>>,
    /// The jobs that have not ended, by the phase that they wait for.
    jobs: Mutex<BTreeMap<Phase, usize>>,
    /// The number from which [`choice`](World::choice) derives the same choices in all processes.
    choice: usize,
    /// Whether events are recorded.
    traces: bool,
}

/// A property that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The time of the failure since the start of the schedule.
    pub at: Duration,
    /// What did not hold.
    pub what: String,
}

#[derive(Debug, Default)]
struct Calls {
    open: BTreeMap<u64, (String, Instant)>,
    number: u64,
}

impl World {
    /// Creates the state of a schedule that starts now.
    #[must_use]
    pub fn new(servers: Arc<Servers>, traces: bool) -> Arc<Self> {
        Arc::new(Self {
            servers,
            start: Instant::now(),
            phase: watch::Sender::new(Phase::Faults),
            failure: watch::Sender::new(None),
            log: Mutex::default(),
            calls: Mutex::default(),
            latest: Mutex::default(),
            deleted: Mutex::default(),
            jobs: Mutex::default(),
            choice: fastrand::usize(..),
            traces,
        })
    }

    /// The servers and the network.
    #[must_use]
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// A number below `n`, which is the same in all processes.
    #[must_use]
    pub fn choice(&self, n: usize) -> usize {
        self.choice % n
    }

    /// The time since the start of the schedule.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// The node at this path and all nodes below it. Processes that read the nodes at the same zxid
    /// share the result.
    pub fn nodes_below(&self, path: &str) -> Arc<Nodes> {
        let look = || Arc::new(self.servers.nodes_below(path));
        let Some(zxid) = self.servers.last_zxid() else {
            return look();
        };
        let mut latest = lock(&self.latest);
        let (its, nodes) = latest
            .entry(path.to_owned())
            .or_insert_with(|| (zxid, look()));
        if *its != zxid {
            (*its, *nodes) = (zxid, look());
        }
        Arc::clone(nodes)
    }

    /// Deletes a node and all nodes below it, as an operator.
    pub fn delete(&self, path: &str) {
        self.note("operator", || format!("deletes {path}"));
        let paths = self.servers.nodes_below(path).into_keys();
        if self.servers.delete(path) {
            lock(&self.deleted).extend(paths);
        }
    }

    /// Whether an operator has deleted anything.
    #[must_use]
    pub fn has_deleted(&self) -> bool {
        !lock(&self.deleted).is_empty()
    }

    /// Whether an operator has deleted the node at `path`. Call this only for a name that no other
    /// node gets.
    #[must_use]
    pub fn is_deleted(&self, path: &str) -> bool {
        lock(&self.deleted).contains(path) && self.servers.node(path).is_none()
    }

    /// Adds an event to the log, if the schedule is traced.
    pub fn note(&self, who: &str, what: impl FnOnce() -> String) {
        if self.traces {
            lock(&self.log).push(format!(
                "{:>9.3} {who}: {}",
                self.elapsed().as_secs_f64(),
                what()
            ));
        }
    }

    /// The events.
    #[must_use]
    pub fn events(&self) -> Vec<String> {
        lock(&self.log).clone()
    }

    /// Reports that a property does not hold, which ends the schedule. Only the first failure is
    /// kept.
    pub fn fail(&self, what: impl Into<String>) {
        let failure = Failure {
            at: self.elapsed(),
            what: what.into(),
        };
        self.note("FAILURE", || failure.what.clone());
        self.failure.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(failure);
            is_first
        });
    }

    /// Reports a failure unless the property holds.
    pub fn check(&self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.fail(otherwise());
        }
    }

    /// The first failure.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.failure.borrow().clone()
    }

    /// Waits for the first failure.
    pub async fn failed(&self) {
        // The sender lives as long as the world.
        let _ = self.failure.subscribe().wait_for(Option::is_some).await;
    }

    /// The phase now.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Begins a phase.
    pub fn begin(&self, phase: Phase) {
        self.note("phase", || format!("{phase:?}"));
        self.phase.send_replace(phase);
    }

    /// Waits for the beginning of a phase.
    pub async fn reached(&self, phase: Phase) {
        let _ = self
            .phase
            .subscribe()
            .wait_for(|current| *current >= phase)
            .await;
    }

    /// Records a call that lasts until the result is dropped.
    pub fn call(self: &Arc<Self>, name: String) -> Call {
        let mut calls = lock(&self.calls);
        calls.number += 1;
        let number = calls.number;
        calls.open.insert(number, (name, Instant::now()));
        Call {
            world: Arc::clone(self),
            number,
        }
    }

    /// The calls that have not ended, with the time since they began.
    #[must_use]
    pub fn open_calls(&self) -> Vec<(String, Duration)> {
        lock(&self.calls)
            .open
            .values()
            .map(|(name, since)| (name.clone(), since.elapsed()))
            .collect()
    }

    /// Records a job that lasts until the result is dropped.
    pub fn job(self: &Arc<Self>) -> Job {
        let job = Job {
            world: Arc::clone(self),
            waits_for: Mutex::new(Phase::Healed),
        };
        *lock(&self.jobs).entry(Phase::Healed).or_default() += 1;
        job
    }

    /// Whether all jobs wait for this phase or a later one.
    #[must_use]
    pub fn all_wait_for(&self, phase: Phase) -> bool {
        lock(&self.jobs).range(..phase).all(|(_, jobs)| *jobs == 0)
    }
}

/// A call that has not ended.
#[derive(Debug)]
pub struct Call {
    world: Arc<World>,
    number: u64,
}

impl Drop for Call {
    fn drop(&mut self) {
        lock(&self.world.calls).open.remove(&self.number);
    }
}

/// A job that has not ended.
#[derive(Debug)]
pub struct Job {
    world: Arc<World>,
    waits_for: Mutex<Phase>,
}

impl Job {
    /// Records that the job waits for a phase, and waits until the phase begins.
    pub async fn wait_for(&self, phase: Phase) {
        self.set(phase);
        self.world.reached(phase).await;
    }

    /// Records that other jobs do the work of this job.
    pub fn leave(&self) {
        self.set(Phase::Close);
    }

    fn set(&self, phase: Phase) {
        let before = std::mem::replace(&mut *lock(&self.waits_for), phase);
        let mut jobs = lock(&self.world.jobs);
        *jobs.entry(before).or_default() -= 1;
        *jobs.entry(phase).or_default() += 1;
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        *lock(&self.world.jobs)
            .entry(*lock(&self.waits_for))
            .or_default() -= 1;
    }
}
