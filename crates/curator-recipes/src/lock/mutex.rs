//! The reentrant, exclusive lock.

use std::sync::Arc;
use std::time::Duration;

use curator_client::{CuratorClient, Deadline};

use super::driver::{LockInternalsDriver, StandardLockInternalsDriver};
use super::guard::LockGuard;
use super::hold::Hold;
use super::holds::Holds;
use super::internals::{LockInternals, Patience};
use super::owner::OwnerId;
use super::participants::Participant;
use crate::error::Result;

/// A lock that one owner at a time holds, in all processes that use the same path.
///
/// Curator's `InterProcessMutex`, and compatible with it: Java and Rust programs can contend for the same path.
///
/// ```no_run
/// use curator_recipes::InterProcessMutex;
/// use curator_recipes::client::CuratorClient;
///
/// # async fn example() -> Result<(), curator_recipes::Error> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let mutex = InterProcessMutex::new(&client, "/locks/orders")?;
/// let guard = mutex.acquire().await?;
/// println!("writing with token {}", guard.fencing_token());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - *Exclusive*: no two guards of different owners are [valid](LockGuard::is_valid) at the same time, unless somebody
///   deletes a lock node by hand.
/// - *Fair*: owners get the lock in the order in which their nodes reached the ensemble.
/// - *Reentrant*: an [owner](OwnerId) that holds the lock gets another guard without a request.
/// - *Herd-free*: a release wakes the next waiter, and one more that makes ready.
/// - *Honest*: a guard knows when its session is lost, before anybody else can have the lock.
/// - *Cancel-safe*: any future may be dropped at any await; no node stays, and nobody waits for it.
///
/// What they rest on is written in the project's `docs/guarantees.md`.
///
/// # Caveats
///
/// The path should be used for this lock alone. Children that are no lock nodes are ignored.
///
/// Clones are the same lock: their holds are shared. Two mutexes made by [`new`](Self::new) are strangers to each other,
/// also in the same task: the second one waits for the first.
#[derive(Debug, Clone)]
pub struct InterProcessMutex {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    internals: LockInternals,
    holds: Arc<Holds>,
}

impl InterProcessMutex {
    /// A mutex on `path`. Nothing is sent yet; the path is created when it is first needed.
    ///
    /// # Errors
    ///
    /// An invalid path.
    pub fn new(client: &CuratorClient, path: impl AsRef<str>) -> Result<Self> {
        Self::with_driver(client, path, StandardLockInternalsDriver::default())
    }

    /// A mutex with another node layout.
    ///
    /// # Errors
    ///
    /// An invalid path, or a driver whose node names cannot be used.
    pub fn with_driver(
        client: &CuratorClient,
        path: impl AsRef<str>,
        driver: impl LockInternalsDriver,
    ) -> Result<Self> {
        let internals = LockInternals::new(client, path.as_ref(), Arc::new(driver))?;
        Ok(Self { inner: Arc::new(Inner { internals, holds: Arc::default() }) })
    }

    /// The same mutex with other data in its nodes, for [`participants`](Self::participants) to show. If not said, the
    /// client's default lock data.
    ///
    /// To be said when the lock is made: what was held before is not known to the new one.
    #[must_use]
    pub fn with_lock_data(self, data: impl Into<Arc<[u8]>>) -> Self {
        let internals = self.inner.internals.clone().with_data(data.into());
        Self { inner: Arc::new(Inner { internals, holds: Arc::default() }) }
    }

    /// Waits for the lock, for as long as it takes.
    ///
    /// The current task (or thread, see [`OwnerId`]) re-enters at once what it holds already.
    ///
    /// # Errors
    ///
    /// Those of the client when there is no session and its retry policy gives up, or when the session watches too many
    /// paths already (some thousand waiters); [`Closed`](curator_client::Error::Closed) as soon as the client closes. A
    /// session that is lost while waiting is no error: the wait begins anew in the next session, at the end of the queue.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the place in the queue up; its node is deleted in the background.
    pub async fn acquire(&self) -> Result<LockGuard> {
        self.acquire_as(&OwnerId::current()).await
    }

