//! The exclusive lock that is not reentrant.

use std::sync::Arc;

use curator_client::{CuratorClient, ZPath};
use curator_protocol::ParticipantKind;

use super::internals::{LimitSource, SemaphoreInternals};
use crate::error::Result;
use crate::lock::acquire_methods::{Wait, acquire_methods};
use crate::lock::guard::LockGuard;
use crate::lock::inter_process_lock::implement_inter_process_lock;
use crate::lock::owner::OwnerId;
use crate::lock::participants::Participant;

/// A lock that is held once at a time, in all processes that use the same path, whoever asks: it is not reentrant.
///
/// It belongs to no task. A task that holds it and asks again waits for itself, and any task may release a guard. Where that
/// is not needed, [`InterProcessMutex`](crate::InterProcessMutex) is cheaper: three requests for a cycle, and four here.
///
/// Curator's class of the same name, and compatible with it on one path: a semaphore with one lease.
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
#[derive(Debug, Clone)]
pub struct InterProcessSemaphoreMutex {
    internals: SemaphoreInternals,
}

impl InterProcessSemaphoreMutex {
    /// A mutex on `path`. Nothing is sent yet; the path is created when it is first needed.
    ///
    /// # Errors
    ///
    /// An invalid path.
    pub fn new(client: &CuratorClient, path: impl AsRef<str>) -> Result<Self> {
        Ok(Self { internals: SemaphoreInternals::new(client, path.as_ref(), LimitSource::Fixed(1))? })
    }

    /// The same mutex with other data in the node of its holder, for [`participants`](Self::participants) to show. If not
    /// said, the client's default lock data.
    ///
    /// To be said when the lock is made: what was held before is not known to the new one.
    #[must_use]
    pub fn with_lock_data(self, data: impl Into<Arc<[u8]>>) -> Self {
        Self { internals: self.internals.with_lease_data(data.into()) }
    }

    acquire_methods!(
        LockGuard,
        "Who holds it already, waits for itself: it is not reentrant, and the owner is not looked at."
    );

    /// Whether anybody holds the lock through this instance or a clone of it.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.internals.holds().is_held()
    }

    /// Who holds the lock and who waits for it, in all processes: first the holder, then the waiters. Two round
    /// trips. Who takes the lock between the two is in neither.
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

    /// The mutex's path, as it is called on the server (chroot and namespace included).
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.internals.path()
    }

    /// Its queue is that of a mutex on this very path.
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
