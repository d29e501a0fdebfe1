//! The drivers of a read-write lock's two halves, which share one directory and one queue.

use uuid::Uuid;

use super::{LockInternalsDriver, ParticipantKind, Verdict, protected_prefix, sequence_after};
use crate::queue::{Queue, QueueEntry};

/// The read lock: owned by every node that has no write node before it.
///
/// Any other reader waits for the nearest write node before it. Modelled on the class of the same
/// name in Curator's `InterProcessReadWriteLock`; the nodes are called
/// `_c_<uuid>-__READ__<sequence>`.
///
/// Only the read node of a [downgraded](downgraded_read_name) write lock can newly appear before a
/// reader. A read node does not block a reader, so a reader's predecessors are final.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a rule without parameters")]
pub struct ReadLockInternalsDriver;

/// The write lock: owned by the first node in the queue, whether the others are readers or writers.
///
/// Any other writer waits for the nearest node before it. Modelled on the class of the same name in
/// Curator's `InterProcessReadWriteLock`; the nodes are called `_c_<uuid>-__WRIT__<sequence>`.
///
/// A [downgraded](downgraded_read_name) read node can newly appear before a writer, in place of a
/// write node: a writer's predecessors are not final. A read node with the number of the writer's
/// own node is the writer's read lock, and does not block it. A second write node with that number
/// is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a rule without parameters")]
pub struct WriteLockInternalsDriver;

impl ReadLockInternalsDriver {
    /// Curator's lock name for a reader.
    pub const LOCK_NAME: &'static str = "__READ__";
}

impl WriteLockInternalsDriver {
    /// Curator's lock name for a writer.
    pub const LOCK_NAME: &'static str = "__WRIT__";
}

impl LockInternalsDriver for ReadLockInternalsDriver {
    fn node_prefix(&self, id: &Uuid) -> String {
        protected_prefix(id, Self::LOCK_NAME)
    }

    fn sequence(&self, child: &str) -> Option<i32> {
        read_or_write(child).map(|(_, sequence)| sequence)
    }

    fn kind(&self, child: &str) -> ParticipantKind {
        kind(child)
    }

    fn may_share_a_number(&self, children: &[&str]) -> bool {
        are_of_one_writer(children)
    }

    fn verdict(&self, queue: &Queue, own: usize) -> Verdict {
        verdict(queue, own)
    }

    fn looks_ahead(&self) -> bool {
        false
    }
}

impl LockInternalsDriver for WriteLockInternalsDriver {
    fn node_prefix(&self, id: &Uuid) -> String {
        protected_prefix(id, Self::LOCK_NAME)
    }

    fn sequence(&self, child: &str) -> Option<i32> {
        read_or_write(child).map(|(_, sequence)| sequence)
    }

    fn kind(&self, child: &str) -> ParticipantKind {
        kind(child)
    }

    fn may_share_a_number(&self, children: &[&str]) -> bool {
        are_of_one_writer(children)
    }

    fn verdict(&self, queue: &Queue, own: usize) -> Verdict {
        verdict(queue, own)
    }

    fn predecessors_are_final(&self) -> bool {
        false
    }
}

/// The name of the read node that the holder of a write lock creates to take the read lock too.
///
/// The server does not number this node. It has the write node's number, `sequence`, and therefore
/// its place in the queue. It may exist together with the write node, or outlive it. `id` must be
/// new.
#[must_use]
pub fn downgraded_read_name(id: &Uuid, sequence: i32) -> String {
    format!(
        "{}{sequence:010}",
        protected_prefix(id, ReadLockInternalsDriver::LOCK_NAME)
    )
}

/// Uses the kind of the node, not of the driver, so either driver finds all owners in the queue.
fn verdict(queue: &Queue, own: usize) -> Verdict {
    let own_entry = queue.get(own);
    let is_reader = own_entry.is_some_and(|entry| kind(&entry.name) == ParticipantKind::Read);
    queue
        .iter()
        .take(own)
        .rposition(|entry: &QueueEntry| {
            // Two nodes with the same number belong to one holder.
            own_entry.is_none_or(|own| entry.sequence < own.sequence)
                && (!is_reader || kind(&entry.name) != ParticipantKind::Read)
        })
        .map_or(Verdict::Owns, Verdict::WaitsFor)
}

/// Whether these children, which have the same number, can be nodes of one writer: at most one
/// write node, which the server numbered, and read nodes named after it. Several read nodes are
/// possible: a released one is deleted in the background while its owner takes the read lock again.
/// The only number that the server itself repeats is its last, which [`Queue::of`] has refused
/// earlier.
fn are_of_one_writer(children: &[&str]) -> bool {
    children
        .iter()
        .filter(|child| kind(child) == ParticipantKind::Write)
        .count()
        <= 1
}

fn kind(child: &str) -> ParticipantKind {
    // A child that is neither kind of node has no number, so it is in no queue.
    read_or_write(child).map_or(ParticipantKind::Exclusive, |(kind, _)| kind)
}

/// A child's kind and number. The kind is unique, because only the number may follow the lock name.
fn read_or_write(child: &str) -> Option<(ParticipantKind, i32)> {
    let lock_names = [
        (ParticipantKind::Read, ReadLockInternalsDriver::LOCK_NAME),
        (ParticipantKind::Write, WriteLockInternalsDriver::LOCK_NAME),
    ];
    lock_names.into_iter().find_map(|(kind, lock_name)| {
        sequence_after(child, lock_name).map(|sequence| (kind, sequence))
    })
}

#[cfg(test)]
mod tests;
