//! The semaphore: a limited number of leases, shared by all processes.

mod internals;
mod mutex;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use curator_client::{CuratorClient, Error as ClientError, NodePath, ZPath, debug_line};
use curator_protocol::ParticipantKind;
use futures_util::future::join_all;

use self::internals::{LimitSource, SemaphoreInternals};
pub use self::mutex::InterProcessSemaphoreMutex;
use super::guard::LockGuard;
use super::participants::Participant;
use crate::error::{Error, Result};
use crate::shared::SharedCount;
use crate::wait::Wait;

/// A limited number of leases, shared by all processes that use the same path.
///
/// Curator's class of the same name; both can use the same path.
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
/// - *Never more* valid leases than the limit, if all processes use the same limit, or a
///   [`SharedCount`].
/// - *Fair*: first come, first served. A contender that requests many leases is not overtaken by
///   others that request one.
/// - *All or nothing*: [`acquire_many`](Self::acquire_many) takes its leases in one step. It never
///   holds some while it waits for others, so two such calls cannot wait for each other.
/// - *Herd-free*: only the first in the queue watches the leases.
/// - *Cancel-safe* and *honest*, like the mutex: a lease reports its loss before another client can
///   get it.
///
/// # Caveats
///
/// It is not reentrant, and leases do not belong to a task: a task that holds a lease and requests
/// another gets another one, or waits. Any task may release a lease.
///
/// All processes should use the same limit; each process enforces the one it was given. A
/// [`SharedCount`] is the same for all. When it is lowered, no lease is lost, and no lease is
/// granted until there are fewer than the new limit.
///
/// Children of the path's `leases` that are not leases are not counted here. Java Curator counts
/// them.
///
/// It needs ZooKeeper 3.6 or newer. The [fencing tokens](crate::FencingToken) of leases increase in
/// the order of their grants, which orders their holders only if there is a single lease. Leases
/// that were granted together have the same token.
#[derive(Clone)]
pub struct InterProcessSemaphoreV2 {
    internals: SemaphoreInternals,
}

debug_line!(InterProcessSemaphoreV2, |semaphore| path: semaphore.path(), held: semaphore.is_acquired_in_this_process(), connection: semaphore.internals.client().connection_state());

impl InterProcessSemaphoreV2 {
    /// Makes a semaphore on `path` with a fixed number of leases. Sends nothing; the path is
    /// created when it is first needed.
    ///
    /// # Errors
    ///
    /// When the path is invalid; [`InvalidQuantity`](crate::Error::InvalidQuantity) when the number
    /// of leases is zero.
    pub fn new(client: &CuratorClient, path: impl NodePath, max_leases: usize) -> Result<Self> {
        let internals = SemaphoreInternals::new(
            client,
            "semaphore",
            client.resolve(path)?,
            LimitSource::Fixed(max_leases),
        )?;
        if max_leases == 0 {
            return Err(Error::InvalidQuantity {
                path: internals.path().clone(),
                asked: 0,
                max: usize::MAX,
            });
        }
        Ok(Self { internals })
    }

    /// Makes a semaphore whose number of leases is stored in a node, and can change at any time.
    /// Waiters are notified of a change immediately.
    ///
    /// The count must be on the same ensemble. If its node is missing, it is created with the
    /// count's seed. While the number is below one, no lease is granted.
    ///
    /// # Errors
    ///
    /// When the path is invalid; [`InvalidRequest`](ClientError::InvalidRequest) when the count is
    /// at the semaphore's path, or in the semaphore's `locks` or `leases`. A path beside the
    /// semaphore, or another child such as `<path>/limit`, is valid. So is a path above the
    /// semaphore, if the count's node exists first: otherwise it is created as a directory of the
    /// semaphore, and each acquire fails with [`Unsuitable`](crate::ValueError::Unsuitable).
    pub fn with_shared_count(
        client: &CuratorClient,
        path: impl NodePath,
        max_leases: SharedCount,
    ) -> Result<Self> {
        let path = client.resolve(path)?;
        let count = max_leases.path().clone();
        let is_below = |dir| {
            path.child(dir)
                .is_ok_and(|dir| count.strip_prefix(&dir).is_some())
        };
        if path == count || is_below("locks") || is_below("leases") {
            let reason = format!(
                "it belongs to the semaphore {path}: use a path beside it, such as {path}-limit"
            );
            let operation = "keep the number of leases in";
            return Err(ClientError::InvalidRequest {
                operation,
                path: count,
                reason,
            }
            .into());
        }
        let internals =
            SemaphoreInternals::new(client, "semaphore", path, LimitSource::Shared(max_leases))?;
        Ok(Self { internals })
    }

    /// Returns a semaphore on the same path with this data in the nodes of its leases, which
    /// [`participants`](Self::participants) returns. Defaults to the client's default lock data.
    /// Curator's `setNodeData`.
    ///
    /// Call this when you make the semaphore: the new one does not share the holds of the old one.
    #[must_use]
    pub fn with_lease_data(self, data: impl Into<Arc<[u8]>>) -> Self {
        Self {
            internals: self.internals.with_lease_data(data.into()),
        }
    }

