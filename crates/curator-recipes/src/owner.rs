//! Identifies the owner of a lock in this process: its second acquire is a re-entry.

use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

use tokio::runtime::Handle;

/// Identifies the holder of a lock; the same owner can re-enter the lock.
///
/// Curator's locks belong to threads. A task moves between threads, so here a lock belongs to the
/// *task*, or to the thread if there is no task (on a plain thread, or in the future that
/// `block_on` runs).
///
/// Only tokio's tasks are recognized. Outside a tokio runtime, `acquire` and the other asynchronous
/// methods of a reentrant lock fail with [`OwnerUnknown`](crate::Error::OwnerUnknown): another
/// executor runs many tasks on a thread, and all of them would be the same owner. There, use
/// `acquire_as` or a [non-reentrant](crate::InterProcessMutex::non_reentrant) lock, which works on
/// any executor.
///
/// # Caveats
///
/// A lock whose owners are tasks admits every future of the task that holds it. Asynchronous code
/// rarely wants this: use a [`non_reentrant`](crate::InterProcessMutex::non_reentrant) lock, where
/// each acquire waits for all others.
///
/// - Futures that share a task (`join!`, `select!`, `buffer_unordered`) are one owner: each
///   re-enters what another holds.
/// - A guard can move to another task; the hold still belongs to the task that acquired it, and
///   that task re-enters it. A web server serves all requests of a connection in one task: if the
///   guard of one request is kept, the next request re-enters the lock.
/// - tokio may reuse the id of a task that has ended, so if a guard outlives its task, an unrelated
///   task could re-enter the lock.
/// - Tasks of another executor that runs *inside* a tokio runtime (a `LocalPool` in
///   `#[tokio::main]`, or one whose threads have entered the runtime) are not recognized: tasks
///   that share a thread, or a tokio task, are one owner.
///
/// If one of these caveats matters, and the lock must be reentrant, use [`OwnerId::new`] and
/// `acquire_as`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnerId(Kind);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Kind {
    Task(tokio::task::Id),
    Thread(ThreadId),
    Explicit(u64),
    /// A future that is polled outside a tokio runtime. Each such future has a different number.
    Unknown(u64),
}

impl OwnerId {
    /// The current task, or the current thread if there is no task.
    ///
    /// Do not pass this to `acquire_as` on an executor other than tokio's: tasks that share a
    /// thread would be one owner.
    #[must_use]
    pub fn current() -> Self {
        Self(match tokio::task::try_id() {
            Some(task) => Kind::Task(task),
            None => Kind::Thread(std::thread::current().id()),
        })
    }

    /// Returns a new owner that is neither a task nor a thread, for example for a request that
    /// moves between tasks. Each call returns a different owner; clones are the same owner.
    #[expect(
        clippy::new_without_default,
        reason = "each call returns a different owner"
    )]
    #[must_use]
    pub fn new() -> Self {
        Self(Kind::Explicit(next_number()))
    }

    /// The default owner of an asynchronous acquire: [`current`](Self::current) inside a tokio
    /// runtime, unknown outside.
    pub(crate) fn of_future() -> Self {
        // Checked first, because `Handle::try_current` clones the handle.
        match tokio::task::try_id() {
            Some(task) => Self(Kind::Task(task)),
            None if Handle::try_current().is_ok() => Self::current(),
            None => Self(Kind::Unknown(next_number())),
        }
    }

    /// Whether this owner is unknown and must not acquire a reentrant lock.
    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self.0, Kind::Unknown(_))
    }
}

fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl std::fmt::Display for OwnerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Task(id) => write!(f, "task {id}"),
            Kind::Thread(id) => write!(f, "{id:?}"),
            Kind::Explicit(id) => write!(f, "owner {id}"),
            Kind::Unknown(id) => write!(f, "unknown owner {id}"),
        }
    }
}

/// Hashes owners. Their numbers do not come from untrusted input, so the hash need not resist
/// collisions on purpose.
#[derive(Debug, Default)]
pub(crate) struct OwnerHasher(u64);

impl Hasher for OwnerHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing: an odd number near 2^64 divided by the golden ratio spreads
        // consecutive numbers.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.cast_unsigned() as u64);
    }

    fn finish(&self) -> u64 {
        // A map uses the high and the low bits.
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn inside_a_runtime_a_future_without_a_task_belongs_to_its_thread() {
        assert_eq!(OwnerId::of_future(), OwnerId::current());
    }

    #[test]
    fn each_future_outside_a_runtime_has_a_different_unknown_owner() {
        let owner = OwnerId::of_future();
        assert!(owner.is_unknown() && !OwnerId::current().is_unknown());
        assert_ne!(owner, OwnerId::of_future());
    }
}
