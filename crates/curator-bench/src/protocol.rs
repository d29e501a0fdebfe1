//! The lines that the bench and a worker exchange, for any client.
//!
//! A worker is started with a connect string and a session timeout in milliseconds. It answers each line of its
//! standard input with one line on its standard output, and exits when its standard input ends. Some `run` requests
//! have several answers. For a crowd: `held` when the locks are held, `queued` when all tasks wait, and `done`. For a
//! cache: `held`, `loaded`, for a cache that follows changes `current`, and `done`. For a discovery as for a cache: it
//! is `loaded` when all instances are registered, or found. After each answer but the last, the worker waits for a line
//! `go`.

mod lines;

use std::time::Duration;

/// An operation on a lock, a cache, a counter or a discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    /// One task acquires and releases a lock.
    Cycle,
    /// The same, while the task holds the lock.
    Reentry,
    /// Tasks of one session, each with a separate lock.
    Distinct,
    /// A task in each session, all with the same lock.
    Handover,
    /// Readers, each in a separate session, wait for a writer.
    Readers,
    /// Tasks of one session wait for the lock or locks of another session.
    Crowd,
    /// The same on one lock, with a lost connection before it is released.
    Reconnect,
    /// A cache loads a tree.
    CacheLoad,
    /// A cache follows many changes by another client.
    CacheStorm,
    /// A cache loses its connection, and misses changes.
    CacheReconnect,
    /// A task in each session increments the same counter.
    Increment,
    /// One session registers instances of a service.
    Register,
    /// Another session finds them with a cache of the service.
    Find,
}

/// The kind of lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lock {
    Mutex,
    Read,
    Write,
    Semaphore,
    SemaphoreMutex,
    Multi,
    /// No lock: the creation and the deletion of an ephemeral, sequential node.
    Floor,
    /// No lock: a live copy of a subtree.
    Cache,
    /// No lock: a number that is incremented.
    Counter,
    /// The same, exactly once.
    Receipt,
    /// No lock: instances of a service.
    Discovery,
}

/// A request of the bench.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Request {
    /// Opens additional sessions, with this server if given.
    Open {
        sessions: usize,
        connect: Option<String>,
    },
    Supports {
        act: Act,
        lock: Lock,
    },
    Run(Play),
    Go,
}

/// One play of a case. Values that the case does not need are 0.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Play {
    pub(crate) act: Act,
    pub(crate) lock: Lock,
    /// The node of the lock, or the parent of the nodes of several locks.
    pub(crate) path: String,
    /// For how long.
    pub(crate) time: Duration,
    pub(crate) tasks: usize,
    pub(crate) sessions: usize,
    pub(crate) rounds: usize,
    pub(crate) waiters: usize,
    /// Whether each waiter has a separate lock.
    pub(crate) each: bool,
    /// The number of paths of a multi-lock.
    pub(crate) members: usize,
    /// The number of leaves of a cache's tree, or of instances of a service.
    pub(crate) nodes: usize,
    /// The number of leaves whose data begin with the mark, when all changes have been made.
    pub(crate) marked: usize,
    /// A number that is unique to the play.
    pub(crate) mark: u64,
    /// When to begin, in milliseconds since 1970.
    pub(crate) start: Option<u64>,
}

/// An answer of the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Ok,
    Yes,
    No(String),
    /// The locks are held; or a cache is ready to be opened.
    Held,
    Queued {
        nanoseconds: u64,
    },
    /// A cache contains all nodes.
    Loaded {
        nanoseconds: u64,
    },
    /// A cache contains all changes, and has reported that many since it was loaded.
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
    /// By how many bytes the cache has enlarged the heap, if the worker has a garbage collector that reports it.
    pub(crate) heap: Option<u64>,
}

/// A line that is not part of the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtocolError {
    #[error("{0:?} is not a line of the bench's protocol")]
    Line(String),
    #[error("{line:?} has no {key}, or one that cannot be")]
    Value { line: String, key: &'static str },
}

const ACTS: [(Act, &str); 13] = [
    (Act::Cycle, "cycle"),
    (Act::Reentry, "reentry"),
    (Act::Distinct, "distinct"),
    (Act::Handover, "handover"),
    (Act::Readers, "readers"),
    (Act::Crowd, "crowd"),
    (Act::Reconnect, "reconnect"),
    (Act::CacheLoad, "cache-load"),
    (Act::CacheStorm, "cache-storm"),
    (Act::CacheReconnect, "cache-reconnect"),
    (Act::Increment, "increment"),
    (Act::Register, "register"),
    (Act::Find, "find"),
];

const LOCKS: [(Lock, &str); 11] = [
    (Lock::Mutex, "mutex"),
    (Lock::Read, "read"),
    (Lock::Write, "write"),
    (Lock::Semaphore, "semaphore"),
    (Lock::SemaphoreMutex, "semaphore-mutex"),
    (Lock::Multi, "multi"),
    (Lock::Floor, "floor"),
    (Lock::Cache, "cache"),
    (Lock::Counter, "counter"),
    (Lock::Receipt, "receipt"),
    (Lock::Discovery, "discovery"),
];

impl Act {
    /// Whether the connection is cut, which requires a proxy in each round.
    pub(crate) fn is_reconnect(self) -> bool {
        matches!(self, Self::Reconnect | Self::CacheReconnect)
    }
}

impl Play {
    /// A play that needs only a path.
    pub(crate) fn new(act: Act, lock: Lock, path: impl Into<String>) -> Self {
        let (tasks, sessions, rounds, waiters, members, nodes, marked, mark) = (0, 0, 0, 0, 0, 0, 0, 0);
        let (path, time, each, start) = (path.into(), Duration::ZERO, false, None);
        Self { act, lock, path, time, tasks, sessions, rounds, waiters, each, members, nodes, marked, mark, start }
    }
}

impl Done {
    pub(crate) fn new(operations: u64, time: Duration) -> Self {
        Self { operations, nanoseconds: nanoseconds(time), heap: None }
    }
}

/// The duration in nanoseconds. Saturates after five centuries.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
