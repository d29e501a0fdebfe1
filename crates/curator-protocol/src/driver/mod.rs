//! What a lock's nodes are called, and when a node owns the lock.
//!
//! Names in, a verdict out. Everything that all locks have in common is in the [`Contest`](crate::Contest); what
//! distinguishes them is in a [`LockInternalsDriver`].

mod read_write;
mod standard;

use std::fmt;

use uuid::Uuid;

use crate::queue::{Queue, QueueEntry, SequenceOverflow};

pub use self::read_write::{ReadLockInternalsDriver, WriteLockInternalsDriver, downgraded_read_name};
pub use self::standard::StandardLockInternalsDriver;

/// Whether a contender owns the lock, and if not, which one it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a question with two answers")]
pub enum Verdict {
    /// It owns the lock.
    Owns,
    /// It does not own the lock. This is the place in the queue of the nearest node that blocks it; always before its
    /// own place.
    WaitsFor(usize),
}

/// What kind of contender a node stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParticipantKind {
    /// It shares the lock with no one.
    Exclusive,
    /// It shares the lock with other readers.
    Read,
    /// It shares the lock only with its own reader, where others share it.
    Write,
    /// It holds one of several leases, or waits for some.
    Lease,
}

impl fmt::Display for ParticipantKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exclusive => "exclusive",
            Self::Read => "read",
            Self::Write => "write",
            Self::Lease => "lease",
        })
    }
}

/// What distinguishes one kind of lock from another: the names of its nodes, and when one of them owns the lock.
///
/// The idea is Curator's class of the same name.
///
/// # Guarantees required of an implementation
///
/// The contest relies on these. For a node at any place in any queue:
///
/// - *Only what is before it matters.* Nodes behind it do not change its verdict.
/// - *It waits for what blocks it.* While both it and the node that it waits for exist, it does not own the lock,
///   whichever others come or go. Otherwise it would sleep through its turn.
/// - *What it owns, it keeps.* A deletion before it never takes the lock away.
///
/// That is why there is no driver for "the first n own it": a node behind n holders would have to wait for *any* of
/// them. The semaphores are built on a mutex instead, as in Curator's `InterProcessSemaphoreV2`.
pub trait LockInternalsDriver: fmt::Debug + Send + Sync + 'static {
    /// The name of a contender's node, up to where the server appends the sequence number. It must contain `id`: that is
    /// how a node is found again if the answer to its create is lost.
    ///
    /// `id` is new for each attempt to enqueue. It is never used in two sessions: that is how a lock can end up with two
    /// holders (Curator issue 1121).
    fn node_prefix(&self, id: &Uuid) -> String;

    /// The sequence number in a child's name; `None` if the child does not contend for this lock.
    ///
    /// [`i32::MAX`] or negative if the parent's counter is exhausted. A queue that contains such a number has no owner.
    fn sequence(&self, child: &str) -> Option<i32>;

    /// The kind of contender that this child is. Called only for children that have a [sequence](Self::sequence) number.
    fn kind(&self, _child: &str) -> ParticipantKind {
        ParticipantKind::Exclusive
    }

    /// Whether the node at place `own` owns the lock.
    ///
    /// Also called for other contenders' nodes, to find out which of them own the lock.
    fn verdict(&self, queue: &Queue, own: usize) -> Verdict;

    /// Whether these children, at least two, may all have the same number.
    ///
    /// The server assigns each number once, until its counter is exhausted. So unless the driver permits it, a queue in
    /// which a number occurs twice has no owner. Permit it only if a contender names another node of its own after one
    /// that the server has numbered, and only for children that may own the lock together.
    fn may_share_a_number(&self, _children: &[&str]) -> bool {
        false
    }

    /// Whether no node that matters to a waiter can still appear before it.
    ///
    /// If so, a waiter that has seen the last node before it disappear owns the lock, without a second look. If not (for
    /// a writer, before which a read lock that was a write lock can appear), it always looks again.
    fn predecessors_are_final(&self) -> bool {
        true
    }

    /// Whether a waiter also watches the blocker before the nearest one, to be ready when it is next.
    ///
    /// It then owns the lock one round trip earlier, and is woken once more. This is not suitable for drivers in which
    /// many wait for the same node (readers behind writers): all of them would be woken twice. Without it, a waiter with
    /// one blocker still owns the lock as soon as the blocker is gone; one with several watches only the nearest, and
    /// looks again.
    ///
    /// Where [predecessors are not final](Self::predecessors_are_final), no waiter looks ahead.
    fn looks_ahead(&self) -> bool {
        true
    }
}

