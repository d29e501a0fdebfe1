//! Compares the content of a cache with the servers' nodes, or with the replay of its stream, while
//! all clients pause their writes. Checks that a cache contains all earlier writes once `caught_up`
//! has returned.

use std::collections::{BTreeMap, BTreeSet};

use super::{Found, StreamKey};
use crate::checker::findings::Kind;
use crate::history::{CacheSeen, Node};

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
    /// When the content was requested: a time read before the request.
    pub(super) asked: u64,
    /// When the content was returned: a time read after the return.
    pub(super) at: u64,
    /// Whether the cache reported that it was current. `None` for peers, which do not report it.
    pub(super) is_current: Option<bool>,
    pub(super) nodes: Nodes,
}

/// Describes each path where the two maps differ, with the node of each map.
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
    /// When the nodes were read, and which processes had to write snapshots; `None` if the
    /// run ended before that.
    pub(super) read: Option<(u64, Vec<u32>, Nodes)>,
    pub(super) snapshots: BTreeMap<StreamKey, Nodes>,
}

impl Tree {
    /// For each stream that had to write a snapshot: the time, the part, and the violation,
    /// if any.
    pub(super) fn compare(
        &self,
        streams: &BTreeSet<&StreamKey>,
    ) -> Vec<(u64, String, Option<Found>)> {
        let Some((at, asked, nodes)) = &self.read else {
            return Vec::new();
        };
        // The conductor requests snapshots only from the last life of each process.
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

/// Returns the writes that each snapshot lacks, with the time of the snapshot. A snapshot must
/// contain all writes of any client whose replies arrived before the snapshot was requested:
///
/// - A node that was created or set must be present in that state or a later one, unless a delete
///   may have been applied after the write: a delete whose reply had not arrived when the write was
///   sent.
/// - A deleted node must be absent, or have been created after all transactions whose replies
///   arrived before the delete was sent: the servers order writes as they happen.
pub(super) fn missing_writes(snapshots: &[Snapshot], writes: &Writes) -> Vec<(u64, String)> {
    let mut snapshots: Vec<&Snapshot> = snapshots.iter().collect();
    snapshots.sort_by_key(|snapshot| snapshot.asked);
    let mut found = Vec::new();
    let mut answered = writes.answered().peekable();
    // For each path: the transaction of its last write, when this write was sent, and when its last
    // delete was sent.
    let mut set = BTreeMap::<&str, (i64, u64)>::new();
    let mut deleted = BTreeMap::<&str, u64>::new();
    for snapshot in snapshots {
        while let Some((_, write)) = answered.next_if(|(answered, _)| *answered < snapshot.asked) {
            for (path, zxid) in &write.set {
                let last = set.entry(path).or_default();
                *last = (*zxid, write.asked).max(*last);
            }
            for path in &write.deleted {
                let last = deleted.entry(path).or_default();
                *last = write.asked.max(*last);
            }
        }
        for (path, (zxid, asked)) in &set {
            match snapshot.nodes.get(*path) {
                Some(node) if node.mzxid < *zxid => {
                    found.push((
                        snapshot.at,
                        format!("{} is older than {zxid:#x}, whose reply had arrived before the request", show(node)),
                    ));
                }
                None if !writes.may_be_deleted(path, *asked, snapshot.at) => {
                    found.push((
                        snapshot.at,
                        format!(
                            "{path} is absent, but was set by {zxid:#x}, whose reply had arrived before the request"
                        ),
                    ));
                }
                _ => {}
            }
        }
        for (path, asked) in &deleted {
            let earlier = writes.greatest_before(*asked);
            let below = format!("{path}/");
            for node in snapshot
                .nodes
                .values()
                .filter(|node| node.path == *path || node.path.starts_with(&below))
            {
                if node.czxid <= earlier {
                    let what = format!(
                        "{} is present after its delete, which was sent after {earlier:#x}",
                        show(node)
                    );
                    found.push((snapshot.at, what));
                }
            }
        }
    }
    found
}

/// One write.
#[derive(Debug, Default)]
struct Write {
    /// When the write was sent: a time read before.
    asked: u64,
    /// When the reply arrived: a time read after.
    answered: Option<u64>,
    /// The roots of the subtrees that the write may have deleted.
    deletes: Vec<String>,
    /// The nodes that the write has created or set, with the numbers of the transactions.
    set: Vec<(String, i64)>,
    /// The roots of the subtrees that the write has certainly deleted.
    deleted: Vec<String>,
}

/// All writes, by process and number.
#[derive(Debug, Default)]
pub(super) struct Writes {
    all: BTreeMap<(u32, u32, u64), Write>,
    /// For each path, when each of its deletes was sent, and when the reply arrived.
    deletes: BTreeMap<String, Vec<(u64, u64)>>,
    /// The times of the replies, in order, each with the greatest transaction up to then.
    greatest: Vec<(u64, i64)>,
}

impl Writes {
    pub(super) fn see(&mut self, at: u64, (worker, life): (u32, u32), seen: &CacheSeen) {
        match seen {
            CacheSeen::Writing { write, deletes } => {
                let write = self.all.entry((worker, life, *write)).or_default();
                write.asked = at;
                write.deletes = deletes.clone();
            }
            CacheSeen::Wrote {
                write,
                set,
                deleted,
                ..
            } => {
                let write = self.all.entry((worker, life, *write)).or_default();
                write.answered = Some(at);
                write.set = set.clone();
                write.deleted = deleted.clone();
            }
            _ => {}
        }
    }

    /// Sorts the writes. Must be called once, after the last event.
    pub(super) fn sort(&mut self) {
        for write in self.all.values() {
            let answered = write.answered.unwrap_or(u64::MAX);
            for path in &write.deletes {
                self.deletes
                    .entry(path.clone())
                    .or_default()
                    .push((write.asked, answered));
            }
            let greatest = write.set.iter().map(|(_, zxid)| *zxid).max();
            self.greatest.extend(write.answered.zip(greatest));
        }
        self.greatest.sort_unstable();
        let mut greatest = 0;
        for (_, zxid) in &mut self.greatest {
            greatest = greatest.max(*zxid);
            *zxid = greatest;
        }
    }

    /// The writes with a reply, in the order of the replies, with the time of each reply.
    fn answered(&self) -> impl Iterator<Item = (u64, &Write)> {
        let mut answered: Vec<_> = self
            .all
            .values()
            .filter_map(|write| Some((write.answered?, write)))
            .collect();
        answered.sort_by_key(|(at, _)| *at);
        answered.into_iter()
    }

    /// Whether a delete of the node, or of a node above it, may have been applied between `after`
    /// and `before`.
    fn may_be_deleted(&self, path: &str, after: u64, before: u64) -> bool {
        path.match_indices('/')
            .map(|(end, _)| end)
            .skip(1)
            .chain([path.len()])
            .filter_map(|end| self.deletes.get(&path[..end]))
            .flatten()
            .any(|(asked, answered)| *answered > after && *asked < before)
    }

    /// The greatest transaction whose reply arrived before `time`.
    fn greatest_before(&self, time: u64) -> i64 {
        self.greatest
            .partition_point(|(answered, _)| *answered < time)
            .checked_sub(1)
            .map_or(0, |last| self.greatest[last].1)
    }
}
