//! What a holder has in hand.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use curator_client::{ClockInstant, ZPath};

use super::hold::Hold;
use super::holds::Holds;
use super::owner::OwnerId;
use crate::error::{LockLost, Result};
use crate::fencing_token::FencingToken;

/// A held lock. Each acquire of the same owner gives another guard; the lock is released with the last of them.
///
/// Dropping the guard releases in the background; [`release`](Self::release) also says how it went. A lock can be
/// *lost* while it is held: see [`lost`](Self::lost), [`is_valid`](Self::is_valid) and [`run`](Self::run).
#[must_use = "the lock is released at once if the guard is dropped at once"]
pub struct LockGuard {
    holds: Arc<Holds>,
    owner: OwnerId,
    /// `None` once released.
    hold: Option<Arc<Hold>>,
    /// The same, for everything that is asked while the guard lives.
    shared: Arc<Hold>,
}

impl std::fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockGuard")
            .field("node", self.node())
            .field("fencing_token", &self.fencing_token())
            .field("owner", &self.owner)
            .field("is_valid", &self.is_valid())
            .finish_non_exhaustive()
    }
}

impl LockGuard {
    /// `hold` already counts this guard.
    pub(crate) fn new(holds: &Arc<Holds>, owner: &OwnerId, hold: Arc<Hold>) -> Self {
        Self { holds: Arc::clone(holds), owner: owner.clone(), shared: Arc::clone(&hold), hold: Some(hold) }
    }

    /// The number that a store can refuse an older holder by. The same for all guards of one hold.
    #[must_use]
    pub fn fencing_token(&self) -> FencingToken {
        self.shared.token()
    }

    /// Whether the session of the lock is certainly alive now, and nothing is known of a deletion of the lock's node.
    ///
    /// Reads the clock, so it is right even when no task has run for a while, as after a stop of the process; but it is
    /// right for *this moment* only. What must not happen after a loss needs the
    /// [fencing token](Self::fencing_token). That somebody has deleted the node is known once [`lost`](Self::lost) or
    /// [`run`](Self::run) has been polled, or if the acquire had to wait.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.shared.loss().is_none()
    }

    /// Until when the session of the lock is certainly alive if nothing more is heard from the servers. While all is well
    /// this moves on. A moment in the past after a loss of the session.
    #[must_use]
    pub fn valid_until(&self) -> ClockInstant {
        self.shared.session().lease().valid_until()
    }

    /// Waits until the lock is lost, and says why. Never returns while it is held.
    ///
    /// The loss of the session costs nothing to wait for. To learn of the deletion of the lock's node, the first call
    /// sets a watch if the acquire did not need one: one request.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn lost(&self) -> LockLost {
        self.shared.lost().await
    }

    /// Drives a future while the lock is held, and drops it when the lock is lost.
    ///
    /// The clock is read each time before the future is polled, so no step of it begins after the lease is over, not even
    /// when this process was stopped meanwhile. A step that has begun is not interrupted: a future that blocks its
    /// thread, or a process that is stopped in the middle of a step, can be late. Only the
    /// [fencing token](Self::fencing_token) helps then.
    ///
    /// # Errors
    ///
    /// [`LockLost`] when the lock was lost first.
    ///
    /// # Cancel safety
    ///
    /// Dropping this drops `future`; the lock stays held.
    pub async fn run<F: Future>(&self, future: F) -> Result<F::Output, LockLost> {
        let mut lost = pin!(self.lost());
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(lost) = lost.as_mut().poll(cx) {
                return Poll::Ready(Err(lost));
            }
            // The timer behind `lost` stands still while the machine sleeps; the lease's clock does not.
            if let Some(reason) = self.shared.loss() {
                return Poll::Ready(Err(self.shared.lock_lost(reason)));
            }
            future.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    /// The lock's node, as it is called on the server (chroot and namespace included).
    #[must_use]
    pub fn node(&self) -> &ZPath {
        self.shared.path()
    }

    /// The id of the session that the lock belongs to.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.shared.session().id()
    }

    /// The owner that this guard belongs to.
    #[must_use]
    pub fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// Releases, and says how it went. If this is not the owner's last guard, the lock stays held, no request is made, and
    /// there is no error.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`](crate::Error::Lost) when the lock had been lost before: what was done last may have been done
    /// without it. [`Error::ReleasePending`](crate::Error::ReleasePending) when the servers cannot be reached: the client
    /// goes on trying until the node is gone or the session is over, and
    /// [`CuratorClient::janitor`](curator_client::CuratorClient::janitor) shows it.
    /// [`Error::ReleaseRefused`](crate::Error::ReleaseRefused) when the server does not permit it.
    ///
    /// # Cancel safety
    ///
    /// A dropped release goes on in the background.
    pub async fn release(mut self) -> Result<()> {
        let Some(releasing) = self.leave() else { return Ok(()) };
        let result = releasing.hold.delete().await;
        // The client goes on, or notes at least what it cannot do.
        if !matches!(result, Err(crate::Error::ReleasePending { .. } | crate::Error::ReleaseRefused { .. })) {
            releasing.disarm();
        }
        result
    }

    /// [`release`](Self::release) for plain threads.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release).
    ///
    /// # Panics
    ///
    /// In an asynchronous context, as `tokio::sync::Mutex::blocking_lock` does.
    pub fn blocking_release(self) -> Result<()> {
        let client = self.shared.client().clone();
        client.block_on(self.release())
    }

    /// Takes this guard away; what is left to do if it was the last.
    fn leave(&mut self) -> Option<Releasing> {
        let hold = self.hold.take()?;
        // Not `then_some`: a value made in vain would be dropped, and that deletes the node.
        self.holds.leave(&self.owner, &hold).then(|| Releasing { hold, armed: true })
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        // Dropping what is left to do hands it to the client.
        drop(self.leave());
    }
}

/// A node that must go. Dropped while armed, it leaves the delete to the client.
struct Releasing {
    hold: Arc<Hold>,
    armed: bool,
}

impl Releasing {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        if self.armed {
            Arc::clone(&self.hold).delete_in_background();
        }
    }
}
