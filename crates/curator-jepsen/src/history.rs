//! The events that each process records, one per line, in the order in which they happened in the
//! process.
//!
//! Times are nanoseconds of `CLOCK_BOOTTIME`, which all processes of a machine share. An event is
//! written as one line of JSON with one `write`, so a process that is killed loses no recorded
//! event; at most its last line is incomplete.

use serde::{Deserialize, Serialize};

mod files;
mod recipes;

pub use files::Histories;
pub use recipes::{
    ALL_SERVICES, CACHE, CACHE_SLOW, CACHED, COUNTERS, CacheSeen, CounterKind, CounterSeen, Node,
    RECEIPTS, Receipts, SERVICE, SERVICES, SHARDS, ServiceSeen,
};

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When the event was recorded.
    pub at: u64,
    /// The number of the client process: from 0, over all client processes of the run, including
    /// peers.
    pub worker: u32,
    /// How often the process had been started before.
    pub life: u32,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// A part of a resource that a hold claims. At any time the claims of all holds must be within the
/// resource's capacity.
///
/// A mutex claims 1 of 1. Of a read-write lock, a writer claims all of [`READERS`], and a reader 1.
/// The holder of two leases claims 2 of the limit. A multi-lock claims 1 of 1 of each path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The path of the lock.
    pub resource: String,
    /// How much of the capacity this hold claims.
    pub weight: u32,
    /// The capacity of the resource.
    pub capacity: u32,
    /// The fencing token of this hold for this resource, if there is one.
    pub token: Option<i64>,
    /// The number of the transaction that added this hold's node to the queue, if known.
    pub place: Option<i64>,
}

/// The capacity of a read-write lock: more than there can be readers.
pub const READERS: u32 = 1_000_000;

/// Formats a time in nanoseconds for reports: `12.345678 s`.
pub(crate) fn seconds(nanoseconds: u64) -> String {
    format!(
        "{}.{:06} s",
        nanoseconds / 1_000_000_000,
        nanoseconds % 1_000_000_000 / 1_000
    )
}

/// The number of a hold within its process, in the order of their start.
pub type HoldId = u64;

/// The name of the nemesis that deletes nodes of locks. It does not disturb any connection.
pub const DELETE_NODES: &str = "delete-nodes";

/// The `worker` of the conductor's events, which concern servers, networks and clients. The
/// conductor is the process `curator-jepsen run`.
pub const CONDUCTOR: u32 = u32::MAX;