    /// Returns a semaphore on the same path with this value of the label `lock` in its metrics
    /// `curator_lock_*`. Defaults to none. Semaphores that share a name are measured together; do
    /// not use a name for each path, because most metrics stores cannot handle so many labels.
    ///
    /// Call this when you make the semaphore: the new one does not share the holds of the old one.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn with_metrics_name(self, name: impl Into<Arc<str>>) -> Self {
        Self {
            internals: self.internals.with_metrics_name(name.into()),
        }
    }

    /// Waits for a lease, without a time limit.
    ///
    /// If a lease is free, this takes two round trips, and the release takes one.
    ///
    /// # Errors
    ///
    /// [`AcquireFailed`](crate::Error::AcquireFailed) when there is no session, or requests fail,
    /// and the client's retry policy permits no more retries; with
    /// [`RetryForever`](curator_client::RetryForever), the acquire waits through an outage of any
    /// length. [`Client`](crate::Error::Client) immediately for an error that a retry cannot help,
    /// such as a missing permission; it contains [`Closed`](curator_client::Error::Closed) as soon
    /// as the client closes. If the session is lost during the wait, there is no error: the acquire
    /// joins the end of the queue in the next session. Nor is it an error if other clients or the
    /// server create and delete the semaphore's directories.
    ///
    /// [`PlaceDeleted`](crate::Error::PlaceDeleted) when another client keeps deleting the waiting
    /// node; [`SequenceOverflow`](crate::Error::SequenceOverflow) after two billion (2^31) nodes;
    /// [`ReleaseRefused`](crate::Error::ReleaseRefused) when leases of this client's session, or
    /// its node in the queue, block the acquire and the server denies their deletion;
    /// [`Value`](crate::Error::Value) when the count's node does not contain a number, or cannot
    /// store one.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the queue, and returns the lease if it has already been taken;
    /// their nodes are deleted in the background.
    pub async fn acquire(&self) -> Result<SemaphoreLease> {
        loop {
            // Without a deadline, `None` cannot occur; if it did, the caller would want to keep
            // waiting.
            if let Some(lease) = self.lease_within(Wait::FOREVER).await? {
                return Ok(lease);
            }
        }
    }

    /// Waits for a lease, at most `timeout`; then returns `None`: other contenders hold all leases
    /// or are ahead in the queue, or the servers were slow to reply.
    ///
    /// The timeout is one deadline for everything: connecting, queueing and requests. A timeout of
    /// zero is [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    ///
    /// The same as [`acquire`](Self::acquire);
    /// [`NotConnected`](curator_client::Error::NotConnected) in [`Client`](crate::Error::Client)
    /// if, at the timeout, there is no connection or the session is
    /// [suspended](curator_client::ConnectionState::Suspended).
    ///
    /// # Cancel safety
    ///
    /// The same as [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<SemaphoreLease>> {
        self.lease_within(Wait::timeout(timeout)).await
    }

    /// Takes a lease if one is free and no contender waits, or else returns `None`.
    ///
    /// Neither waits for a lease nor retries. `None` means that all leases were taken at some
    /// moment of the call. So if several calls run at the same time, as many of them succeed as
    /// there are free leases.
    ///
    /// There is one exception: a contender ahead in the queue may stay there for three seconds,
    /// because it waits for more leases than are free, is stopped, or is cut off from the servers.
    /// Then the call returns `None` although a lease is free. It does so immediately if the
    /// contender ahead joined the queue at least three seconds before the call. If a contender
    /// ahead leaves within three seconds, the next one has three seconds too.
    /// [`participants`](Self::participants) lists the contenders.
    ///
    /// If a lease is free and there is no other contender, this sends the same requests as
    /// [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// The same as [`acquire`](Self::acquire), at the first failure;
    /// [`AcquireFailed`](crate::Error::AcquireFailed) with
    /// [`KeepsChanging`](curator_client::Error::KeepsChanging) if others create or delete the
    /// semaphore's directories, or delete its shared limit, during each of 16 attempts to create
    /// them.
    ///
    /// # Cancel safety
    ///
    /// The same as [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<SemaphoreLease>> {
        self.lease_within(Wait::No).await
    }

    /// Waits for `quantity` leases, without a time limit. They are granted together; each can be
    /// released separately.
    ///
    /// # Errors
    ///
    /// The same as [`acquire`](Self::acquire). [`InvalidQuantity`](crate::Error::InvalidQuantity)
    /// immediately if `quantity` is zero, more than the limit, or more than 100,000. A
    /// [`SharedCount`] may change, so if `quantity` is more than its current value, the acquire
    /// waits. [`RequestTooLarge`](curator_client::Error::RequestTooLarge) if the leases do not fit
    /// into one request, which by default has room for a few thousand leases.
    ///
    /// # Cancel safety
    ///
    /// The same as [`acquire`](Self::acquire).
    pub async fn acquire_many(&self, quantity: usize) -> Result<Vec<SemaphoreLease>> {
        loop {
            // As in `acquire`.
            if let Some(leases) = self.leases_within(quantity, Wait::FOREVER).await? {
                return Ok(leases);
            }
        }
    }

    /// Waits for `quantity` leases, at most `timeout`; returns all of them, or `None`.
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
        self.leases_within(quantity, Wait::timeout(timeout)).await
    }

    /// Takes `quantity` leases if they are free and no contender waits, or else returns `None`:
    /// fewer leases were free at some moment of the call, with the same exception as for
    /// [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    ///
    /// The same as [`try_acquire`](Self::try_acquire), and
    /// [`InvalidQuantity`](crate::Error::InvalidQuantity).
    ///
    /// # Cancel safety
    ///
    /// The same as [`acquire`](Self::acquire).
    pub async fn try_acquire_many(&self, quantity: usize) -> Result<Option<Vec<SemaphoreLease>>> {
        self.leases_within(quantity, Wait::No).await
    }

    /// Acquires a lease like [`acquire`](Self::acquire), on a plain thread. The client's runtime
    /// must run on other threads.
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
        self.internals
            .client()
            .block_on(self.acquire_timeout(timeout))
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

    /// Whether any lease is held through this semaphore or a clone of it.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.internals.holds().is_held()
    }

    /// Lists the holders of leases and the waiters, in all processes: first the holders, then the
    /// waiters, each in the order of arrival.
    ///
    /// One round trip for the lists, and one for each 64 nodes in them. A contender that takes
    /// leases between these two round trips is in neither group.
    ///
    /// # Errors
    ///
    /// Errors of the client when its retry policy permits no more retries.
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

    async fn lease_within(&self, wait: Wait) -> Result<Option<SemaphoreLease>> {
        // One lease was requested, so exactly one is returned.
        Ok(self
            .leases_within(1, wait)
            .await?
            .and_then(|mut leases| leases.pop()))
    }

    async fn leases_within(
        &self,
        quantity: usize,
        wait: Wait,
    ) -> Result<Option<Vec<SemaphoreLease>>> {
        let guards = self.internals.acquire(quantity, wait).await?;
        Ok(guards.map(|guards| {
            guards
                .into_iter()
                .map(|guard| SemaphoreLease::new(guard, self.internals.lease_data()))
                .collect()
        }))
    }
}

