//! What each process says it has seen, a line an event, in the order in which it happened there.
//!
//! Times are nanoseconds of `CLOCK_BOOTTIME`, which all processes of a machine share. An event is one `write` of one line of
//! JSON, so a process that is killed loses nothing that it has said; at most its last line is incomplete.

use serde::{Deserialize, Serialize};

mod cache;
mod counter;
mod files;
mod service;

pub use cache::{CACHE, CACHE_SLOW, CACHED, CacheSeen, Node};
pub use counter::{COUNTERS, CounterKind, CounterSeen, RECEIPTS, Receipts};
pub use files::{Histories, HistoryError};
pub use service::{ALL_SERVICES, SERVICE, SERVICES, ServiceSeen};

/// One line of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When the event was written down.
    pub at: u64,
    /// Which client process, numbered from 0 over all of a run, peers included.
    pub worker: u32,
    /// How often that process had been started before.
    pub life: u32,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// A part of a resource that a hold claims. The claims of all holds at a time must be within the resource's capacity.
///
/// Every lock is described by such claims: a mutex claims 1 of 1, a writer all and a reader 1 of [`READERS`], the holder of
/// two leases 2 of the limit, a multi-lock 1 of 1 of each path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The path of the lock.
    pub resource: String,
    /// How much of it this hold claims.
    pub weight: u32,
    /// How much of it there is.
    pub capacity: u32,
    /// The fencing token of this hold for this resource, if there is one.
    pub token: Option<i64>,
    /// The server's number of the transaction that put this hold's contender into the queue, where it is known.
    pub place: Option<i64>,
}

/// More readers than there can be.
pub const READERS: u32 = 1_000_000;

/// A time in nanoseconds, as reports say it: `12.345678 s`.
pub(crate) fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:06} s", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000 / 1_000)
}

/// Which of a process's holds is meant: numbered in the order of their begin.
pub type HoldId = u64;

/// The name of the nemesis that deletes nodes of locks. It does not disturb any connection.
pub const DELETE_NODES: &str = "delete-nodes";

/// The `worker` of the events that the conductor writes: what it does to servers, networks and clients.
pub const CONDUCTOR: u32 = u32::MAX;

