//! What a client process is asked to do.

use std::fmt;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The first line of a worker's standard input, as JSON. The end of its standard input tells it to finish: it ends its
/// loops, gives back what it holds, closes its session and exits with status 0.
///
/// Before that, a worker of ours can be told to [`REST`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Number of the process in the run.
    pub worker: u32,
    /// How often it had been started before.
    pub life: u32,
    /// Where the ensemble is, as this process sees it.
    pub connect_string: String,
    /// The session timeout to ask for, in milliseconds.
    pub session_timeout_ms: u64,
    /// Address of the store.
    pub store: String,
    /// The file to append the history to.
    pub history: PathBuf,
    /// For the random waits.
    pub seed: u64,
    /// When the run began, on the clock of the history. Sets are numbered by the time since then.
    pub began: u64,
    /// How long a set is used, in milliseconds, before the next one begins.
    pub set_ms: u64,
    /// The longest wait between reading a set and writing it back, in milliseconds.
    pub think_ms: u64,
    /// `CLOCK_BOOTTIME` minus `CLOCK_MONOTONIC` in nanoseconds, for languages that can read only the latter.
    pub boottime_offset: i64,
    /// What to do, each in a task of its own.
    pub parts: Vec<Part>,
    /// The root of the subtree that the process keeps a cache of; a worker of ours also writes to it.
    #[serde(default)]
    pub cached: Option<String>,
    /// Whether the process increments the counters of all [kinds](crate::history::CounterKind).
    #[serde(default)]
    pub counters: bool,
    /// Whether the process registers an instance of a service, and watches those of all processes.
    #[serde(default)]
    pub services: bool,
}

/// A line of a worker's standard input: it is to end its loops, give back what it holds, and say
/// [`Resting`](crate::history::What::Resting) when its client has nothing left to do. Its session goes on, so that whatever it
/// has forgotten at the servers is still there.
pub const REST: &str = "rest";

/// A line of a worker's standard input, with the number of a question of the conductor: a process that writes to what it caches is to
/// pause, and say [`Quiet`](crate::history::CacheSeen::Quiet).
pub const QUIET: &str = "quiet ";

/// A line of a worker's standard input, with the number of a question of the conductor: a process with a cache is to write down what
/// that contains.
pub const LOOK: &str = "look ";

/// A line of a worker's standard input: it may write again.
pub const AGAIN: &str = "again";

/// What a process with a cache is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheOrder {
    /// To write, if it is one that does. So it begins.
    Work,
    /// See [`QUIET`].
    Quiet(u32),
    /// See [`LOOK`].
    Look(u32),
    /// To close the cache, and write no more.
    Rest,
}

impl CacheOrder {
    /// What a line of its standard input says, if that is about caches.
    #[must_use]
    pub fn read(line: &str) -> Option<Self> {
        let number = |prefix| line.strip_prefix(prefix).and_then(|number| number.parse().ok());
        match line {
            AGAIN => Some(Self::Work),
            REST => Some(Self::Rest),
            _ => number(QUIET).map(Self::Quiet).or_else(|| number(LOOK).map(Self::Look)),
        }
    }
}

/// One task of a worker: a lock, and what is done under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Part {
    /// The kind of lock.
    pub lock: LockKind,
    /// How the write is guarded.
    pub variant: Variant,
}

impl Part {
    /// Its name in histories, and the last part of its paths: `mutex-guarded`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}-{}", self.lock, self.variant)
    }
}

/// The locks. Now and then, the owner of one that is reentrant enters it again: all but the semaphore and the leaders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LockKind {
    /// `InterProcessMutex`.
    Mutex,
    /// `InterProcessReadWriteLock`. Writers write; readers read twice, and must see the same. Some writers also
    /// take the read lock.
    ReadWrite,
    /// `InterProcessSemaphoreV2`. The holder of all leases writes; holders of fewer only hold.
    Semaphore,
    /// `InterProcessMultiLock` of paths. Its holder writes to a set for each path.
    Multi,
    /// `LeaderLatch`. Each term is a hold, which the leader ends after a short while.
    LeaderLatch,
    /// `LeaderSelector`. The same.
    LeaderSelector,
}

impl LockKind {
    /// Whether it is an election: its holds are terms of leaders.
    #[must_use]
    pub fn is_of_leaders(self) -> bool {
        matches!(self, Self::LeaderLatch | Self::LeaderSelector)
    }
}

/// What stands between a client that has lost its lock and the set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Nothing: the guard is ignored. The set is in the store.
    Plain,
    /// `guard.run(..)` around the work itself, not around a re-entry, and `is_valid()` before the write. The set is in
    /// the store.
    Guarded,
    /// `guard.transaction()`. The set is a node of the same ensemble.
    Transaction,
    /// The fencing token, in each read and each write. The set is in the store, which compares it.
    Token,
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mutex => "mutex",
            Self::ReadWrite => "read-write",
            Self::Semaphore => "semaphore",
            Self::Multi => "multi",
            Self::LeaderLatch => "leader-latch",
            Self::LeaderSelector => "leader-selector",
        })
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Guarded => "guarded",
            Self::Transaction => "transaction",
            Self::Token => "token",
        })
    }
}
