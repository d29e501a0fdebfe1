//! The guard of a held lock.

mod loss;
mod release;
#[cfg(feature = "tokio-util")]
mod token;
mod transaction;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use curator_client::{ClockInstant, CuratorClient, ZPath};
use futures_util::future::{FutureExt as _, select_all};

pub use self::loss::LossHandle;
pub use self::transaction::GuardedTransaction;
use super::holds::Share;
use crate::engine::hold::{Hold, HoldEnd};
use crate::error::LockLost;
use crate::fencing::FencingToken;
use crate::owner::OwnerId;

/// A held lock. Each acquire of the same owner returns another guard; the lock is released with the last of them.
///
/// Dropping the guard releases it in the background; [`release`](Self::release) also reports the result. A lock can be
/// *lost* while it is held: see [`lost`](Self::lost), [`is_valid`](Self::is_valid), [`run`](Self::run), and, for other
/// tasks, [`loss`](Self::loss).
///
/// # Shutdown
///
/// A service that stops, for example on SIGTERM, takes no more work; finishes the work under its locks, or drops it; releases
/// its guards; and then [closes](curator_client::CuratorClient::close) the client. `close` carries out the releases of guards
/// that were dropped. If it comes first, it ends the session: [`run`](Self::run) drops the work, the locks are free at once,
/// and a later [`release`](Self::release) returns [`Error::Lost`](crate::Error::Lost), since it cannot tell whether all work
/// was done in time. A process that ends without `close` keeps its locks until the session timeout.
///
/// The guard of a multi-lock stands for several nodes, or for several locks. It is lost when any one of them is lost.
#[must_use = "the lock is released at once if the guard is dropped at once"]
pub struct LockGuard {
    first: Share,
    /// The other locks of a multi-lock that was made from locks, in the order in which they were acquired.
    others: Vec<Share>,
    is_reentry: bool,
}

impl std::fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockGuard")
            .field("nodes", &self.nodes().map(ZPath::as_str).collect::<Vec<_>>())
            .field("fencing_token", &self.fencing_token())
            .field("owner", self.owner())
            .field("is_valid", &self.is_valid())
            .finish_non_exhaustive()
    }
}

impl LockGuard {
    pub(crate) fn new(share: Share) -> Self {
        Self { first: share, others: Vec::new(), is_reentry: false }
    }

    /// Sets whether the owner already held the lock.
    pub(crate) fn of_reentry(self, is_reentry: bool) -> Self {
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

    /// The number by which a store can refuse an older holder: send it with each write, and with each read on which a
    /// write depends. See [`fencing`](crate::fencing). All guards of one hold have the same token.
    ///
    /// It increases from holder to holder where there is one holder at a time. The tokens of readers, and of leases
    /// where there are several, say nothing about the order of holders that overlap.
    ///
    /// For a multi-lock [made from locks](super::InterProcessMultiLock::of), it is the greatest of their tokens, and
    /// increases from holder to holder of the same multi-lock. A store that is also written under one of these locks
    /// alone needs that lock's own token: see [`fencing_tokens`](Self::fencing_tokens).
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        let first = self.first.hold().token();
        self.others.iter().map(|share| share.hold().token()).fold(first, FencingToken::max)
    }

    /// The nodes of the locks that the guard stands for, each with its token.
    pub fn fencing_tokens(&self) -> impl Iterator<Item = (&ZPath, FencingToken)> {
        self.shares().flat_map(|share| share.hold().paths().iter().map(|node| (node, share.hold().token())))
    }

