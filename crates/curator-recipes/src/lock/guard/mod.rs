//! The guard of a held lock, and its release.

mod loss;
mod transaction;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use curator_client::{ClockInstant, CuratorClient, Deadline, ZPath};
use futures_util::future::FutureExt as _;

pub use self::loss::LossHandle;
use self::loss::first_of;
pub(crate) use self::loss::run_until;
pub use self::transaction::GuardedTransaction;
use super::holds::Share;
use crate::engine::hold::{Hold, HoldEnd};
use crate::error::{Error, LockLost, Result};
use crate::fencing::FencingToken;
use crate::owner::OwnerId;

/// A held lock. Each acquire of the same owner returns another guard; the last guard releases the
/// lock.
///
/// Dropping the guard releases it in the background; [`release`](Self::release) also returns the
/// result. A lock can be *lost* while a guard exists: see [`lost`](Self::lost),
/// [`is_valid`](Self::is_valid), [`run`](Self::run), and, for other tasks, [`loss`](Self::loss).
///
/// # Shutdown
///
/// A service that stops, for example on SIGTERM, accepts no more work; finishes or drops the work
/// under its locks; releases its guards; and then [closes](curator_client::CuratorClient::close)
/// the client. `close` completes the releases of dropped guards. If the service calls `close`
/// first, that ends the session: [`run`](Self::run) drops the work, the locks are free immediately,
/// and a later [`release`](Self::release) returns [`Error::Lost`](crate::Error::Lost), since the
/// work may have continued after the loss. If a process exits without `close`, its locks stay held
/// until the session timeout.
///
/// The guard of a multi-lock has several nodes, or several locks. It is lost when any of them is
/// lost.
#[must_use = "an unused guard is dropped, which releases the lock immediately"]
pub struct LockGuard {
    first: Share,
    /// The other locks of a multi-lock that was made from locks, in the order of their acquisition.
    others: Vec<Share>,
    is_reentry: bool,
}

impl std::fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockGuard")
            .field(
                "nodes",
                &self.nodes().map(ZPath::as_str).collect::<Vec<_>>(),
            )
            .field("fencing_token", &self.fencing_token())
            .field("owner", self.owner())
            .field("is_valid", &self.is_valid())
            .finish_non_exhaustive()
    }
}

impl LockGuard {
    pub(crate) fn new(share: Share) -> Self {
        Self {
            first: share,
            others: Vec::new(),
            is_reentry: false,
        }
    }

    /// Sets whether the owner already held the lock.
    pub(crate) fn with_reentry(self, is_reentry: bool) -> Self {
        Self { is_reentry, ..self }
    }

