//! The events of caches, and of the clients' writes to the nodes that caches copy.

use serde::{Deserialize, Serialize};

/// The root of the subtree that the clients write to and all caches copy.
pub const CACHED: &str = "/jepsen-cache";

/// The key of our cache, in histories and reports, with the events of its fast consumer.
pub const CACHE: &str = "cache";

/// The key of the same cache, with the events of a consumer that is too slow for it.
pub const CACHE_SLOW: &str = "cache-slow";

/// A node in one of its states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its path.
    pub path: String,
    /// The transaction that created it.
    pub czxid: i64,
    /// The transaction that last set its data.
    pub mzxid: i64,
    /// Its data, which is unique to one write.
    pub data: String,
}

/// One event of a cache, of the writer beside it, or of the conductor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cache", rename_all = "kebab-case")]
pub enum CacheSeen {
    /// Its stream: a node was created.
    Created {
        /// The new node.
        node: Node,
    },
    /// Its stream: a node was changed.
    Changed {
        /// The old state, if the client reports it.
        old: Option<Node>,
        /// The node now.
        node: Node,
    },
    /// Its stream: a node was deleted.
    Deleted {
        /// Its last state.
        node: Node,
    },
    /// Its stream: all nodes have been reported.
    Ready,
    /// Its stream: events were skipped; this is the current state.
    Resync {
        /// All nodes.
        nodes: Vec<Node>,
    },
    /// Its state has changed.
    State {
        /// The new one, as the client names it.
        state: String,
    },
    /// Its content. All events that its stream had delivered by then precede this one in the history.
    Snapshot {
        /// Read before the content was requested; for our cache, before `caught_up` was called.
        asked: u64,
        /// The number of the conductor's question, if it answers one.
        look: Option<u32>,
        /// Whether the cache reports that it is current. Peers do not report it.
        is_current: Option<bool>,
        /// All nodes.
        nodes: Vec<Node>,
    },
    /// `caught_up` has failed.
    NotCaughtUp {
        /// Why.
        error: String,
    },
    /// A write is about to be sent.
    Writing {
        /// Its number in the process.
        write: u64,
        /// Nodes that it may delete, with all below them. It may create them again.
        deletes: Vec<String>,
    },
    /// A write was answered.
    Wrote {
        /// Its number in the process.
        write: u64,
        /// The nodes that it has created or set, and the number of the transaction, if known.
        set: Vec<(String, i64)>,
        /// The nodes that it has deleted, and not created again.
        deleted: Vec<String>,
        /// The error, if it failed. It may have been applied all the same.
        error: Option<String>,
    },
    /// The process writes nothing until the conductor resumes it.
    Quiet {
        /// The number of the conductor's question.
        look: u32,
    },
    /// By the conductor: the nodes on the servers, while all clients are quiet.
    Tree {
        /// The number of the conductor's question.
        look: u32,
        /// The processes that were asked for snapshots.
        asked: Vec<u32>,
        /// All nodes.
        nodes: Vec<Node>,
    },
}
