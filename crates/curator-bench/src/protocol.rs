//! The lines that the bench and a worker exchange, for any client.
//!
//! The bench starts a worker with a connect string and a session timeout in milliseconds. The
//! worker replies to each request, a line of its standard input, with one line on its standard
//! output, and exits when its standard input ends. Some `run` requests have several replies. After
//! each reply but the last, the worker waits for the request `go`.
//!
//! | Workload | Replies |
//! |---|---|
//! | crowd | `held` when the holder has the locks, `queued` when all tasks wait, `done` |
//! | cache | `held`, `loaded`, `current` if the cache follows changes, `done` |
//! | discovery | `held`, `loaded` when all instances are registered or found, `done` |
//! | shards | `held` when all members but the last serve the shards, `loaded` when the last serves its part, `done` |

mod lines;

use std::time::Duration;

use clap::ValueEnum;

/// An operation on a lock, a cache, a counter, a discovery or shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, ValueEnum)]
pub(crate) enum Operation {
    /// One task repeatedly acquires and releases a lock.
    #[default]
    Cycle,
    /// One task repeatedly re-enters a lock that it holds.
    Reentry,
    /// Each of several tasks of one session repeatedly acquires and releases a separate lock.
    Distinct,
    /// A task in each session repeatedly acquires and releases the same lock.
    Handover,
    /// Readers, each in a separate session, wait for a writer's release.
    Readers,
    /// Tasks of one session wait for the lock or locks that another session holds.
    Crowd,
    /// Like `Crowd` with one lock, but the connection is cut before the release.
    Reconnect,
    /// A cache loads a tree.
    CacheLoad,
    /// A cache follows many changes by another client.
    CacheStorm,
    /// A cache misses changes while its connection is cut, and reads them afterwards.
    CacheReconnect,
    /// A task in each session increments the same counter.
    Increment,
    /// One session registers instances of a service.
    Register,
    /// Another session finds the instances with a cache of the service.
    Find,
    /// The member in the last session joins those in the others, and gets its part of the shards.
    Shards,
}

/// The kind of lock, or another recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, ValueEnum)]
pub(crate) enum Lock {
    #[default]
    Mutex,
    Read,
    Write,
    Semaphore,
    SemaphoreMutex,
    Multi,
    /// The baseline, which is not a lock: creates and deletes an ephemeral, sequential node.
    Floor,
    /// A cache: a live copy of a subtree.
    Cache,
    /// A counter.
    Counter,
    /// A counter with a receipt, which applies each increment exactly once.
    Receipt,
    /// Service discovery.
    Discovery,
    /// Shards that are divided among members.
    Shards,
}

/// A request to a worker.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Request {
    /// Opens additional sessions, with the connect string `connect` if given.
    Open {
        sessions: usize,
        connect: Option<String>,
    },
    Supports {
        operation: Operation,
        lock: Lock,
    },
    Run(Workload),
    Go,
}

/// The parameters of one run of an operation. Numbers that the operation does not need are 0.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Workload {
    pub(crate) operation: Operation,
    pub(crate) lock: Lock,
    /// The path of the lock, or the parent of the paths of several locks.
    pub(crate) path: String,
    /// How long the operation is repeated.
    pub(crate) time: Duration,
    pub(crate) tasks: usize,
    pub(crate) sessions: usize,
    pub(crate) rounds: usize,
    pub(crate) waiters: usize,
    /// Whether each waiter has a separate lock.
    pub(crate) each: bool,
    /// The number of paths of a multi-lock.
    pub(crate) members: usize,
    /// The number of leaves of a cache's tree, of instances of a service, or of shards.
    pub(crate) nodes: usize,
    /// The number of leaves that are changed. The data of each leaf's last change begin with
    /// `mark`.
    pub(crate) marked: usize,
    /// A number that is unique to the run.
    pub(crate) mark: u64,
    /// When to start, in milliseconds since 1970.
    pub(crate) start: Option<u64>,
}

/// A reply of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Ok,
    Yes,
    No(String),
    /// The holder has the locks, or the worker is ready to open a cache or to use a discovery.
    Held,
    /// All tasks wait.
    Queued {
        nanoseconds: u64,
    },
    /// A cache contains all nodes, all instances are registered or found, or all members serve their
    /// parts of the shards.
    Loaded {
        nanoseconds: u64,
    },
    /// A cache contains all changes, and has reported `events` events since it was loaded.
    Current {
        events: u64,
    },
    Done(Done),
    Error(String),
}

/// The number of operations, and the time they took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Done {
    pub(crate) operations: u64,
    pub(crate) nanoseconds: u64,
    /// The heap growth that the cache causes, in bytes, if the worker's garbage collector reports
    /// it.
    pub(crate) heap: Option<u64>,
}

/// A line that is not part of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("unknown line in the bench's protocol: {0:?}")]
    Line(String),
    #[error("{line:?} has no valid {key}")]
    Value { line: String, key: &'static str },
}

impl Operation {
    /// Whether the connection is cut, which requires a proxy in each round.
    pub(crate) fn is_reconnect(self) -> bool {
        matches!(self, Self::Reconnect | Self::CacheReconnect)
    }
}

impl Workload {
    /// A workload with no duration: all its numbers are 0.
    pub(crate) fn new(operation: Operation, lock: Lock, path: impl Into<String>) -> Self {
        Self {
            operation,
            lock,
            path: path.into(),
            ..Self::default()
        }
    }
}

impl Done {
    pub(crate) fn new(operations: u64, time: Duration) -> Self {
        Self {
            operations,
            nanoseconds: nanoseconds(time),
            heap: None,
        }
    }
}

/// The duration in nanoseconds. Saturates after five centuries.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