/// The phase of a nemesis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The nemesis is about to inject its fault.
    Begin,
    /// The fault is healed.
    End,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum What {
    /// By the conductor: a nemesis begins or ends. The time is read before the fault is injected,
    /// or after it is healed.
    Nemesis {
        /// Its name on the command line.
        name: String,
        /// Whether the nemesis begins or ends.
        phase: Phase,
        /// The affected servers or clients, for readers of the report.
        detail: String,
    },
    /// By the conductor: it is about to request the first clients to finish. From here on, a client
    /// without events is not a violation.
    Finishing,
    /// By the conductor: a client process is about to be stopped (SIGSTOP). The time is read before
    /// the signal is sent.
    Stopped {
        /// The number of the process.
        process: u32,
        /// The life of the process: see [`Event::life`].
        of_life: u32,
    },
    /// By the conductor: a stopped client process is resumed (SIGCONT) or killed. The time is read
    /// after the signal was sent.
    Continued {
        /// The number of the process.
        process: u32,
        /// The life of the process: see [`Event::life`].
        of_life: u32,
    },
    /// By the conductor, which acts as an operator: it has deleted a node of a lock, or the outcome
    /// of the delete is unknown.
    Deleted {
        /// The path of the node.
        node: String,
        /// The session that the node belonged to.
        session: i64,
        /// The node's `czxid`.
        created: i64,
        /// A time read before the delete was sent.
        before: u64,
        /// Whether the server has confirmed the delete: then the node was gone at the time of this
        /// event. Otherwise the node may have been deleted later, or not at all.
        #[serde(default)]
        is_confirmed: bool,
    },
    /// The process has a new session.
    Session {
        /// The session id.
        session: i64,
        /// Which ZooKeeper client of the process has the session, if there are several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
        /// The session timeout that the server granted, in milliseconds. Peers do not report it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
    /// All parts have ended, and the client has nothing left to do. Its session stays open.
    Resting,
    /// The client was closed.
    Closed {
        /// The error, if the close failed: the session may live for another session timeout.
        error: Option<String>,
    },
    /// An acquire has returned a guard.
    Acquired {
        /// The hold that begins.
        hold: HoldId,
        /// Which part of the work: a key of [`Part`](crate::work::Part).
        part: String,
        /// The owner. Simultaneous holds of one owner are re-entries of one hold. If the lock is
        /// not reentrant, the owner is unique to the hold.
        owner: String,
        /// When the acquire was called.
        asked: u64,
        /// The session that the lock's nodes belong to.
        session: i64,
        /// What the hold claims.
        claims: Vec<Claim>,
        /// Whether the owner already held the lock.
        reentry: bool,
        /// The write hold that this read hold continues (a downgrade) or was acquired in addition
        /// to (a re-entry). Both have the same owner and token, and this hold has no place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continues: Option<HoldId>,
    },
    /// `is_valid()` was called between `before` and `at`, and returned true.
    Valid {
        /// Which hold.
        hold: HoldId,
        /// A time read before the call.
        before: u64,
        /// The guard's `valid_until()`, called after `before` and before `is_valid()`; 0 for
        /// clients without it.
        until: u64,
    },
    /// `is_valid()` returned false, or the loss was reported.
    Invalid {
        /// Which hold.
        hold: HoldId,
    },
    /// The owner is about to release the guard. From here on, the hold claims nothing.
    Releasing {
        /// Which hold.
        hold: HoldId,
    },
    /// The release has returned.
    Released {
        /// Which hold.
        hold: HoldId,
        /// The error, if the release failed.
        error: Option<String>,
    },
    /// An acquire has returned no guard.
    NotAcquired {
        /// Which part of the work.
        part: String,
        /// When the acquire was called.
        asked: u64,
        /// The error; `None` if the acquire timed out.
        error: Option<String>,
    },
    /// A reader, which writes no sets, has read a set. Later reads under the same hold must return
    /// the same elements.
    Read {
        /// The hold of the reader.
        hold: HoldId,
        /// Which part of the work.
        part: String,
        /// The name of the set.
        set: String,
        /// A time read before the request was sent.
        before: u64,
        /// The number of elements.
        elements: usize,
        /// A hash of the elements.
        digest: u64,
    },
    /// A holder has written a set back with a new element, or has attempted to: see `outcome`.
    Wrote {
        /// The hold of the writer.
        hold: HoldId,
        /// Which part of the work.
        part: String,
        /// The name of the set.
        set: String,
        /// The new element: unique in its set.
        element: String,
        /// A time read before the last check whether to write; 0 if there was no check. If the
        /// write was applied, it was applied between this time and `answered`.
        checked: u64,
        /// The guard's `valid_until()`, called after `checked` and before the write was sent: if
        /// the reply is not later, the write was within the guard's promise. 0 for clients without
        /// `valid_until()`, and if nothing was sent.
        until: u64,
        /// A time read after the reply. If absent, the time of this event is used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered: Option<u64>,
        /// Whether the write was applied.
        outcome: Outcome,
    },
    /// An event of a counter.
    Counter {
        /// Which counter: its key.
        part: String,
        /// What happened.
        #[serde(flatten)]
        seen: CounterSeen,
    },
    /// An event of service discovery.
    Service {
        /// Which service.
        part: String,
        /// What happened.
        #[serde(flatten)]
        seen: ServiceSeen,
    },
    /// An event of a cache, or of a writer to the nodes that it copies.
    Cache {
        /// Which cache: the key of a part.
        part: String,
        /// What happened.
        #[serde(flatten)]
        seen: CacheSeen,
    },
}

impl What {
    /// The hold that the event concerns, if any.
    #[must_use]
    pub fn hold(&self) -> Option<HoldId> {
        match self {
            Self::Acquired { hold, .. }
            | Self::Valid { hold, .. }
            | Self::Invalid { hold }
            | Self::Releasing { hold }
            | Self::Released { hold, .. }
            | Self::Read { hold, .. }
            | Self::Wrote { hold, .. } => Some(*hold),
            Self::Nemesis { .. }
            | Self::Finishing
            | Self::Stopped { .. }
            | Self::Continued { .. }
            | Self::Deleted { .. }
            | Self::Session { .. }
            | Self::Resting
            | Self::Closed { .. }
            | Self::NotAcquired { .. }
            | Self::Counter { .. }
            | Self::Service { .. }
            | Self::Cache { .. } => None,
        }
    }
}

/// Whether a write was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Acknowledged by the store: the element must never disappear.
    Acknowledged,
    /// Refused by the store, or by the lock's transaction: the element must never appear.
    Refused,
    /// The client noticed before the write that its lock was lost, and sent nothing: the element
    /// must never appear.
    NotSent,
    /// No reply: the element may appear.
    Unknown,
}
