//! Checks that a cache contains all earlier writes once `caught_up` has returned.

use std::collections::BTreeMap;

use super::tree::{Snapshot, show};
use crate::history::CacheSeen;

/// Returns the writes that each snapshot lacks, with the time of the snapshot. A snapshot must
/// contain all writes of any client whose replies arrived before the snapshot was requested:
///
/// - A node that was created or set must be present in that state or a later one, unless a delete
///   may have been applied after the write: a delete whose reply had not arrived when the write was
///   sent.
/// - A deleted node must be absent, or have been created after all transactions whose replies
///   arrived before the delete was sent: the servers order writes as they happen.
pub(super) fn check(snapshots: &[Snapshot], writes: &Writes) -> Vec<(u64, String)> {
    let mut snapshots: Vec<&Snapshot> = snapshots.iter().collect();
    snapshots.sort_by_key(|snapshot| snapshot.asked);
    let mut found = Vec::new();
    let mut answered = writes.answered().peekable();
    // For each path: the transaction of its last write and the time at which it was sent; and the
    // time at which its last delete was sent.
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
    /// Read before the write was sent.
    asked: u64,
    /// Read after the reply.
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
    /// For each path, the time at which each of its deletes was sent, and the time of the reply.
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