    /// Combines two guards into one for the locks of both. `self` was acquired first.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.others.push(other.first);
        self.others.extend(other.others);
        self.is_reentry |= other.is_reentry;
        self
    }

    fn shares(&self) -> impl Iterator<Item = &Share> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The number that lets a store reject writes of an older holder: send it with each write, and
    /// with each read that a write depends on. See [`fencing`](crate::fencing). All guards of one
    /// hold have the same token.
    ///
    /// If the lock has one holder at a time, the token increases from holder to holder. The tokens
    /// of readers, and of several leases, do not give the order of concurrent holders.
    ///
    /// For a multi-lock [made from locks](super::InterProcessMultiLock::of), this is the greatest
    /// token of its locks, and increases from holder to holder of the same multi-lock. A store that
    /// is also written under one of these locks alone needs the token of that lock: see
    /// [`fencing_tokens`](Self::fencing_tokens).
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        let first = self.first.hold().token();
        self.others
            .iter()
            .map(|share| share.hold().token())
            .fold(first, FencingToken::max)
    }

    /// The nodes of the guard's locks, each with its token.
    pub fn fencing_tokens(&self) -> impl Iterator<Item = (&ZPath, FencingToken)> {
        self.shares().flat_map(|share| {
            share
                .hold()
                .paths()
                .iter()
                .map(|node| (node, share.hold().token()))
        })
    }

    /// Whether the session of the lock is certainly alive now, and the lock's node is not known to
    /// be deleted.
    ///
    /// Reads the clock, so the result is right even when no task has run for a while, for example
    /// because the process was stopped; but only for *this moment*. Writes that must not happen
    /// after a loss need the [fencing token](Self::fencing_token), and a store that compares it.
    /// This neither waits nor sends requests, with one exception: the first call that finds one of
    /// several nodes deleted deletes the others in the background.
    ///
    /// A deletion of the node is detected only
    ///
    /// - while [`lost`](Self::lost) or [`run`](Self::run) is polled;
    /// - after an acquire that had to wait, until a client writes to the node: the write uses up
    ///   the watch;
    /// - by a [transaction](Self::transaction) that fails because the node is missing;
    /// - when the session reconnects.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.known_loss().is_none()
    }

    /// Why the lock is lost; `None` if no loss is known. Does not wait.
    pub(crate) fn known_loss(&self) -> Option<LockLost> {
        self.shares().find_map(|share| share.hold().loss())
    }

    /// The instant until which the session of the lock is certainly alive, even if the servers send
    /// no further reply. Each reply moves it forward. After a loss of the session, it is in the
    /// past.
    #[must_use]
    pub fn valid_until(&self) -> ClockInstant {
        let valid_until = |share: &Share| share.hold().session().lease().valid_until();
        self.others
            .iter()
            .map(valid_until)
            .fold(valid_until(&self.first), ClockInstant::min)
    }

    /// Waits until the lock is lost, and returns why. Never returns while it is held.
    ///
    /// Waiting for the loss of the session sends nothing. To detect a deletion of the lock's node,
    /// the first call sets a watch if the acquire did not: one request.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn lost(&self) -> LockLost {
        self.loss().await
    }

    /// Returns a handle that signals the loss to a task that does not have the guard.
    ///
    /// The handle completes when the lock is lost or released. Only the first poll may send one
    /// request, like the first poll of [`lost`](Self::lost).
    pub fn loss(&self) -> LossHandle {
        LossHandle::new(
            self.shares()
                .map(|share| HoldEnd::new(share.hold()))
                .collect(),
        )
    }

    /// The hold of the first lock.
    pub(crate) fn hold(&self) -> &Arc<Hold> {
        self.first.hold()
    }

    /// The client of the first lock.
    pub(crate) fn client(&self) -> &CuratorClient {
        self.first.hold().client()
    }

    /// Waits until a session of the guard is lost. Sends nothing.
    pub(crate) async fn session_lost(&self) -> LockLost {
        first_of(self.shares().map(|share| share.hold().session_lost())).await
    }

    /// Waits until a client requests the lock back, with [`revoke`](super::revoke) or Curator's
    /// `Revoker`.
    ///
    /// The holder decides how to react: finish soon and release, or continue. After a request,
    /// including one made before the lock was held, this returns immediately. The first call reads
    /// and watches the node if the acquire did not: one request.
    ///
    /// # Errors
    ///
    /// [`LockLost`] when the lock was lost first.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn revocation_requested(&self) -> Result<(), LockLost> {
        first_of(
            self.shares()
                .map(|share| share.hold().revocation_requested()),
        )
        .await
    }

    /// Starts a transaction that is applied only if the lock is still held. Writes to ZooKeeper
    /// through it need no fencing token.
    ///
    /// ```no_run
    /// # async fn example(guard: curator_recipes::LockGuard) -> Result<(), curator_recipes::Error> {
    /// guard.transaction().set_data("/accounts/7", "42", None)?.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction(&self) -> GuardedTransaction<'_> {
        GuardedTransaction::new(self.shares().map(Share::hold))
    }

    /// Runs a future while the lock is held, and drops it when the lock is lost.
    ///
    /// Reads the clock before each poll of the future, so no poll begins after the lease has ended,
    /// even if this process was stopped in the meantime. A poll that has begun is not interrupted:
    /// a future that blocks its thread, or a process that is stopped during a poll, can continue
    /// after the loss. Only the [fencing token](Self::fencing_token) protects against its late
    /// writes.
    ///
    /// For a job that runs whenever this process holds the lock, and survives any outage: acquire,
    /// run, and start over after a loss or an error. With
    /// [`RetryForever`](curator_client::RetryForever) the acquire itself waits for the end of an
    /// outage.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use curator_recipes::client::{self, CuratorClient};
    /// use curator_recipes::{Error, InterProcessMutex};
    ///
    /// /// To stop, drop this future before you close the client: `close` waits for the release of the lock.
    /// async fn lead(client: &CuratorClient) -> Result<(), Error> {
    ///     let leadership = InterProcessMutex::non_reentrant(client, "/leaders/reports")?;
    ///     loop {
    ///         let term = async {
    ///             let guard = leadership.acquire().await?;
    ///             guard.run(async { /* the job */ }).await?;
    ///             guard.release().await
    ///         };
    ///         match term.await {
    ///             Ok(()) => {}
    ///             Err(error) if error.is_closed() => return Ok(()),
    ///             // The client has ended, but was not closed: for example, its runtime has shut down.
    ///             Err(error @ Error::Client(client::Error::ClientEnded { .. } | client::Error::Forked)) => return Err(error),
    ///             Err(Error::Lost(lost)) => println!("{lost}"),
    ///             // The retry policy permits no more retries, or a permission is missing.
    ///             Err(error) => {
    ///                 println!("the job has to wait: {error}");
    ///                 tokio::select! {
    ///                     // The next acquire returns the error.
    ///                     _ = client.closing() => {}
    ///                     () = tokio::time::sleep(Duration::from_secs(1)) => {}
    ///                 }
    ///             }
    ///         }
    ///     }
    /// }
    /// # let _ = lead;
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockLost`] when the lock was lost first.
    ///
    /// # Cancel safety
    ///
    /// Dropping this drops `future`; the lock stays held.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, LockLost> {
        run_until(self.loss(), future).await
    }

    /// Like [`run`](Self::run), for a future that can fail. A loss is converted to the future's
    /// error type.
    ///
    /// ```no_run
    /// # async fn example(guard: curator_recipes::LockGuard) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// let lines = guard
    ///     .try_run(async {
    ///         let report = std::str::from_utf8(b"one\ntwo")?;
    ///         Ok::<_, Box<dyn std::error::Error + Send + Sync>>(report.lines().count())
    ///     })
    ///     .await?;
    /// # let _: usize = lines;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The error of the future, or one converted from [`LockLost`] when the lock was lost first.
    ///
    /// # Cancel safety
    ///
    /// The same as [`run`](Self::run).
    pub async fn try_run<T, E: From<LockLost>>(
        &self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        self.run(future).await?
    }

    /// The lock's node on the server, including chroot and namespace. The first one, if there are
    /// several.
    #[must_use]
    pub fn node(&self) -> &ZPath {
        self.first.hold().path()
    }

    /// All nodes of the guard: one, or the nodes of a multi-lock in the order of its paths or
    /// locks.
    pub fn nodes(&self) -> impl Iterator<Item = &ZPath> {
        self.shares().flat_map(|share| share.hold().paths())
    }

    /// The id of the session that the lock belongs to; for locks of several clients, the session of
    /// the first lock.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.first.hold().session().id()
    }

    /// The owner that acquired this guard. The guard of a lease, or of a non-reentrant lock, has a
    /// unique owner. If there are several locks, the owner of the first.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        self.first.owner()
    }

    /// Whether the owner already held the lock when it acquired this guard. The acquire then did
    /// not wait, and the guard shares the lock with the owner's other guards: see [`OwnerId`] for
    /// what counts as the same owner, and
    /// [`non_reentrant`](super::InterProcessMutex::non_reentrant) for locks without re-entry.
    ///
    /// For a read lock, whether its owner held either side of the lock. For a multi-lock, whether
    /// this is true for any of its locks.
    #[must_use]
    pub fn is_reentry(&self) -> bool {
        self.is_reentry
    }

    /// Unwraps the share of the first lock, for a lock that makes another guard from it.
    pub(crate) fn into_share(self) -> Share {
        self.first
    }
}

