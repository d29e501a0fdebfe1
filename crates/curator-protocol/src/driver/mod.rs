//! The names of a lock's nodes, and when a node owns the lock.
//!
//! A driver computes a verdict from names. What all locks have in common is in the
//! [`Contest`](crate::Contest); what distinguishes them is in a [`LockInternalsDriver`].

mod read_write;
mod standard;

use std::fmt;

use uuid::Uuid;

use crate::queue::{Queue, QueueEntry, SequenceOverflow};

pub use self::read_write::{
    ReadLockInternalsDriver, WriteLockInternalsDriver, downgraded_read_name,
};
pub use self::standard::StandardLockInternalsDriver;

/// Whether a contender owns the lock, and if not, which node it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a node owns the lock or waits for another"
)]
pub enum Verdict {
    /// The node owns the lock.
    Owns,
    /// The node does not own the lock. It waits for the nearest node that blocks it, which is at
    /// this place in the queue, always before the node's own place.
    WaitsFor(usize),
}

/// The kind of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ParticipantKind {
    /// Shares the lock with no other contender.
    Exclusive,
    /// Shares the lock with other readers.
    Read,
    /// Shares the lock only with the read lock of the same holder.
    Write,
    /// Holds or waits for leases.
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

/// What distinguishes one kind of lock from another: the names of its nodes, and when one of them
/// owns the lock.
///
/// Modelled on Curator's class of the same name.
///
/// # Guarantees required of an implementation
///
/// The contest relies on these, for a node at any place in any queue:
///
/// - *Only nodes before it count.* Nodes behind it do not change its verdict.
/// - *It waits for a node that blocks it.* While both exist, it does not own the lock, whatever
///   other nodes are created or deleted. Otherwise it would miss its turn.
/// - *Ownership is stable.* Deleting a node before it never takes the lock away.
///
/// This excludes a driver for "the first n nodes own the lock": a node behind n holders would have
/// to wait for *any* of them. The semaphores use a mutex instead, as in Curator's
/// `InterProcessSemaphoreV2`.
pub trait LockInternalsDriver: fmt::Debug + Send + Sync + 'static {
    /// The name of a contender's node, up to where the server appends the sequence number. It must
    /// contain `id`, by which the contender finds the node if the answer to its create is lost.
    ///
    /// `id` is new for each attempt to enqueue, and never used in two sessions: reuse would permit
    /// two holders (Curator issue 1121).
    fn node_prefix(&self, id: &Uuid) -> String;

    /// The sequence number in a child's name; `None` if the child does not contend for this lock.
    ///
    /// The number is [`i32::MAX`] or negative if the parent's counter is exhausted. A queue with
    /// such a number has no owner.
    fn sequence(&self, child: &str) -> Option<i32>;

    /// The kind of the contender that this child belongs to. Called only for children that have a
    /// [sequence](Self::sequence) number.
    fn kind(&self, _child: &str) -> ParticipantKind {
        ParticipantKind::Exclusive
    }

    /// Whether the node at place `own` owns the lock.
    ///
    /// Also called for other contenders' nodes, to find all owners.
    fn verdict(&self, queue: &Queue, own: usize) -> Verdict;

    /// Whether these children, at least two, may all have the same number.
    ///
    /// The server assigns each number once, until its counter is exhausted. So unless the driver
    /// permits it, a queue that contains a number twice has no owner. Permit it only if a
    /// contender can create a second node with the number that the server gave to its first, and
    /// only for children that may own the lock together.
    fn may_share_a_number(&self, _children: &[&str]) -> bool {
        false
    }

    /// Whether the blockers of a waiter are final: no new node that blocks it can appear before it.
    ///
    /// If so, a waiter owns the lock when the last node before it is deleted, without another list.
    /// If not, the waiter always lists again. An example is a writer: a write lock before it can
    /// become a read lock.
    fn predecessors_are_final(&self) -> bool {
        true
    }

    /// Whether a waiter also watches the blocker before the nearest one, to list before its turn.
    ///
    /// This saves one round trip at the hand-over, for one more wake-up. It does not suit drivers
    /// where many contenders wait for the same node (readers behind writers): all of them would be
    /// woken twice. Without it, a waiter with one blocker still owns the lock as soon as the
    /// blocker is deleted; a waiter with several blockers watches only the nearest, and lists
    /// again.
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
    /// [`SequenceOverflow`] if a contender's number is negative or the highest possible one, or if
    /// several have the same number and the driver does not
    /// [permit](LockInternalsDriver::may_share_a_number) that.
    pub fn of<C>(
        children: impl IntoIterator<Item = C>,
        driver: &dyn LockInternalsDriver,
    ) -> Result<Self, SequenceOverflow>
    where
        C: AsRef<str> + Into<String>,
    {
        let queue = Self::in_any_order(children, driver);
        let refused = |entry: &QueueEntry| {
            Err(SequenceOverflow {
                name: entry.name.clone(),
            })
        };
        if let Some(exhausted) = queue
            .entries
            .iter()
            .find(|entry| !(0..i32::MAX).contains(&entry.sequence))
        {
            return refused(exhausted);
        }
        for same in queue
            .entries
            .chunk_by(|one, other| one.sequence == other.sequence)
        {
            let [_, .., last] = same else { continue };
            let names: Vec<_> = same.iter().map(|entry| entry.name.as_str()).collect();
            if !driver.may_share_a_number(&names) {
                return refused(last);
            }
        }
        Ok(queue)
    }

    /// Like [`of`](Self::of), but accepts numbers that define no order. Used for leases, which are
    /// only counted.
    pub fn in_any_order<C>(
        children: impl IntoIterator<Item = C>,
        driver: &dyn LockInternalsDriver,
    ) -> Self
    where
        C: AsRef<str> + Into<String>,
    {
        let mut entries: Vec<_> = children
            .into_iter()
            .filter_map(|child: C| {
                Some(QueueEntry {
                    sequence: driver.sequence(child.as_ref())?,
                    name: child.into(),
                })
            })
            .collect();
        entries.sort_unstable();
        Self { entries }
    }
}

/// Curator's name for a protected node, without the sequence number: `_c_<uuid>-<lock name>`.
fn protected_prefix(id: &Uuid, lock_name: &str) -> String {
    format!("_c_{id}-{lock_name}")
}

/// The number that the server appended after the *last* occurrence of `lock_name`. Curator sorts by
/// this number.
///
/// `None` unless the rest is exactly as the server writes it: ten digits, or, once the counter is
/// exhausted, a minus sign and digits. Children with other names are not contenders, and must not
/// block any.
#[must_use]
pub fn sequence_after(child: &str, lock_name: &str) -> Option<i32> {
    // Fast path: most names end with ten digits, and these cannot contain a lock name with a
    // character that is not a digit. So the lock name ends right before them, or before a minus
    // sign, or the child has no number.
    if let Some((name, digits)) = child
        .len()
        .checked_sub(10)
        .and_then(|at| child.split_at_checked(at))
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
    sequence_after_slow(child, lock_name)
}

/// Like [`sequence_after`], but without the fast path.
fn sequence_after_slow(child: &str, lock_name: &str) -> Option<i32> {
    let (_, text) = child.rsplit_once(lock_name)?;
    let number: i32 = text.parse().ok()?;
    (format!("{number:010}") == text).then_some(number)
}

#[cfg(test)]
mod tests;
