//! Events of caches, counters and service discovery.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::Outcome;

/// The root of the subtree that the clients write to and all caches copy.
pub const CACHED: &str = "/jepsen-cache";

/// The key of our cache and of its fast consumer's events, in histories and reports.
pub const CACHE: &str = "cache";

/// The key of the events of the same cache's slow consumer, which cannot keep up.
pub const CACHE_SLOW: &str = "cache-slow";

/// A state of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The path of the node.
    pub path: String,
    /// The transaction that created the node.
    pub czxid: i64,
    /// The transaction that last set the node's data.
    pub mzxid: i64,
    /// The node's data, which are unique to one write.
    pub data: String,
}

/// One event of a cache, of a writer to its nodes, or of the conductor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cache", rename_all = "kebab-case")]
pub enum CacheSeen {
    /// The cache's stream: a node was created.
    Created {
        /// The new node.
        node: Node,
    },
    /// The cache's stream: a node was changed.
    Changed {
        /// The old state, if the client reports it.
        old: Option<Node>,
        /// The new state.
        node: Node,
    },
    /// The cache's stream: a node was deleted.
    Deleted {
        /// The last state of the node.
        node: Node,
    },
    /// The cache's stream: all nodes have been reported.
    Ready,
    /// The cache's stream: events were skipped; this is the current state.
    Resync {
        /// All nodes.
        nodes: Vec<Node>,
    },
    /// The state of the cache has changed.
    State {
        /// The name of the new state.
        state: String,
    },
    /// The content of the cache. All events that its stream had delivered by then precede this
    /// event in the history.
    Snapshot {
        /// A time read before the content was requested; for our cache, before `caught_up` was
        /// called.
        asked: u64,
        /// The number of the comparison for which the conductor requested the content; `None`
        /// without a request.
        look: Option<u32>,
        /// Whether the cache reports that it is current. Peers do not report it.
        is_current: Option<bool>,
        /// All nodes.
        nodes: Vec<Node>,
    },
    /// `caught_up` has failed.
    NotCaughtUp {
        /// The error.
        error: String,
    },
    /// A write is about to be sent.
    Writing {
        /// The number of the write in the process.
        write: u64,
        /// The nodes that the write may delete, with all nodes below them, and may recreate.
        deletes: Vec<String>,
    },
    /// A write has ended, with a reply or an error.
    Wrote {
        /// The number of the write in the process.
        write: u64,
        /// The nodes that the write has created or set, each with the number of the transaction, if
        /// known.
        set: Vec<(String, i64)>,
        /// The nodes that the write has deleted, and not recreated.
        deleted: Vec<String>,
        /// The error, if the write failed. The write may have been applied nevertheless.
        error: Option<String>,
    },
    /// The process pauses its writes until the conductor permits them again.
    Quiet {
        /// The number of the comparison.
        look: u32,
    },
    /// By the conductor: the nodes on the servers, while all clients pause their writes.
    Tree {
        /// The number of the comparison.
        look: u32,
        /// The processes that were requested to write snapshots.
        asked: Vec<u32>,
        /// All nodes.
        nodes: Vec<Node>,
    },
}

/// The node above all counters. Each kind has a node below it.
pub const COUNTERS: &str = "/jepsen-counters";

/// The node above the receipts of all processes.
pub const RECEIPTS: &str = "/jepsen-receipts";

/// The kinds of counters of our processes. All processes increment one node of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CounterKind {
    /// If the reply to a change is lost, the outcome is reported as unknown.
    Plain,
    /// After a few optimistic attempts, an increment acquires a mutex.
    Promoted,
    /// Each process has a receipt, so that every change is applied exactly once.
    Receipt,
}

impl CounterKind {
    /// The key of the kind, in histories and reports.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Plain => "counter-plain",
            Self::Promoted => "counter-promoted",
            Self::Receipt => "counter-receipt",
        }
    }

    /// The kind with this key; `None` for the key of a peer's counter, and for other keys.
    #[must_use]
    pub fn of(key: &str) -> Option<Self> {
        Self::value_variants()
            .iter()
            .copied()
            .find(|kind| kind.key() == key)
    }

    /// The node of the counter with this key.
    #[must_use]
    pub fn path(key: &str) -> String {
        format!("{COUNTERS}/{key}")
    }
}

/// The number of applied increments by receipt. The name of a receipt's node is `w` and the number
/// of its client.
pub type Receipts = BTreeMap<String, u64>;

/// One event of a process that increments counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "counter", rename_all = "kebab-case")]
pub enum CounterSeen {
    /// An increment by one is about to begin.
    Counting {
        /// The number of the increment, for this counter in this life of the process.
        number: u64,
    },
    /// The increment has ended.
    Counted {
        /// The number of the increment.
        number: u64,
        /// The value after the increment, if it is acknowledged.
        value: Option<i64>,
        /// Whether the increment was applied.
        outcome: Outcome,
    },
    /// By the conductor, after all clients have ended: the content of the counter's node.
    AtEnd {
        /// The value; 0 if the node does not exist.
        value: i64,
        /// The receipts, if the counter has any.
        receipts: Option<Receipts>,
    },
}

/// The key of the shards, in histories and reports: of what all clients do as members of one
/// assignment. Each lease of a shard is a hold.
pub const SHARDS: &str = "shards";

/// The base path of service discovery.
pub const SERVICES: &str = "/jepsen-services";

/// The service that our clients register, and its key in histories and reports.
pub const SERVICE: &str = "service";

/// The services that our clients watch: [`SERVICE`], and the service that peers with Curator
/// register.
pub const ALL_SERVICES: [&str; 2] = [SERVICE, "curator-service"];

/// An event of a process that registers an instance, or watches the instances of a service. An
/// instance is identified by the session that owns its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "service", rename_all = "kebab-case")]
pub enum ServiceSeen {
    /// A server has confirmed that the process had a registered instance in this session.
    Registered {
        /// The session.
        session: i64,
        /// A time read before the request was sent.
        before: u64,
    },
    /// The process is about to deregister its instance.
    Leaving,
    /// The stream of a cache: an instance was inserted.
    Inserted {
        /// The session of the instance.
        session: i64,
    },
    /// The stream of a cache: an instance was removed.
    Removed {
        /// The session of the instance.
        session: i64,
    },
    /// The instances in a cache that reports to be current.
    Has {
        /// A time read before the instances were read from the cache.
        asked: u64,
        /// The sessions of the instances.
        sessions: Vec<i64>,
    },
}