impl LockGuard {
    /// Releases this guard, and reports the result. If the owner has other guards, the lock stays
    /// held, nothing is sent, and the result is `Ok`.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`](crate::Error::Lost) when the lock had already been lost: the last work may
    /// have run without the lock. [`Error::ReleasePending`](crate::Error::ReleasePending) when the
    /// servers cannot be reached: the client keeps trying until the node is deleted or the session
    /// has ended, and [`CuratorClient::janitor`](curator_client::CuratorClient::janitor) lists the
    /// pending delete. [`Error::ReleaseRefused`](crate::Error::ReleaseRefused) when the server
    /// denies it. [`Error::ReleasesFailed`](crate::Error::ReleasesFailed) with several of these, if
    /// the guard has several nodes or locks; a single error is returned directly.
    ///
    /// # Cancel safety
    ///
    /// A dropped release continues in the background.
    pub async fn release(self) -> Result<()> {
        if self.others.is_empty() {
            return match self.first.release() {
                Some(releasing) => releasing.await,
                None => Ok(()),
            };
        }
        // Boxed, so that the user's future that contains this one stays small.
        async {
            let mut failures = Vec::new();
            for share in self.into_shares() {
                if let Some(releasing) = share.release() {
                    failures.extend(releasing.await.err());
                }
            }
            Error::from_releases(failures)
        }
        .boxed()
        .await
    }

