//! Drivers other than those that ship: some are correct variants, some are wrong on purpose.

use curator_protocol::{LockInternalsDriver, ParticipantKind, Queue, StandardLockInternalsDriver, Uuid, Verdict};

use super::scenario::WRITER;

const MUTEX: &dyn LockInternalsDriver = &StandardLockInternalsDriver::new();
pub(crate) const LOOKS_AGAIN: &dyn LockInternalsDriver = &Changed(MUTEX, Change::LooksAgain);
pub(crate) const IMPATIENT: &dyn LockInternalsDriver = &Changed(MUTEX, Change::Impatient);
pub(crate) const OVERCONFIDENT: &dyn LockInternalsDriver = &Changed(WRITER, Change::Overconfident);
pub(crate) const ENDLESS: &dyn LockInternalsDriver = &Changed(WRITER, Change::Endless);

/// A driver that ships, with one change.
#[derive(Debug)]
struct Changed(&'static dyn LockInternalsDriver, Change);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// Correct: predecessors are not final, since others may replace their node by a second one.
    LooksAgain,
    /// Wrong: any deletion of the node before it is ownership.
    Impatient,
    /// Wrong: for this writer a deletion of the node before it is ownership, though a read node may have replaced it.
    Overconfident,
    /// Wrong: accepts the last number, and takes any node with its own number for its own reader.
    Endless,
}

impl LockInternalsDriver for Changed {
    fn node_prefix(&self, id: &Uuid) -> String {
        self.0.node_prefix(id)
    }

    fn sequence(&self, child: &str) -> Option<i32> {
        let last = if self.1 == Change::Endless { i32::MAX - 1 } else { i32::MAX };
        self.0.sequence(child).map(|number| number.min(last))
    }

    fn kind(&self, child: &str) -> ParticipantKind {
        self.0.kind(child)
    }

    fn may_share_a_number(&self, children: &[&str]) -> bool {
        matches!(self.1, Change::LooksAgain | Change::Endless) || self.0.may_share_a_number(children)
    }

    fn verdict(&self, queue: &Queue, own: usize) -> Verdict {
        let number = |place: usize| queue.get(place).map(|entry| entry.sequence);
        match own.checked_sub(1) {
            Some(before) if self.1 == Change::Impatient && number(before).map(|n| n + 1) != number(own) => {
                Verdict::Owns
            }
            _ => self.0.verdict(queue, own),
        }
    }

    fn predecessors_are_final(&self) -> bool {
        match self.1 {
            Change::LooksAgain => false,
            Change::Overconfident => true,
            _ => self.0.predecessors_are_final(),
        }
    }
}
