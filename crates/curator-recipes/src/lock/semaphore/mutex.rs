//! Curator's mutex that is not reentrant: a semaphore with one lease.

use std::sync::Arc;

use curator_client::{CuratorClient, NodePath, ZPath, debug_line};
use curator_protocol::ParticipantKind;

use super::internals::{LimitSource, SemaphoreInternals};
use crate::error::Result;
use crate::lock::guard::LockGuard;
use crate::lock::inter_process_lock::{acquire_methods, implement_inter_process_lock};
use crate::lock::participants::Participant;
use crate::owner::OwnerId;
use crate::wait::Wait;

/// A lock with at most one valid guard at a time, in all processes that use the same path. It is
/// not reentrant.
///
/// It does not belong to a task: a task that holds it and acquires again waits for itself, and any
/// task may release a guard. A [non-reentrant](crate::InterProcessMutex::non_reentrant)
/// `InterProcessMutex` does the same with three requests for an acquire and a release, where this
/// lock sends four. Use this lock on paths where Java programs use the class of the same name.
///
/// Curator's class of the same name; both can use the same path. It is implemented as a semaphore
/// with one lease.
///
/// ```no_run
/// use curator_recipes::InterProcessSemaphoreMutex;
/// # async fn example(client: curator_recipes::client::CuratorClient) -> Result<(), curator_recipes::Error> {
/// let mutex = InterProcessSemaphoreMutex::new(&client, "/locks/printer")?;
/// let guard = mutex.acquire().await?;
/// let finished = tokio::spawn(async move { guard.release().await });
/// # let _ = finished;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// The guarantees of [`InterProcessMutex`](crate::InterProcessMutex), except that it is not
/// reentrant.
///
/// A `try_acquire` waits for contenders ahead in the queue while the lock is free: see
/// [`InterProcessSemaphoreV2::try_acquire`](crate::InterProcessSemaphoreV2::try_acquire).
#[derive(Clone)]
pub struct InterProcessSemaphoreMutex {
    internals: SemaphoreInternals,
}

debug_line!(InterProcessSemaphoreMutex, |lock| path: lock.path(), held: lock.is_acquired_in_this_process(), connection: lock.client().connection_state());

impl InterProcessSemaphoreMutex {
    /// Makes a mutex on `path`. Sends nothing; the path is created when it is first needed.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn new(client: &CuratorClient, path: impl NodePath) -> Result<Self> {
        Ok(Self {
            internals: SemaphoreInternals::new(
                client,
                "semaphore mutex",
                client.resolve(path)?,
                LimitSource::Fixed(1),
            )?,
        })
    }

    /// Returns a mutex on the same path with this data in its holder's node, which
    /// [`participants`](Self::participants) returns. Defaults to the client's default lock data.
    ///
    /// Call this when you make the lock: the new lock does not share the holds of the old one.
    #[must_use]
    pub fn with_lock_data(self, data: impl Into<Arc<[u8]>>) -> Self {
        Self {
            internals: self.internals.with_lease_data(data.into()),
        }
    }

    /// Returns a lock on the same path with this value of the label `lock` in its metrics
    /// `curator_lock_*`. Defaults to none. Locks that share a name are measured together; do not
    /// use a name for each path, because most metrics stores cannot handle so many labels.
    ///
    /// Call this when you make the lock: the new lock does not share the holds of the old one.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn with_metrics_name(self, name: impl Into<Arc<str>>) -> Self {
        Self {
            internals: self.internals.with_metrics_name(name.into()),
        }
    }

    acquire_methods!(
        LockGuard,
        "A caller that already holds the lock waits for itself: the lock is not reentrant, and ignores the owner."
    );

    /// Whether the lock is held through this instance or a clone of it.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.internals.holds().is_held()
    }

    /// Lists the holder of the lock, followed by the waiters, in all processes.
    ///
    /// One round trip for the lists, and one for each 64 nodes in them. A contender that takes the
    /// lock between these two round trips is in neither group.
    ///
    /// # Errors
    ///
    /// Errors of the client when its retry policy permits no more retries.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        self.internals
            .participants(ParticipantKind::Exclusive)
            .await
    }

    /// The mutex's path on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.internals.path()
    }

    /// The directory of the queue, which an `InterProcessMutex` on that path would share.
    fn paths(&self) -> Vec<ZPath> {
        vec![self.internals.queue_dir().clone()]
    }

    fn client(&self) -> &CuratorClient {
        self.internals.client()
    }

    async fn enter(&self, _owner: &OwnerId, wait: Wait) -> Result<Option<LockGuard>> {
        Ok(self
            .internals
            .acquire(1, wait)
            .await?
            .and_then(|mut guards| guards.pop()))
    }
}

implement_inter_process_lock!(InterProcessSemaphoreMutex);