    /// Waits for the lock, no longer than `timeout`: `None` when the time is over.
    ///
    /// The timeout is one deadline over everything: connecting, queueing and requests. A timeout of zero is
    /// [`try_acquire`](Self::try_acquire).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<LockGuard>> {
        self.acquire_timeout_as(&OwnerId::current(), timeout).await
    }

    /// Takes the lock if it is free: `None` if somebody has it, or if another future of the same owner is acquiring it.
    ///
    /// One round trip, when the path is there already, and no retries. Without a connection it fails at once; when that is
    /// not known yet, it waits for its answers no longer than the operation timeout.
    ///
    /// # Errors
    ///
    /// Those of the client.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        self.try_acquire_as(&OwnerId::current()).await
    }

    /// [`acquire`](Self::acquire) for an owner of the caller's choice, so that a lock can follow a request across tasks.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_as(&self, owner: &OwnerId) -> Result<LockGuard> {
        loop {
            // Without a deadline, `None` cannot be; were it ever, waiting on is what was asked for.
            if let Some(guard) = self.enter(owner, Patience::Until(Deadline::NEVER)).await? {
                return Ok(guard);
            }
        }
    }

    /// [`acquire_timeout`](Self::acquire_timeout) for an owner of the caller's choice.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout_as(&self, owner: &OwnerId, timeout: Duration) -> Result<Option<LockGuard>> {
        if timeout.is_zero() {
            return self.try_acquire_as(owner).await;
        }
        self.enter(owner, Patience::Until(Deadline::after(timeout))).await
    }

    /// [`try_acquire`](Self::try_acquire) for an owner of the caller's choice.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire_as(&self, owner: &OwnerId) -> Result<Option<LockGuard>> {
        self.enter(owner, Patience::OneFlight).await
    }

    /// [`acquire`](Self::acquire) for plain threads; reentrant by thread. The client's runtime must be running elsewhere.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_acquire(&self) -> Result<LockGuard> {
        let owner = OwnerId::current();
        self.inner.internals.client().block_on(self.acquire_as(&owner))
    }

    /// [`acquire_timeout`](Self::acquire_timeout) for plain threads; reentrant by thread.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_acquire_timeout(&self, timeout: Duration) -> Result<Option<LockGuard>> {
        let owner = OwnerId::current();
        self.inner.internals.client().block_on(self.acquire_timeout_as(&owner, timeout))
    }

    /// [`try_acquire`](Self::try_acquire) for plain threads; reentrant by thread.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Self::try_acquire).
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_try_acquire(&self) -> Result<Option<LockGuard>> {
        let owner = OwnerId::current();
        self.inner.internals.client().block_on(self.try_acquire_as(&owner))
    }

    /// Whether anybody holds the lock through this mutex or a clone of it.
    #[must_use]
    pub fn is_acquired_in_this_process(&self) -> bool {
        self.inner.holds.is_held()
    }

    /// Whether the current task (or thread) holds the lock through this mutex or a clone of it.
    #[must_use]
    pub fn is_owned_by_current(&self) -> bool {
        self.is_owned_by(&OwnerId::current())
    }

    /// Whether this owner holds the lock through this mutex or a clone of it.
    #[must_use]
    pub fn is_owned_by(&self, owner: &OwnerId) -> bool {
        self.inner.holds.is_held_by(owner)
    }

    /// Who holds the lock and who waits for it, in all processes, first comer first. Two round trips.
    ///
    /// # Errors
    ///
    /// Those of the client when its retry policy gives up.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        self.inner.internals.participants().await
    }

    async fn enter(&self, owner: &OwnerId, patience: Patience) -> Result<Option<LockGuard>> {
        let Inner { internals, holds } = &*self.inner;
        let guard = |hold: Arc<Hold>| LockGuard::new(holds, owner, hold);
        let slot = holds.slot(owner);
        if let Some(hold) = slot.enter() {
            return Ok(Some(guard(hold)));
        }
        let Some(_gate) = internals.wait_for(&slot.gate, patience).await? else { return Ok(None) };
        if let Some(hold) = slot.enter() {
            return Ok(Some(guard(hold)));
        }
        let Some(hold) = internals.acquire(patience).await? else { return Ok(None) };
        let hold = Arc::new(hold);
        slot.set(&hold);
        Ok(Some(guard(hold)))
    }
}
