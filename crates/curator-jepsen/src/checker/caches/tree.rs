//! Compares the content of a cache with the servers' nodes, or with the replay of its stream, while
//! all clients pause their writes.

use std::collections::{BTreeMap, BTreeSet};

use super::{Found, StreamKey};
use crate::checker::findings::Kind;
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

/// The paths at which the two differ, with the node of each side.
pub(super) fn differences(one: &Nodes, other: &Nodes) -> Vec<String> {
    let missing = one
        .iter()
        .filter(|(path, _)| !other.contains_key(*path))
        .map(|(_, node)| format!("{} instead of no node", show(node)));
    let others = other.iter().filter_map(|(path, node)| match one.get(path) {
        None => Some(format!("no node instead of {}", show(node))),
        Some(found) if found != node => Some(format!("{} instead of {}", show(found), show(node))),
        Some(_) => None,
    });
    missing.chain(others).collect()
}

/// The number of differences, and the first three.
pub(super) fn describe(what: &str, differences: &[String]) -> String {
    let first = differences
        .iter()
        .take(3)
        .cloned()
        .collect::<Vec<_>>()
        .join("; ");
    format!("{what} differs in {} nodes: {first}", differences.len())
}

/// One comparison: the nodes on the servers, and the contents of the caches.
#[derive(Debug, Default)]
pub(super) struct Tree {
    /// When the nodes were read, and from which processes snapshots were requested; `None` if the
    /// run ended before that.
    pub(super) read: Option<(u64, Vec<u32>, Nodes)>,
    pub(super) snapshots: BTreeMap<StreamKey, Nodes>,
}

impl Tree {
    /// For each stream from which a snapshot was requested: the time, the part, and the violation,
    /// if any.
    pub(super) fn compare(
        &self,
        streams: &BTreeSet<&StreamKey>,
    ) -> Vec<(u64, String, Option<Found>)> {
        let Some((at, asked, nodes)) = &self.read else {
            return Vec::new();
        };
        // The conductor has requested the snapshot from the last life of each process.
        let last: BTreeMap<(u32, &str), &StreamKey> = streams
            .iter()
            .map(|key| ((key.0, key.2.as_str()), *key))
            .filter(|((worker, _), _)| asked.contains(worker))
            .collect();
        last.values()
            .map(|key| (*at, key.2.clone(), self.compare_one(key, *at, nodes)))
            .collect()
    }

    fn compare_one(
        &self,
        (worker, life, part): &StreamKey,
        at: u64,
        nodes: &Nodes,
    ) -> Option<Found> {
        let Some((key, snapshot)) = self
            .snapshots
            .iter()
            .find(|((of_worker, _, of_part), _)| of_worker == worker && of_part == part)
        else {
            return Some(Found {
                kind: Kind::Stale,
                at,
                key: (*worker, *life, part.clone()),
                nodes: 1,
                detail: "has not reported its content".to_owned(),
            });
        };
        let differences = differences(snapshot, nodes);
        (!differences.is_empty()).then(|| Found {
            kind: Kind::Differs,
            at,
            key: key.clone(),
            nodes: differences.len(),
            detail: describe("content", &differences),
        })
    }
}
