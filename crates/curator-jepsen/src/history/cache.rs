//! The events of caches, and of the clients' writes to the nodes that caches copy.

use serde::{Deserialize, Serialize};

/// The root of the subtree that the clients write to and all caches copy.
pub const CACHED: &str = "/jepsen-cache";

/// The key of our cache, in histories and reports, with the events of its fast consumer.
pub const CACHE: &str = "cache";

/// The key of the same cache, with the events of a consumer that is too slow for it.
pub const CACHE_SLOW: &str = "cache-slow";

/// A state of a node.
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
        /// The node now.
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
        /// Read before the content was requested; for our cache, before `caught_up` was called.
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
        /// Why.
        error: String,
    },
    /// A write is about to be sent.
    Writing {
        /// Its number in the process.
        write: u64,
        /// Nodes that it may delete, with all nodes below them. It may recreate them.
        deletes: Vec<String>,
    },
    /// A write has ended, with a reply or an error.
    Wrote {
        /// Its number in the process.
        write: u64,
        /// The nodes that it has created or set, and the number of the transaction, if known.
        set: Vec<(String, i64)>,
        /// The nodes that it has deleted, and not recreated.
        deleted: Vec<String>,
        /// The error, if it failed. It may have been applied nevertheless.
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
        /// The processes from which snapshots were requested.
        asked: Vec<u32>,
        /// All nodes.
        nodes: Vec<Node>,
    },
}