    /// Whether the session of the lock is certainly alive now, and the lock's node is not known to be deleted.
    ///
    /// Reads the clock, so it is right even when no task has run for a while, for example because the process was
    /// stopped; but it is right for *this moment* only. Writes that must not happen after a loss need the
    /// [fencing token](Self::fencing_token), and a store that compares it. This sends
    /// nothing. A deletion of the node is noticed only while [`lost`](Self::lost) or [`run`](Self::run) is polled, after an
    /// acquire that had to wait (until a client writes to the node, which uses up the watch), after a
    /// [transaction](Self::transaction) that failed for that reason, or after the session has got another connection.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.known_loss().is_none()
    }

    /// Why the lock is lost, as far as that is known without a request.
    pub(crate) fn known_loss(&self) -> Option<LockLost> {
        self.shares().find_map(|share| share.hold().loss())
    }

    /// Until when the session of the lock is certainly alive, if nothing more is heard from the servers. It keeps moving
    /// forward while all is well. After a loss of the session, it is a moment in the past.
    #[must_use]
    pub fn valid_until(&self) -> ClockInstant {
        let until = |share: &Share| share.hold().session().lease().valid_until();
        self.others.iter().map(until).fold(until(&self.first), ClockInstant::min)
    }

    /// Waits until the lock is lost, and returns why. Never returns while it is held.
    ///
    /// Waiting for the loss of the session costs nothing. To learn of the deletion of the lock's node, the first call
    /// sets a watch if the acquire did not need one: one request.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn lost(&self) -> LockLost {
        self.loss().await
    }

    /// A handle that tells of the loss, and needs no guard: any task can have it while another one has the guard.
    ///
    /// It completes when the lock is lost, and also when the lock is released. Nothing is sent until it is polled; the first
    /// poll may send one request, as that of [`lost`](Self::lost) does.
    pub fn loss(&self) -> LossHandle {
        LossHandle::new(self.shares().map(|share| HoldEnd::of(share.hold())).collect())
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

    /// Waits until someone asks for the lock back, with [`revoke`](super::revoke) or Curator's `Revoker`.
    ///
    /// What to do then is up to the holder: finish soon and release, or carry on. Once the lock has been asked for, this
    /// returns at once. A request that was made before the lock was held is not missed. The first call reads and watches
    /// the node if the acquire did not: one request.
    ///
    /// # Errors
    ///
    /// [`LockLost`] when the lock was lost first.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn revocation_requested(&self) -> Result<(), LockLost> {
        first_of(self.shares().map(|share| share.hold().revocation_requested())).await
    }

    /// Starts a transaction that is applied only if the lock is still held. Inside ZooKeeper, it makes a fencing token
    /// unnecessary.
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
    /// The clock is read each time before the future is polled, so no step of it begins after the lease is over, even if
    /// this process was stopped in the meantime. A step that has begun is not interrupted: a future that blocks its
    /// thread, or a process that is stopped in the middle of a step, can be late. Only the
    /// [fencing token](Self::fencing_token) helps then.
    ///
    /// A job that runs wherever this process has the lock, and survives any outage: acquire, run, and on a loss or an error
    /// again. With [`RetryForever`](curator_client::RetryForever) the acquire itself waits for the end of an outage.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use curator_recipes::client::{self, CuratorClient};
    /// use curator_recipes::{Error, InterProcessMutex};
    ///
    /// /// To stop, drop it before you close the client: the lock is given back, and `close` waits for that.
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
    ///             // It was not closed: its runtime has shut down, for example.
    ///             Err(error @ Error::Client(client::Error::ClientEnded { .. } | client::Error::Forked)) => return Err(error),
    ///             Err(Error::Lost(lost)) => println!("{lost}"),
    ///             // The retry policy gave up, or a permission is missing.
    ///             Err(error) => {
    ///                 println!("the job has to wait: {error}");
    ///                 tokio::select! {
    ///                     // The next term reports it.
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

    /// Runs a future that can fail while the lock is held, as [`run`](Self::run) does. A loss becomes an error of the future's own
    /// type.
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
    /// That of the future, or one made of the [`LockLost`] when the lock was lost first.
    ///
    /// # Cancel safety
    ///
    /// The same as [`run`](Self::run).
    pub async fn try_run<T, E: From<LockLost>>(&self, future: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        self.run(future).await?
    }

    /// The lock's node on the server, including chroot and namespace. The first one, if there are several.
    #[must_use]
    pub fn node(&self) -> &ZPath {
        self.first.hold().path()
    }

    /// All nodes that the guard stands for: one, or those of a multi-lock in the order of its paths or locks.
    pub fn nodes(&self) -> impl Iterator<Item = &ZPath> {
        self.shares().flat_map(|share| share.hold().paths())
    }

    /// The id of the session that the lock belongs to; that of the first lock, if there are several clients.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.first.hold().session().id()
    }

    /// The owner that acquired this guard. The guard of a lease, or of a lock that is not reentrant, has an owner of its
    /// own. If there are several locks, it is the first one's.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        self.first.owner()
    }

    /// Whether the owner already held the lock when it acquired this guard. It then waited for nobody, and shares the lock
    /// with the owner's other guards: see [`OwnerId`] for who is the same owner, and
    /// [`non_reentrant`](super::InterProcessMutex::non_reentrant) for locks that are not entered again.
    ///
    /// For a reader, whether its owner held either side of the lock. For several locks, whether this is so for any of them.
    #[must_use]
    pub fn is_reentry(&self) -> bool {
        self.is_reentry
    }

    /// The share in the lock, for a lock that makes another guard from it.
    pub(crate) fn into_share(self) -> Share {
        self.first
    }
}

/// Runs a future, and drops it when the lock is no longer held.
pub(crate) async fn run_until<F: Future>(mut loss: LossHandle, future: F) -> Result<F::Output, LockLost> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        // This reads the clock.
        if let Poll::Ready(lost) = loss.poll_unpin(cx) {
            return Poll::Ready(Err(lost));
        }
        future.as_mut().poll(cx).map(Ok)
    })
    .await
}

async fn first_of<T>(futures: impl Iterator<Item = impl Future<Output = T> + Send>) -> T {
    let futures: Vec<Pin<Box<_>>> = futures.map(Box::pin).collect();
    select_all(futures).await.0
}
