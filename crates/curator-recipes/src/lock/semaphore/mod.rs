//! A number of leases, shared by all processes.

mod internals;
mod lease;
mod mutex;

use std::sync::Arc;
use std::time::Duration;

use curator_client::{CuratorClient, NodePath, ZPath};
use curator_protocol::ParticipantKind;

use self::internals::{LimitSource, SemaphoreInternals};
pub use self::lease::SemaphoreLease;
pub use self::mutex::InterProcessSemaphoreMutex;
use super::participants::Participant;
use crate::debug::debug_line;
use crate::error::{Error, Result};
use crate::shared::SharedCount;
use crate::wait::Wait;

/// A number of leases, shared by all processes that use the same path, and never exceeded.
///
/// Curator's class of the same name, and compatible with it on the same path.
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
/// - *Never more* valid leases than the number, if all processes use the same one, or a [`SharedCount`].
/// - *Fair*: first come, first served. A contender that asks for many leases is not overtaken by others that ask for
///   one.
/// - *All or nothing*: [`acquire_many`](Self::acquire_many) takes its leases in one step. It never holds some while it
///   waits for others, so two such calls cannot wait for each other.
/// - *Herd-free*: only the first in the queue watches the leases.
/// - *Cancel-safe*, and *honest* about the loss of a lease, like the mutex.
///
/// # Caveats
///
/// It is not reentrant, and leases belong to no task: a task that holds a lease and asks for another gets another, or
/// waits. Any task may give a lease back.
///
/// All processes should use the same number of leases; each process obeys its own. A [`SharedCount`] avoids that
/// problem. When it is lowered, no lease is lost, and no lease is granted until there are fewer than the new number.
///
/// Children of the path's `leases` that are not leases are not counted here. Java's Curator counts them.
///
/// It needs ZooKeeper 3.6 or newer. The [fencing tokens](crate::FencingToken) of leases increase in the order in which
/// they were granted, which orders their holders only if there is a single lease. Leases that were granted together have
/// the same token.
#[derive(Clone)]
pub struct InterProcessSemaphoreV2 {
    internals: SemaphoreInternals,
}

debug_line!(InterProcessSemaphoreV2, |semaphore| path: semaphore.path(), held: semaphore.is_acquired_in_this_process(), connection: semaphore.internals.client().connection_state());

impl InterProcessSemaphoreV2 {
    /// Makes a semaphore on `path` with a fixed number of leases. Nothing is sent yet; the path is created when it is
    /// first needed.
    ///
    /// # Errors
    ///
    /// When the path is invalid; [`InvalidQuantity`](crate::Error::InvalidQuantity) when the number of leases is zero.
    pub fn new(client: &CuratorClient, path: impl NodePath, max_leases: usize) -> Result<Self> {
        let internals =
            SemaphoreInternals::new(client, "semaphore", client.resolve(path)?, LimitSource::Fixed(max_leases))?;
        if max_leases == 0 {
            return Err(Error::InvalidQuantity { path: internals.path().clone(), asked: 0, max: usize::MAX });
        }
        Ok(Self { internals })
    }

