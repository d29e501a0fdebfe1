//! The nodes of a cache at one time.

use std::collections::BTreeMap;

use crate::history::Node;

/// Nodes by their paths.
pub(super) type Nodes = BTreeMap<String, Node>;

/// By path.
pub(super) fn by_path(nodes: &[Node]) -> Nodes {
    nodes.iter().map(|node| (node.path.clone(), node.clone())).collect()
}

/// A node in one of its states, for humans.
pub(super) fn show(node: &Node) -> String {
    let Node { path, czxid, mzxid, data } = node;
    format!("{path} ({czxid:#x}, {mzxid:#x}, {data:?})")
}

/// The content of a cache.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Before it was asked for.
    pub(super) asked: u64,
    /// After the answer.
    pub(super) at: u64,
    /// Whether the cache said that it was current. Peers do not say.
    pub(super) is_current: Option<bool>,
    pub(super) nodes: Nodes,
}