/// Whether something begins or is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It is about to begin.
    Begin,
    /// It is over, and healed.
    End,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum What {
    /// By the conductor: a nemesis. The time is read before it begins, and after it is healed.
    Nemesis {
        /// Its name on the command line.
        name: String,
        /// Whether it begins or is over.
        phase: Phase,
        /// Whom it strikes, for readers of the report.
        detail: String,
    },
    /// By the conductor: the first clients are about to be told to finish. What they do not do from here on says nothing.
    Finishing,
    /// By the conductor: a client process is about to be stopped (SIGSTOP). The time is read before the signal is sent.
    Stopped {
        /// Which process.
        process: u32,
        /// Which life of it.
        of_life: u32,
    },
    /// By the conductor: a stopped client process goes on (SIGCONT), or is killed. The time is read after the signal was sent.
    Continued {
        /// Which process.
        process: u32,
        /// Which life of it.
        of_life: u32,
    },
    /// By the conductor: as an operator, it has deleted a node of a lock, or has tried to and does not know what became of it.
    Deleted {
        /// The node, as the server names it.
        node: String,
        /// The session that the node belonged to.
        session: i64,
        /// The node's `czxid`.
        created: i64,
        /// Read before the delete was sent.
        before: u64,
        /// Whether the server has confirmed it: then the node was gone at the time of this event. Otherwise it may have gone
        /// later, or not at all.
        #[serde(default)]
        is_confirmed: bool,
    },
    /// The process has a session with this id now.
    Session {
        /// As the server numbers it.
        session: i64,
        /// Which of its clients has it, if the process has several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<String>,
        /// The session timeout that this process was granted, in milliseconds. Peers do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
    /// All parts have come to their end, and the client has nothing left to do. Its session goes on.
    Resting,
    /// The client was closed.
    Closed {
        /// The error, if it failed: the session may go on for a session timeout.
        error: Option<String>,
    },
    /// An acquire has returned a guard.
    Acquired {
        /// The hold that begins.
        hold: HoldId,
        /// Which part of the work: a key of [`Part`](crate::work::Part).
        part: String,
        /// Whose it is: holds of one owner at the same time are one hold, entered several times. Of a lock without owners,
        /// which nobody enters again, one for each hold.
        owner: String,
        /// When the acquire was called.
        asked: u64,
        /// The session that the lock's nodes belong to.
        session: i64,
        /// What it claims.
        claims: Vec<Claim>,
        /// Whether the owner had it already.
        reentry: bool,
        /// The write hold that this read hold continues (a downgrade) or stands beside (a re-entry). Both have the same
        /// owner and token, and this one has no place of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continues: Option<HoldId>,
    },
    /// `is_valid()` was asked between `before` and `at`, and was true.
    Valid {
        /// Which hold.
        hold: HoldId,
        /// Read before the question.
        before: u64,
        /// The guard's `valid_until()`, asked before that; 0 for clients that have no such thing.
        until: u64,
    },
    /// `is_valid()` was false, or the loss was told.
    Invalid {
        /// Which hold.
        hold: HoldId,
    },
    /// The owner is about to give the guard back; from here on it claims nothing.
    Releasing {
        /// Which hold.
        hold: HoldId,
    },
    /// The release has returned.
    Released {
        /// Which hold.
        hold: HoldId,
        /// The error, if it failed.
        error: Option<String>,
    },
    /// An acquire has returned no guard.
    NotAcquired {
        /// Which part of the work.
        part: String,
        /// When the acquire was called.
        asked: u64,
        /// The error; `None` if its time was up.
        error: Option<String>,
    },
    /// A reader has read a set, and will not write it. Whatever it reads again under the same hold must be the same.
    Read {
        /// Under which hold.
        hold: HoldId,
        /// Which part of the work.
        part: String,
        /// Which set.
        set: String,
        /// Read before the set was asked for.
        before: u64,
        /// How many elements it has.
        elements: usize,
        /// A hash of the elements, which differs if they do.
        digest: u64,
    },
    /// A set was written back with a new element, or was not.
    Wrote {
        /// Under which hold.
        hold: HoldId,
        /// Which part of the work.
        part: String,
        /// Which set.
        set: String,
        /// The new element: unique in its set.
        element: String,
        /// Read before the last question whether to write; 0 if that was never asked. The write was applied between then and
        /// `answered`, if it was applied.
        checked: u64,
        /// The guard's `valid_until()`, asked after `checked` and before the write was sent: if the answer is not later, the
        /// write has kept the guard's promise. 0 for clients that have no such thing, and if nothing was sent.
        until: u64,
        /// Read after the answer. Without one, the time of this event takes its place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answered: Option<u64>,
        /// What became of it.
        outcome: Outcome,
    },
    /// Of a counter.
    Counter {
        /// Which counter: its key.
        part: String,
        /// What happened.
        #[serde(flatten)]
        seen: CounterSeen,
    },
    /// Of service discovery.
    Service {
        /// Which service.
        part: String,
        /// What happened.
        #[serde(flatten)]
        seen: ServiceSeen,
    },
    /// Of a cache, or of what it copies.
    Cache {
        /// Which cache: the key of a part.
        part: String,
        /// What happened.
        #[serde(flatten)]
        seen: CacheSeen,
    },
}

impl What {
    /// Which of its process's holds the event is about, if it is about one.
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

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The store has confirmed it: it must never disappear.
    Acknowledged,
    /// The store has refused it, or the lock's transaction has: it must never appear.
    Refused,
    /// The client has seen in time that its lock was lost, and has not written: it must never appear.
    NotSent,
    /// There was no answer: either is right.
    Unknown,
}
