//! Who asks for a lock inside this process: what makes a second acquire a re-entry.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ThreadId;

/// The owner of a hold: what makes a second acquire a re-entry.
///
/// Curator's locks belong to threads. A task moves between threads, so here a lock belongs to the *task*, or to the
/// thread where there is no task (a plain thread, or the future that `block_on` runs).
///
/// # Caveats
///
/// - Futures joined inside one task (`join!`, `select!`) are one owner: one of them re-enters what the other holds. To
///   tell them apart, give each its own [`OwnerId::new`].
/// - A guard may be moved to another task; the hold still belongs to the task that acquired it. tokio says that the id
///   of a task that has ended may be used again, so a guard that outlives its task could be re-entered by a stranger.
///   Where guards outlive tasks, use [`OwnerId::new`] and `acquire_as`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnerId(Kind);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Kind {
    Task(tokio::task::Id),
    Thread(ThreadId),
    Explicit(u64),
}

impl OwnerId {
    /// The current task, else the current thread.
    #[must_use]
    pub fn current() -> Self {
        Self(match tokio::task::try_id() {
            Some(task) => Kind::Task(task),
            None => Kind::Thread(std::thread::current().id()),
        })
    }

    /// An owner that is neither a task nor a thread: for a lock that follows a request, say. Each call makes another
    /// owner; clones are the same one.
    #[expect(clippy::new_without_default, reason = "every call makes a different owner, which no default should")]
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(Kind::Explicit(NEXT.fetch_add(1, Ordering::Relaxed)))
    }
}

impl std::fmt::Display for OwnerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Task(id) => write!(f, "task {id}"),
            Kind::Thread(id) => write!(f, "{id:?}"),
            Kind::Explicit(id) => write!(f, "owner {id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tasks_differ_and_one_task_is_one_owner() {
        let (a, again) = tokio::spawn(async {
            let first = OwnerId::current();
            tokio::task::yield_now().await;
            (first, OwnerId::current())
        })
        .await
        .unwrap();
        assert_eq!(a, again);
        let b = tokio::spawn(async { OwnerId::current() }).await.unwrap();
        assert_ne!(a, b);
    }

    #[test]
    fn threads_differ() {
        let other = std::thread::spawn(OwnerId::current).join().unwrap();
        assert_eq!(OwnerId::current(), OwnerId::current());
        assert_ne!(OwnerId::current(), other);
    }

    #[test]
    fn explicit_owners_are_themselves_only() {
        let owner = OwnerId::new();
        assert_eq!(owner, owner.clone());
        assert_ne!(owner, OwnerId::new());
    }
}
