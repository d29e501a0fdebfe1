//! What a cache reports, and what clients write to the nodes that it copies.

use serde::{Deserialize, Serialize};

/// The root of the subtree that the clients write to and all caches copy.
pub const CACHED: &str = "/jepsen-cache";

/// The key of our cache, in histories and reports: its events as they come.
pub const CACHE: &str = "cache";

/// The same cache, as a consumer reads it that is too slow for it.
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
    /// Its data, which no other write has.
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
        /// The node before, for clients that report it.
        old: Option<Node>,
        /// The node now.
        node: Node,
    },
    /// Its stream: a node was deleted.
    Deleted {
        /// Its last state.
        node: Node,
    },
    /// Its stream: all nodes were reported.
    Ready,
    /// Its stream: events were skipped, and the state is now this.
    Resync {
        /// All nodes.
        nodes: Vec<Node>,
    },
    /// Its state has changed.
    State {
        /// The new one, as the client names it.
        state: String,
    },
    /// Its content. Everything that its stream has offered until then is in the history before.
    Snapshot {
        /// Read before it was asked for; of our cache, before `caught_up` was called.
        asked: u64,
        /// In answer to which of the conductor's questions, if to one.
        look: Option<u32>,
        /// Whether the cache says that it is current. Peers do not say.
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
        /// The nodes that it has created or set, and the number of the transaction, where that is known.
        set: Vec<(String, i64)>,
        /// The nodes that it has deleted, and not created again.
        deleted: Vec<String>,
        /// Why it failed, if it did. It may have been applied all the same.
        error: Option<String>,
    },
    /// The process writes nothing until the conductor asks for it.
    Quiet {
        /// For which of the conductor's questions.
        look: u32,
    },
    /// By the conductor: the nodes on the servers, while all clients are quiet.
    Tree {
        /// Which question it has asked.
        look: u32,
        /// Which processes it has asked for snapshots.
        asked: Vec<u32>,
        /// All nodes.
        nodes: Vec<Node>,
    },
}
