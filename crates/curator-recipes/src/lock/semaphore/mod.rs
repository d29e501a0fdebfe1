//! A number of leases that all processes share.

mod internals;
mod lease;
mod mutex;

use std::sync::Arc;
use std::time::Duration;

use curator_client::{CuratorClient, ZPath};
use curator_protocol::ParticipantKind;

use self::internals::{LimitSource, SemaphoreInternals};
pub use self::lease::SemaphoreLease;
pub use self::mutex::InterProcessSemaphoreMutex;
use super::acquire_methods::Wait;
use super::participants::Participant;
use crate::error::{Error, Result};
use crate::shared_count::SharedCount;

/// Gives a number of leases to all processes that use the same path, and not one more.
///
/// Curator's class of the same name, and compatible with it on one path.
///
/// ```no_run
/// use curator_recipes::InterProcessSemaphoreV2;
/// # async fn example(client: curator_recipes::client::CuratorClient) -> Result<(), curator_recipes::Error> {
/// let downloads = InterProcessSemaphoreV2::new(&client, "/limits/downloads", 5)?;
/// let lease = downloads.acquire().await?;
/// // ... at most five at a time, wherever they run
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - *Never more* valid leases than the number says, if all say the same, or a [`SharedCount`] says it.
/// - *Fair*: who asks first is served first. Who asks for many is not passed by those who ask for one.
/// - *All or nothing*: [`acquire_many`](Self::acquire_many) takes its leases in one step. It never holds some while it
///   waits for others, so two of them cannot wait for each other.
/// - *Herd-free*: only the first in the queue watches the leases.
/// - *Cancel-safe*, and *honest* about the loss of a lease, as the mutex is.
///
/// # Caveats
///
/// It is not reentrant, and belongs to nobody: a task that holds a lease and asks for another gets another, or waits. Any
/// task may give a lease back.
///
/// Every process should say the same number of leases; each obeys the number that it was told itself. A [`SharedCount`] is
/// safe from that. When it is lowered, nobody loses a lease, and nobody gets one until there are fewer than it says.
///
/// Children of the path's `leases` that are no leases use up nothing here. Java's Curator counts them.
///
/// It needs ZooKeeper 3.6 or newer. The [fencing tokens](crate::FencingToken) of leases rise in the order in which they
/// were given, which orders their holders only if there is a single lease. Leases that were given together have the same.
#[derive(Debug, Clone)]
pub struct InterProcessSemaphoreV2 {
    internals: SemaphoreInternals,
}

impl InterProcessSemaphoreV2 {
    /// A semaphore on `path` with a fixed number of leases. Nothing is sent yet; the path is created when it is first
    /// needed.
    ///
    /// # Errors
    ///
    /// An invalid path; [`InvalidQuantity`](crate::Error::InvalidQuantity) if there are to be no leases at all.
    pub fn new(client: &CuratorClient, path: impl AsRef<str>, max_leases: usize) -> Result<Self> {
        let internals = SemaphoreInternals::new(client, path.as_ref(), LimitSource::Fixed(max_leases))?;
        if max_leases == 0 {
            return Err(Error::InvalidQuantity { path: internals.path().clone(), asked: 0, max: usize::MAX });
        }
        Ok(Self { internals })
    }

    /// A semaphore whose number of leases stands in a node, and may be changed at any time. The waiting notice at once.
    ///
    /// The count must be of the same ensemble. If its node is missing, it is created with the count's seed. A number below
    /// one gives no lease to anybody, until it is raised.
    ///
    /// # Errors
    ///
    /// An invalid path.
    pub fn with_shared_count(client: &CuratorClient, path: impl AsRef<str>, max_leases: SharedCount) -> Result<Self> {
        let internals = SemaphoreInternals::new(client, path.as_ref(), LimitSource::Shared(max_leases))?;
        Ok(Self { internals })
    }

    /// The same semaphore with other data in the nodes of its leases, for [`participants`](Self::participants) to show. If
    /// not said, the client's default lock data. Curator's `setNodeData`.
    ///
    /// To be said when the semaphore is made: what was held before is not known to the new one.
    #[must_use]
    pub fn with_lease_data(self, data: impl Into<Arc<[u8]>>) -> Self {
        Self { internals: self.internals.with_lease_data(data.into()) }
    }

