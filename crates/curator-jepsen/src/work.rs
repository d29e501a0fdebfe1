//! The work of a client process.

use std::fmt;
use std::path::PathBuf;

use clap::ValueEnum;
use curator_recipes::client;
use serde::{Deserialize, Serialize};

/// The work of a worker: the first line of its standard input, as JSON. When its standard input
/// ends, the worker finishes: it ends its loops, releases its locks, closes its session and exits
/// with status 0.
///
/// Further lines may follow, such as [`REST`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The number of the process in the run.
    pub worker: u32,
    /// How often the process had been started before.
    pub life: u32,
    /// The addresses of the ensemble for this process.
    pub connect_string: String,
    /// Whether our worker follows the configuration of the ensemble, past the addresses above. Peers
    /// ignore it.
    #[serde(default)]
    pub follows: bool,
    /// The session timeout to request, in milliseconds.
    pub session_timeout_ms: u64,
    /// Which code speaks ZooKeeper's protocol for our workers. Peers ignore it.
    #[serde(default)]
    pub transport: Transport,
    /// The address of the store.
    pub store: String,
    /// The file to append the history to.
    pub history: PathBuf,
    /// The seed of the random waits.
    pub seed: u64,
    /// When the run began, on the clock of the history. Sets are numbered by the time since then.
    pub began: u64,
    /// For how many milliseconds a set is used.
    pub set_ms: u64,
    /// The longest wait between reading a set and writing it back, in milliseconds.
    pub think_ms: u64,
    /// `CLOCK_BOOTTIME` minus `CLOCK_MONOTONIC` in nanoseconds, for languages that can read only
    /// `CLOCK_MONOTONIC`.
    pub boottime_offset: i64,
    /// The parts of the work, each for a separate task.
    pub parts: Vec<Part>,
    /// The root of the subtree that the process keeps a cache of; our worker also writes to it.
    #[serde(default)]
    pub cached: Option<String>,
    /// Whether the process increments the counters of all [kinds](crate::history::CounterKind).
    #[serde(default)]
    pub counters: bool,
    /// Whether the process registers an instance of a service, and watches the instances of all
    /// processes.
    #[serde(default)]
    pub services: bool,
    /// The number of shards that the process serves a part of, as a member; 0 without shards.
    #[serde(default)]
    pub shards: usize,
}

/// Which code speaks ZooKeeper's protocol for our workers, with the names that a client's
/// configuration file uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// The crate `zookeeper-client`.
    #[default]
    ZookeeperClient,
    /// This project's own code.
    Native,
}

impl From<Transport> for client::Transport {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::ZookeeperClient => Self::ZookeeperClient,
            Transport::Native => Self::Native,
        }
    }
}

/// A line of a worker's standard input: the worker must end its loops, release its locks, and
/// report [`Resting`](crate::history::What::Resting) when its client has nothing left to do. Its
/// session stays open, so that the conductor can count the nodes and watches that it has left on
/// the servers.
pub const REST: &str = "rest";

/// A line of a worker's standard input, followed by the number of a comparison of caches: a process
/// that writes to cached nodes must pause, and report [`Quiet`](crate::history::CacheSeen::Quiet).
pub const QUIET: &str = "quiet ";

/// A line of a worker's standard input, followed by the number of a comparison of caches: a process
/// with a cache must record the cache's content.
pub const LOOK: &str = "look ";

/// A line of a worker's standard input: a process that has paused its writes may write again.
pub const AGAIN: &str = "again";

/// An order to a process. Orders on comparisons concern only processes with a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheOrder {
    /// Write to cached nodes, if the process has a writer. The initial order.
    Work,
    /// See [`QUIET`].
    Quiet(u32),
    /// See [`LOOK`].
    Look(u32),
    /// See [`REST`].
    Rest,
}

impl CacheOrder {
    /// Parses a line of standard input. Returns `None` if the line is not an order.
    #[must_use]
    pub fn read(line: &str) -> Option<Self> {
        let number = |prefix| {
            line.strip_prefix(prefix)
                .and_then(|number| number.parse().ok())
        };
        match line {
            AGAIN => Some(Self::Work),
            REST => Some(Self::Rest),
            _ => number(QUIET)
                .map(Self::Quiet)
                .or_else(|| number(LOOK).map(Self::Look)),
        }
    }
}

/// One task of a worker: a lock, and the work under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Part {
    /// The kind of lock.
    pub lock: LockKind,
    /// How the write is guarded.
    pub variant: Variant,
}

impl Part {
    /// The name of the part in histories, and the last component of its paths, such as
    /// `mutex-guarded`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}-{}", self.lock, self.variant)
    }
}

/// The locks. The owner of a reentrant lock sometimes re-enters it: all locks but the semaphore and
/// the leaders.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum LockKind {
    /// `InterProcessMutex`.
    Mutex,
    /// `InterProcessReadWriteLock`. Writers write; readers read twice, and must read the same
    /// elements. Some writers also acquire the read lock.
    ReadWrite,
    /// `InterProcessSemaphoreV2`. The holder of all leases writes; holders of fewer leases only
    /// hold them.
    Semaphore,
    /// `InterProcessMultiLock` of paths. Its holder writes to a set for each path.
    Multi,
    /// `LeaderLatch`. Each term is a hold, which the leader ends after a short while.
    LeaderLatch,
    /// `LeaderSelector`. Its terms are used like the terms of `LeaderLatch`.
    LeaderSelector,
}

impl LockKind {
    /// Whether the lock is an election, whose holds are terms of leaders.
    #[must_use]
    pub fn is_of_leaders(self) -> bool {
        matches!(self, Self::LeaderLatch | Self::LeaderSelector)
    }
}

/// How a client that has lost its lock is kept from writing the set.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Not at all: the guard is ignored. The set is in the store.
    Plain,
    /// By `guard.run(..)` around the work (but not around a re-entry), and `is_valid()` before the
    /// write. The set is in the store.
    Guarded,
    /// By `guard.transaction()`. The set is a node of the same ensemble.
    Transaction,
    /// By the fencing token in each read and each write. The set is in the store, which compares
    /// the tokens.
    Token,
}

/// Displays the names that the command line accepts. No variant is skipped, so each has a name.
macro_rules! display_name {
    ($($named:ty),*) => {
        $(impl fmt::Display for $named {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_possible_value().map_or(Ok(()), |value| f.write_str(value.get_name()))
            }
        })*
    };
}
pub(crate) use display_name;

display_name!(LockKind, Transport, Variant);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transport_has_one_name_on_the_command_line_in_work_and_in_reports() {
        for transport in Transport::value_variants() {
            let name = transport.to_string();
            assert_eq!(Transport::from_str(&name, false), Ok(*transport));
            assert_eq!(serde_json::to_value(transport).unwrap(), name);
        }
    }
}
