//! The lines that the bench and a worker exchange, whatever client the worker uses.
//!
//! A worker is started with a connect string and a session timeout in milliseconds. It answers each line of its standard
//! input with one line on its standard output, and ends when the input does. A crowd's `run` is answered three times:
//! the locks are `held`, after a line `go` all are `queued`, and after another one it is `done`. A cache's is too: `held`,
//! `loaded`, `done`; and if the cache is to follow changes, it is `current` before it is `done`. So is that of a discovery, which is
//! `loaded` when all instances are registered, or found.

mod lines;

use std::time::Duration;

/// What is done with a lock, a cache, a counter or a discovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    /// One task acquires and releases.
    Cycle,
    /// The same, while it holds the lock.
    Reentry,
    /// Tasks of one session, each with a lock of its own.
    Distinct,
    /// A task in each session, all with the same lock.
    Handover,
    /// Readers, each in a session of its own, wait for a writer.
    Readers,
    /// Tasks of one session wait for another one's lock, or locks.
    Crowd,
    /// The same on one lock, and the connection breaks before it is released.
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

/// With which lock.
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

/// What the bench asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Request {
    /// So many sessions more, with this server if one is named.
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

/// A case, played once. What the case does not need is 0.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Play {
    pub(crate) act: Act,
    pub(crate) lock: Lock,
    /// The node of the lock, or the parent of those of several.
    pub(crate) path: String,
    /// For how long.
    pub(crate) time: Duration,
    pub(crate) tasks: usize,
    pub(crate) sessions: usize,
    pub(crate) rounds: usize,
    pub(crate) waiters: usize,
    /// Each waiter has a lock of its own.
    pub(crate) each: bool,
    /// How many paths a multi-lock has.
    pub(crate) members: usize,
    /// How many leaves the tree of a cache has, or how many instances a service.
    pub(crate) nodes: usize,
    /// How many of them have data that begin with the mark, when all changes are made.
    pub(crate) marked: usize,
    /// Differs from play to play.
    pub(crate) mark: u64,
    /// When to begin, in milliseconds since 1970.
    pub(crate) start: Option<u64>,
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Ok,
    Yes,
    No(String),
    /// Also of a cache: it can be opened.
    Held,
    Queued {
        nanoseconds: u64,
    },
    /// A cache has all nodes.
    Loaded {
        nanoseconds: u64,
    },
    /// It has all changes, and has reported so many since it was loaded.
    Current {
        events: u64,
    },
    Done(Done),
    Error(String),
}

/// What has been done, and how long it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Done {
    pub(crate) operations: u64,
    pub(crate) nanoseconds: u64,
    /// By how many bytes a cache has enlarged the heap, if the worker has a garbage collector that says so.
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
    /// The connection is cut, so there is a proxy in each round.
    pub(crate) fn is_reconnect(self) -> bool {
        matches!(self, Self::Reconnect | Self::CacheReconnect)
    }
}

impl Play {
    /// One that needs nothing but a path.
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

/// Saturates, after five centuries.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