/// One lease of an [`InterProcessSemaphoreV2`]. A lease is a [`LockGuard`]: it can be lost or
/// revoked, and dropping it releases it.
///
/// Any task may release a lease, not only the one that acquired it. After Curator's `Lease`.
#[must_use = "an unused lease is dropped, which releases it immediately"]
pub struct SemaphoreLease {
    guard: LockGuard,
    data: Arc<[u8]>,
}

debug_line!(SemaphoreLease, |lease| node: lease.guard.node(), fencing_token: lease.guard.fencing_token(), is_valid: lease.guard.is_valid());

impl SemaphoreLease {
    fn new(guard: LockGuard, data: &Arc<[u8]>) -> Self {
        Self {
            guard,
            data: Arc::clone(data),
        }
    }

    /// The name of the lease's node within the semaphore.
    #[must_use]
    pub fn name(&self) -> &str {
        self.guard.node().name()
    }

    /// The data that the lease's node was created with.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Releases the lease, and returns the result: see [`LockGuard::release`].
    ///
    /// # Errors
    ///
    /// The same as [`LockGuard::release`].
    ///
    /// # Cancel safety
    ///
    /// A dropped release continues in the background.
    pub async fn release(self) -> Result<()> {
        self.guard.release().await
    }

    /// Releases the lease, and waits at most `timeout` for the result: see
    /// [`LockGuard::release_timeout`].
    ///
    /// # Errors
    ///
    /// The same as [`LockGuard::release_timeout`].
    ///
    /// # Cancel safety
    ///
    /// A dropped release continues in the background.
    pub async fn release_timeout(self, timeout: Duration) -> Result<()> {
        self.guard.release_timeout(timeout).await
    }

    /// Releases several leases concurrently. If one release fails, the others are still released.
    ///
    /// Curator's `returnAll`.
    ///
    /// # Errors
    ///
    /// The error of [`LockGuard::release`]; [`Error::ReleasesFailed`] if several failed.
    ///
    /// # Cancel safety
    ///
    /// A dropped release continues in the background.
    pub async fn release_all(leases: impl IntoIterator<Item = Self>) -> Result<()> {
        let released = join_all(leases.into_iter().map(Self::release)).await;
        Error::from_releases(released.into_iter().filter_map(Result::err).collect())
    }

    /// Releases the lease like [`release`](Self::release), on a plain thread.
    ///
    /// # Errors
    ///
    /// The same as [`LockGuard::release`].
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_release(self) -> Result<()> {
        self.guard.blocking_release()
    }
}

impl Deref for SemaphoreLease {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}

impl From<SemaphoreLease> for LockGuard {
    fn from(lease: SemaphoreLease) -> Self {
        lease.guard
    }
}
