//! Variants of the published drivers: some are correct, some are wrong on purpose.

use curator_protocol::{
    LockInternalsDriver, ParticipantKind, Queue, StandardLockInternalsDriver, Uuid, Verdict,
};

use super::scenario::WRITER;

const MUTEX: &dyn LockInternalsDriver = &StandardLockInternalsDriver::new();
pub(crate) const LISTS_AGAIN: &dyn LockInternalsDriver = &Changed(MUTEX, Change::ListsAgain);
pub(crate) const OWNS_TOO_EARLY: &dyn LockInternalsDriver = &Changed(MUTEX, Change::OwnsTooEarly);
pub(crate) const TRUSTS_PREDECESSORS: &dyn LockInternalsDriver =
    &Changed(WRITER, Change::TrustsPredecessors);
pub(crate) const IGNORES_OVERFLOW: &dyn LockInternalsDriver =
    &Changed(WRITER, Change::IgnoresOverflow);

/// A published driver with one change.
#[derive(Debug)]
struct Changed(&'static dyn LockInternalsDriver, Change);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Correct: predecessors are not final, since another contender may replace its node with a
    /// second one.
    ListsAgain,
    /// Wrong: a node owns the lock as soon as the number before its own is missing from the queue.
    OwnsTooEarly,
    /// Wrong: a writer's predecessors are final, although a read node may replace the deleted node
    /// before it.
    TrustsPredecessors,
    /// Wrong: accepts the last number, and treats all nodes with the same number as nodes of one
    /// holder.
    IgnoresOverflow,
}

impl LockInternalsDriver for Changed {
    fn node_prefix(&self, id: &Uuid) -> String {
        self.0.node_prefix(id)
    }

    fn sequence(&self, child: &str) -> Option<i32> {
        let last = if self.1 == Change::IgnoresOverflow {
            i32::MAX - 1
        } else {
            i32::MAX
        };
        self.0.sequence(child).map(|number| number.min(last))
    }

    fn kind(&self, child: &str) -> ParticipantKind {
        self.0.kind(child)
    }

    fn may_share_a_number(&self, children: &[&str]) -> bool {
        matches!(self.1, Change::ListsAgain | Change::IgnoresOverflow)
            || self.0.may_share_a_number(children)
    }

    fn verdict(&self, queue: &Queue, own: usize) -> Verdict {
        let number = |place: usize| queue.get(place).map(|entry| entry.sequence);
        match own.checked_sub(1) {
            Some(before)
                if self.1 == Change::OwnsTooEarly
                    && number(before).map(|n| n + 1) != number(own) =>
            {
                Verdict::Owns
            }
            _ => self.0.verdict(queue, own),
        }
    }

    fn predecessors_are_final(&self) -> bool {
        match self.1 {
            Change::ListsAgain => false,
            Change::TrustsPredecessors => true,
            _ => self.0.predecessors_are_final(),
        }
    }
}