impl Queue {
    /// Makes the queue from a list of children.
    ///
    /// # Errors
    ///
    /// [`SequenceOverflow`] if a contender's number is negative or the highest possible one, or if several have the same
    /// number and the driver does not [permit](LockInternalsDriver::may_share_a_number) that.
    pub fn of<C>(
        children: impl IntoIterator<Item = C>,
        driver: &dyn LockInternalsDriver,
    ) -> Result<Self, SequenceOverflow>
    where
        C: AsRef<str> + Into<String>,
    {
        let queue = Self::in_any_order(children, driver);
        let refused = |entry: &QueueEntry| Err(SequenceOverflow { name: entry.name.clone() });
        if let Some(last) = queue.entries.iter().find(|entry| !(0..i32::MAX).contains(&entry.sequence)) {
            return refused(last);
        }
        for same in queue.entries.chunk_by(|one, other| one.sequence == other.sequence) {
            let [_, .., last] = same else { continue };
            let names: Vec<_> = same.iter().map(|entry| entry.name.as_str()).collect();
            if !driver.may_share_a_number(&names) {
                return refused(last);
            }
        }
        Ok(queue)
    }

    /// As [`of`](Self::of), even if the numbers do not define an order. For leases: they are only counted, and none is
    /// before another.
    pub fn in_any_order<C>(children: impl IntoIterator<Item = C>, driver: &dyn LockInternalsDriver) -> Self
    where
        C: AsRef<str> + Into<String>,
    {
        let numbered = |child: C| Some(QueueEntry { sequence: driver.sequence(child.as_ref())?, name: child.into() });
        let mut entries: Vec<_> = children.into_iter().filter_map(numbered).collect();
        entries.sort_unstable();
        Self { entries }
    }
}

/// Curator's name for a protected node, without the sequence number: `_c_<uuid>-<lock name>`.
fn protected_prefix(id: &Uuid, lock_name: &str) -> String {
    format!("_c_{id}-{lock_name}")
}

/// The number that the server appended after the *last* occurrence of `lock_name`, by which Curator sorts.
///
/// `None` unless the rest is exactly as the server writes it: ten digits, or, once the counter is exhausted, a minus
/// sign and digits. A child that someone else has put there must not take part, let alone be first.
#[must_use]
pub fn sequence_after(child: &str, lock_name: &str) -> Option<i32> {
    // Lists are long, and almost all their names end with ten digits, which cannot contain a lock name that has anything but
    // digits in it. So the lock name ends right before them, or before a minus sign, or the child has no such number.
    if let Some((name, digits)) = child.len().checked_sub(10).and_then(|at| child.split_at_checked(at))
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && !lock_name.bytes().all(|byte| byte.is_ascii_digit())
    {
        if name.ends_with(lock_name) {
            return digits.parse().ok();
        }
        if !name.ends_with('-') {
            return None;
        }
    }
    spelled_after(child, lock_name)
}

/// As [`sequence_after`], by the definition.
fn spelled_after(child: &str, lock_name: &str) -> Option<i32> {
    let (_, text) = child.rsplit_once(lock_name)?;
    let number: i32 = text.parse().ok()?;
    (format!("{number:010}") == text).then_some(number)
}

#[cfg(test)]
mod tests;
