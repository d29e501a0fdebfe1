//! The exclusive lock that is not reentrant.

use std::sync::Arc;

use curator_client::{CuratorClient, NodePath, ZPath};
use curator_protocol::ParticipantKind;

use super::internals::{LimitSource, SemaphoreInternals};
use crate::debug::debug_line;
use crate::error::Result;
use crate::lock::acquire_methods::acquire_methods;
use crate::lock::guard::LockGuard;
use crate::lock::inter_process_lock::implement_inter_process_lock;
use crate::lock::participants::Participant;
use crate::owner::OwnerId;
use crate::wait::Wait;

/// A lock that is held at most once at a time, in all processes that use the same path, even by the same owner: it is
/// not reentrant.
///
/// It belongs to no task. A task that holds it and asks again waits for itself, and any task may release a guard. A
/// [non-reentrant](crate::InterProcessMutex::non_reentrant) `InterProcessMutex` does the same with three requests for a cycle,
/// where this lock takes four; this one is for paths that programs in Java use with the class of the same name.
///
/// Curator's class of the same name, and compatible with it on the same path: a semaphore with one lease.
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
/// Those of [`InterProcessMutex`](crate::InterProcessMutex), except that it is not reentrant.
#[derive(Clone)]
pub struct InterProcessSemaphoreMutex {
    internals: SemaphoreInternals,
}

debug_line!(InterProcessSemaphoreMutex, |lock| path: lock.path(), held: lock.is_acquired_in_this_process(), connection: lock.client().connection_state());

impl InterProcessSemaphoreMutex {
    /// Makes a mutex on `path`. Nothing is sent yet; the path is created when it is first needed.
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

    /// The same mutex, with other data in its holder's node, for [`participants`](Self::participants) to show. Defaults
    /// to the client's default lock data.
    ///
    /// Call this when you make the lock: the new one does not know what the old one holds.
    #[must_use]
    pub fn with_lock_data(self, data: impl Into<Arc<[u8]>>) -> Self {
        Self { internals: self.internals.with_lease_data(data.into()) }
    }

    /// The same lock, with a name for what is measured: the label `lock` of the metrics `curator_lock_*`. Defaults to none. Locks that share
    /// a name are measured together; a name for each path would be too many for most stores.
    ///
    /// Call this when you make the lock: the new one does not know what the old one holds.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn with_metrics_name(self, name: impl Into<Arc<str>>) -> Self {
        Self { internals: self.internals.with_metrics_name(name.into()) }
    }

    acquire_methods!(
        LockGuard,
        "A caller that already holds the lock waits for itself: the lock is not reentrant, and ignores the owner."
    );

    /// Whether anyone holds the lock through this instance or a clone of it.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.internals.holds().is_held()
    }

    /// Lists who holds the lock and who waits for it, in all processes: the holder, followed by the waiters.
    ///
    /// One round trip for the lists, and one for each 64 nodes that they name. A contender that takes the lock between the
    /// two is in neither group.
    ///
    /// # Errors
    ///
    /// Those of the client when its retry policy gives up.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        self.internals.participants(ParticipantKind::Exclusive).await
    }

    /// The mutex's path on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.internals.path()
    }

    /// Its queue is that of a mutex on this same path.
    fn paths(&self) -> Vec<ZPath> {
        vec![self.internals.queue_dir().clone()]
    }

    fn client(&self) -> &CuratorClient {
        self.internals.client()
    }

    async fn enter(&self, _owner: &OwnerId, wait: Wait) -> Result<Option<LockGuard>> {
        Ok(self.internals.acquire(1, wait).await?.and_then(|mut guards| guards.pop()))
    }
}

implement_inter_process_lock!(InterProcessSemaphoreMutex);
