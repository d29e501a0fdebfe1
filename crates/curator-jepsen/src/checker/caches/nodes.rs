//! The nodes of a cache at one time.

use std::collections::BTreeMap;

use crate::history::Node;

/// Nodes by their paths.
pub(super) type Nodes = BTreeMap<String, Node>;

/// Indexes nodes by path.
pub(super) fn by_path(nodes: &[Node]) -> Nodes {
    nodes
        .iter()
        .map(|node| (node.path.clone(), node.clone()))
        .collect()
}

/// Formats a node and its state for a report.
pub(super) fn show(node: &Node) -> String {
    let Node {
        path,
        czxid,
        mzxid,
        data,
    } = node;
    format!("{path} ({czxid:#x}, {mzxid:#x}, {data:?})")
}

/// The content of a cache.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// Read before the content was requested.
    pub(super) asked: u64,
    /// Read after the content was returned.
    pub(super) at: u64,
    /// Whether the cache reported that it was current. `None` for peers, which do not report it.
    pub(super) is_current: Option<bool>,
    pub(super) nodes: Nodes,
}
