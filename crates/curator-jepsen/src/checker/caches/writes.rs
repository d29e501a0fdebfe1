//! The writes of all processes to the nodes that caches copy.

use std::collections::BTreeMap;

use crate::history::CacheSeen;

/// One write.
#[derive(Debug, Default)]
pub(super) struct Write {
    /// Read before the write was sent.
    pub(super) asked: u64,
    /// Read after the reply.
    answered: Option<u64>,
    /// The roots of the subtrees that the write may have deleted.
    deletes: Vec<String>,
    /// The nodes that the write has created or set, with the numbers of the transactions.
    pub(super) set: Vec<(String, i64)>,
    /// The roots of the subtrees that the write has certainly deleted.
    pub(super) deleted: Vec<String>,
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
                (write.asked, write.deletes) = (at, deletes.clone());
            }
            CacheSeen::Wrote {
                write,
                set,
                deleted,
                ..
            } => {
                let write = self.all.entry((worker, life, *write)).or_default();
                (write.answered, write.set, write.deleted) =
                    (Some(at), set.clone(), deleted.clone());
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
    pub(super) fn answered(&self) -> impl Iterator<Item = (u64, &Write)> {
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
    pub(super) fn may_be_deleted(&self, path: &str, after: u64, before: u64) -> bool {
        let ends = path
            .match_indices('/')
            .map(|(end, _)| end)
            .skip(1)
            .chain([path.len()]);
        let mut deletes = ends
            .filter_map(|end| self.deletes.get(&path[..end]))
            .flatten();
        deletes.any(|(asked, answered)| *answered > after && *asked < before)
    }

    /// The greatest transaction whose reply arrived before `time`.
    pub(super) fn greatest_before(&self, time: u64) -> i64 {
        let before = self
            .greatest
            .partition_point(|(answered, _)| *answered < time);
        before
            .checked_sub(1)
            .map_or(0, |last| self.greatest[last].1)
    }
}
