//! Signals the end of a lock to tasks that do not have its guard.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt as _, Shared};

use super::first_of;
use crate::engine::hold::HoldEnd;
use crate::error::{LockLost, LossReason};

/// Tells any task when a lock is no longer held; made by [`LockGuard::loss`](super::LockGuard::loss).
///
/// It is a future, which completes when the lock is lost, or when its last guard is released or dropped: then with
/// [`LossReason::Released`](crate::LossReason::Released). So a task that waits for it always ends. It completes as soon as
/// one of the locks of a multi-lock is no longer held (with a loss, if one of them is lost and the others are released), and
/// after a [downgrade](crate::WriteGuard::downgrade), whose new guard has a handle of its own. Once it has completed, it
/// returns the same reason whenever it is polled.
///
/// `Released` means that we gave the lock up, and is told before anything is sent. Whether the server has taken it back is what
/// the result of the [release](super::LockGuard::release) says, or of the downgrade.
///
/// The first poll may send one request: the watch that tells of a deletion of the lock's node, if nothing else has set it.
///
/// Clones are handles to the same lock; each can wait in a task of its own. A handle does not keep the lock held.
///
/// ```no_run
/// # async fn example(guard: curator_recipes::LockGuard) -> Result<(), curator_recipes::Error> {
/// let loss = guard.loss();
/// tokio::spawn(async move {
///     let lost = loss.await;
///     println!("{lost}");
/// });
/// // The guard can go its own way.
/// guard.release().await
/// # }
/// ```
///
/// Curator tells a holder only of the state of its connection.
///
/// # Cancel safety
///
/// Nothing is lost when it is dropped; another handle, or [`LockGuard::lost`](super::LockGuard::lost), still learns of the
/// loss.
#[derive(Clone)]
#[must_use = "it tells nothing unless it is awaited or asked"]
pub struct LossHandle {
    locks: Arc<[HoldEnd]>,
    state: State,
}

#[derive(Clone)]
enum State {
    Waiting(Shared<BoxFuture<'static, LockLost>>),
    Over(LockLost),
}

impl LossHandle {
    /// For a guard of all of these locks.
    pub(super) fn new(locks: Arc<[HoldEnd]>) -> Self {
        let ends = Arc::clone(&locks);
        let waiting = async move { first_of(ends.iter().cloned().map(HoldEnd::wait)).await };
        Self { locks, state: State::Waiting(waiting.boxed().shared()) }
    }

    /// Whether the lock is certainly held now: like [`LockGuard::is_valid`](super::LockGuard::is_valid), and false once the
    /// lock is released.
    ///
    /// Reads the clock, so it is right even when no task has run for a while; but it is right for *this moment* only. Sends
    /// nothing.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.known().is_none()
    }

    fn known(&self) -> Option<LockLost> {
        match &self.state {
            State::Over(lost) => Some(lost.clone()),
            State::Waiting(_) => {
                // Of several locks, a loss rather than a release: whoever learns of the loss of one releases the others.
                let ends = self.locks.iter().filter_map(HoldEnd::known);
                ends.min_by_key(|end| end.reason == LossReason::Released)
            }
        }
    }
}

impl Future for LossHandle {
    type Output = LockLost;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LockLost> {
        // The timer behind the wait stands still while the machine is asleep; the lease's clock does not.
        let known = self.known();
        let lost = match (known, &mut self.state) {
            (Some(lost), _) => lost,
            (None, State::Waiting(waiting)) => {
                let first = std::task::ready!(waiting.poll_unpin(cx));
                self.known().unwrap_or(first)
            }
            (None, State::Over(lost)) => lost.clone(),
        };
        self.state = State::Over(lost.clone());
        Poll::Ready(lost)
    }
}

impl std::fmt::Debug for LossHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LossHandle").field("known", &self.known()).finish_non_exhaustive()
    }
}