    /// Makes a semaphore whose number of leases is stored in a node, and may be changed at any time. Waiters notice a
    /// change at once.
    ///
    /// The count must be on the same ensemble. If its node is missing, it is created with the count's seed. While the
    /// number is below one, no lease is granted.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn with_shared_count(client: &CuratorClient, path: impl NodePath, max_leases: SharedCount) -> Result<Self> {
        let internals =
            SemaphoreInternals::new(client, "semaphore", client.resolve(path)?, LimitSource::Shared(max_leases))?;
        Ok(Self { internals })
    }

    /// The same semaphore, with other data in the nodes of its leases, for [`participants`](Self::participants) to show.
    /// Defaults to the client's default lock data. Curator's `setNodeData`.
    ///
    /// Call this when you make the semaphore: the new one does not know what the old one holds.
    #[must_use]
    pub fn with_lease_data(self, data: impl Into<Arc<[u8]>>) -> Self {
        Self { internals: self.internals.with_lease_data(data.into()) }
    }

    /// The same semaphore, with a name for what is measured: the label `lock` of the metrics `curator_lock_*`. Defaults to none. Semaphores that share
    /// a name are measured together; a name for each path would be too many for most stores.
    ///
    /// Call this when you make the semaphore: the new one does not know what the old one holds.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn with_metrics_name(self, name: impl Into<Arc<str>>) -> Self {
        Self { internals: self.internals.with_metrics_name(name.into()) }
    }

    /// Waits for a lease, for as long as it takes.
    ///
    /// If one is free, this takes two round trips, and giving it back takes one.
    ///
    /// # Errors
    ///
    /// [`AcquireFailed`](crate::Error::AcquireFailed) when there is no session, or requests fail, and the client's retry
    /// policy gives up; with [`RetryForever`](curator_client::RetryForever) it never does, and the acquire waits through an
    /// outage of any length. [`Client`](crate::Error::Client) at once for an error that a retry cannot help, such as a missing
    /// permission; [`Closed`](curator_client::Error::Closed) in it as soon as the client closes. It is not an error if the
    /// session is lost while waiting: the wait starts over in the next session, at the end of the queue.
    ///
    /// [`PlaceDeleted`](crate::Error::PlaceDeleted) when someone keeps deleting our place;
    /// [`SequenceOverflow`](crate::Error::SequenceOverflow) after two billion (2^31) nodes;
    /// [`ReleaseRefused`](crate::Error::ReleaseRefused) when there is no room because of leases of this client's
    /// session, or a place in the queue, whose deletion the server does not permit;
    /// [`InvalidSharedValue`](crate::Error::InvalidSharedValue) when the count's node does not contain a number.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue, and the lease if it has already been taken; their nodes are
    /// deleted in the background.
    pub async fn acquire(&self) -> Result<SemaphoreLease> {
        loop {
            // Without a deadline, `None` cannot occur; if it did, waiting on would be what the caller asked for.
            if let Some(lease) = self.one(Wait::FOREVER).await? {
                return Ok(lease);
            }
        }
    }

    /// Waits for a lease, no longer than `timeout`; returns `None` when the time is up: the others have all leases or are
    /// before us, or the servers have been slow to answer.
    ///
    /// The timeout is one deadline for everything: connecting, queueing and requests. A timeout of zero is
    /// [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    ///
    /// The same as [`acquire`](Self::acquire); [`NotConnected`](curator_client::Error::NotConnected) in
    /// [`Client`](crate::Error::Client) if there is no connection when the time is up, or the session is
    /// [suspended](curator_client::ConnectionState::Suspended).
    ///
    /// # Cancel safety
    ///
    /// The same as [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<SemaphoreLease>> {
        self.one(Wait::timeout(timeout)).await
    }

    /// Takes a lease if one is free and no one is waiting, or else returns `None`.
    ///
    /// Waits for no other contender, and retries nothing.
    ///
    /// # Errors
    ///
    /// The same as [`acquire`](Self::acquire), at the first failure.
    ///
    /// # Cancel safety
    ///
    /// The same as [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<SemaphoreLease>> {
        self.one(Wait::No).await
    }

    /// Waits for `quantity` leases, for as long as it takes. They are granted all at once; each can be given back
    /// individually.
    ///
    /// # Errors
    ///
    /// The same as [`acquire`](Self::acquire). [`InvalidQuantity`](crate::Error::InvalidQuantity) at once if there can
    /// never be so many, or if they are more than 100,000; under a [`SharedCount`] the number may change, so in the
    /// first case the wait goes on. [`RequestTooLarge`](curator_client::Error::RequestTooLarge) if so many do not fit
    /// into one request, which by default has room for some thousands.
    ///
    /// # Cancel safety
    ///
    /// The same as [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, quantity: usize) -> Result<Vec<SemaphoreLease>> {
        loop {
            // As in `acquire`.
            if let Some(leases) = self.many(quantity, Wait::FOREVER).await? {
                return Ok(leases);
            }
        }
    }

    /// Waits for `quantity` leases, no longer than `timeout`; returns all of them, or `None`.
    ///
    /// # Errors
    ///
    /// The same as [`acquire_many`](Self::acquire_many).
    ///
    /// # Cancel safety
    ///
    /// The same as [`acquire`](Self::acquire).
    pub async fn acquire_many_timeout(
        &self,
        quantity: usize,
        timeout: Duration,
    ) -> Result<Option<Vec<SemaphoreLease>>> {
        self.many(quantity, Wait::timeout(timeout)).await
    }

    /// Takes `quantity` leases if they are free and no one is waiting, or else returns `None`.
    ///
    /// # Errors
    ///
    /// The same as [`try_acquire`](Self::try_acquire), and [`InvalidQuantity`](crate::Error::InvalidQuantity).
    ///
    /// # Cancel safety
    ///
    /// The same as [`acquire`](Self::acquire).
    pub async fn try_acquire_many(&self, quantity: usize) -> Result<Option<Vec<SemaphoreLease>>> {
        self.many(quantity, Wait::No).await
    }

    /// Acquires a lease like [`acquire`](Self::acquire), on a plain thread. The client's runtime must be running
    /// elsewhere.
    ///
    /// # Errors
    ///
    /// The same as [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_acquire(&self) -> Result<SemaphoreLease> {
        self.internals.client().block_on(self.acquire())
    }

    /// Acquires a lease like [`acquire_timeout`](Self::acquire_timeout), on a plain thread.
    ///
    /// # Errors
    ///
    /// The same as [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_acquire_timeout(&self, timeout: Duration) -> Result<Option<SemaphoreLease>> {
        self.internals.client().block_on(self.acquire_timeout(timeout))
    }

    /// Acquires a lease like [`try_acquire`](Self::try_acquire), on a plain thread.
    ///
    /// # Errors
    ///
    /// The same as [`try_acquire`](Self::try_acquire).
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_try_acquire(&self) -> Result<Option<SemaphoreLease>> {
        self.internals.client().block_on(self.try_acquire())
    }

    /// Whether anyone holds a lease through this semaphore or a clone of it.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.internals.holds().is_held()
    }

    /// Lists who holds leases and who waits for some, in all processes: the holders, followed by the waiters, each in
    /// the order of arrival.
    ///
    /// One round trip for the lists, and one for each 64 nodes that they name. A contender that takes leases between the two
    /// is in neither group.
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

    /// The semaphore's path on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.internals.path()
    }

    async fn one(&self, wait: Wait) -> Result<Option<SemaphoreLease>> {
        // One lease was requested, so exactly one is returned.
        Ok(self.many(1, wait).await?.and_then(|mut leases| leases.pop()))
    }

    async fn many(&self, quantity: usize, wait: Wait) -> Result<Option<Vec<SemaphoreLease>>> {
        let guards = self.internals.acquire(quantity, wait).await?;
        let lease = |guard| SemaphoreLease::new(guard, self.internals.lease_data());
        Ok(guards.map(|guards| guards.into_iter().map(lease).collect()))
    }
}