    /// Releases like [`release`](Self::release), and waits at most `timeout` for the result. A
    /// release that is not confirmed by then continues in the background;
    /// [`close`](curator_client::CuratorClient::close) waits for it.
    ///
    /// Several locks share the timeout and are released one after another, the last one first; at
    /// the timeout, the releases of the remaining locks start as well. A timeout of zero starts all
    /// releases and waits for none.
    ///
    /// # Errors
    ///
    /// The same as [`release`](Self::release).
    /// [`Error::ReleasePending`](crate::Error::ReleasePending) at the timeout, containing an
    /// [`OperationTimeout`](curator_client::Error::OperationTimeout); and as soon as the client
    /// closes, containing [`Closed`](curator_client::Error::Closed),
    /// [`ClientEnded`](curator_client::Error::ClientEnded) or
    /// [`Forked`](curator_client::Error::Forked).
    ///
    /// # Cancel safety
    ///
    /// A dropped release continues in the background.
    pub async fn release_timeout(self, timeout: Duration) -> Result<()> {
        Error::from_releases(self.release_within(timeout).await)
    }

    /// Like [`release_timeout`](Self::release_timeout). Returns all errors, in the order of the
    /// releases.
    pub(crate) async fn release_within(self, timeout: Duration) -> Vec<Error> {
        let deadline = Deadline::after(timeout);
        let mut failures = Vec::new();
        for share in self.into_shares() {
            let client = share.hold().client().clone();
            let path = share.hold().path().clone();
            let Some(releasing) = share.release() else {
                continue;
            };
            let released = tokio::select! {
                biased;
                released = releasing => released,
                // The dropped release continues in the background.
                cause = client.closing() => Err(Error::ReleasePending { path, cause }),
                () = client.sleep_until(deadline) => {
                    let cause = curator_client::Error::OperationTimeout {
                        operation: "release",
                        path: path.clone(),
                        after: timeout,
                    };
                    Err(Error::ReleasePending { path, cause })
                }
            };
            match released {
                Err(Error::ReleasesFailed { failures: several }) => failures.extend(several),
                released => failures.extend(released.err()),
            }
        }
        failures
    }

    /// The shares, the last one first.
    fn into_shares(self) -> impl Iterator<Item = Share> {
        let Self { first, others, .. } = self;
        others.into_iter().rev().chain([first])
    }

    /// Releases like [`release`](Self::release), on a plain thread.
    ///
    /// # Errors
    ///
    /// The same as [`release`](Self::release).
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_release(self) -> Result<()> {
        let client = self.client().clone();
        client.block_on(self.release())
    }
}