    /// Waits for a lease, for as long as it takes.
    ///
    /// If one is free: two round trips, and one to give it back.
    ///
    /// # Errors
    ///
    /// Those of the client when there is no session and its retry policy gives up;
    /// [`Closed`](curator_client::Error::Closed) as soon as the client closes. A session that is lost while waiting is no
    /// error: the wait begins anew in the next session, at the end of the queue.
    ///
    /// [`PlaceDeleted`](crate::Error::PlaceDeleted) when somebody deletes our place again and again;
    /// [`SequenceOverflow`](crate::Error::SequenceOverflow) after two thousand million nodes;
    /// [`ReleaseRefused`](crate::Error::ReleaseRefused) when leases of this client's session, or a place in the queue, that
    /// the server does not let it delete leave no room; [`InvalidSharedCount`](crate::Error::InvalidSharedCount) when the count's node holds no number.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue, and the lease if it is there already; their nodes are deleted in
    /// the background.
    pub async fn acquire(&self) -> Result<SemaphoreLease> {
        loop {
            // Without a deadline, `None` cannot be; were it ever, waiting on is what was asked for.
            if let Some(lease) = self.one(Wait::FOREVER).await? {
                return Ok(lease);
            }
        }
    }

    /// Waits for a lease, no longer than `timeout`: `None` when the time is over.
    ///
    /// The timeout is one deadline over everything: connecting, queueing and requests.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<SemaphoreLease>> {
        self.one(Wait::timeout(timeout)).await
    }

    /// Takes a lease if one is free and nobody waits: else `None`.
    ///
    /// Waits for no other contender, and tries nothing again.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), at the first failure.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<SemaphoreLease>> {
        self.one(Wait::No).await
    }

    /// Waits for as many leases, for as long as it takes. They are given all at once; each can be given back by itself.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire). [`InvalidQuantity`](crate::Error::InvalidQuantity) at once if there can never be so
    /// many, or if they are more than 100,000; under a [`SharedCount`] the first may change, so the wait goes on.
    /// [`RequestTooLarge`](curator_client::Error::RequestTooLarge) if one request has no room for so many, which is some
    /// thousands by default.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, quantity: usize) -> Result<Vec<SemaphoreLease>> {
        loop {
            // As in `acquire`.
            if let Some(leases) = self.many(quantity, Wait::FOREVER).await? {
                return Ok(leases);
            }
        }
    }

    /// Waits for as many leases, no longer than `timeout`: all of them or `None`.
    ///
    /// # Errors
    ///
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_many_timeout(
        &self,
        quantity: usize,
        timeout: Duration,
    ) -> Result<Option<Vec<SemaphoreLease>>> {
        self.many(quantity, Wait::timeout(timeout)).await
    }

    /// Takes as many leases if they are free and nobody waits: else `None`.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire), and [`InvalidQuantity`](crate::Error::InvalidQuantity).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_many(&self, quantity: usize) -> Result<Option<Vec<SemaphoreLease>>> {
        self.many(quantity, Wait::No).await
    }

    /// [`acquire`](Self::acquire) for plain threads. The client's runtime must be running elsewhere.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_acquire(&self) -> Result<SemaphoreLease> {
        self.internals.client().block_on(self.acquire())
    }

    /// [`acquire_timeout`](Self::acquire_timeout) for plain threads.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_acquire_timeout(&self, timeout: Duration) -> Result<Option<SemaphoreLease>> {
        self.internals.client().block_on(self.acquire_timeout(timeout))
    }

    /// [`try_acquire`](Self::try_acquire) for plain threads.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_try_acquire(&self) -> Result<Option<SemaphoreLease>> {
        self.internals.client().block_on(self.try_acquire())
    }

    /// Whether anybody holds a lease through this semaphore or a clone of it.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.internals.holds().is_held()
    }

    /// Who holds leases and who waits for some, in all processes: first the holders, then the waiters, first comer first in
    /// each. Two round trips, one to list and one to read what was found. Who takes leases between the two is in neither.
    ///
    /// # Errors
    ///
    /// Those of the client when its retry policy gives up.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        self.internals.participants(ParticipantKind::Lease).await
    }

    /// The semaphore's path, as it is called on the server (chroot and namespace included).
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.internals.path()
    }

    async fn one(&self, wait: Wait) -> Result<Option<SemaphoreLease>> {
        // One was asked for, so one it is.
        Ok(self.many(1, wait).await?.and_then(|mut leases| leases.pop()))
    }

    async fn many(&self, quantity: usize, wait: Wait) -> Result<Option<Vec<SemaphoreLease>>> {
        let guards = self.internals.acquire(quantity, wait).await?;
        let lease = |guard| SemaphoreLease::new(guard, self.internals.lease_data());
        Ok(guards.map(|guards| guards.into_iter().map(lease).collect()))
    }
}
