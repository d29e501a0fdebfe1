//! Signals the end of a lock to tasks that do not have its guard.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt as _, Shared};

use super::first_of;
use crate::engine::hold::HoldEnd;
use crate::error::{LockLost, LossReason};

/// Signals to any task when a lock is no longer held; made by
/// [`LockGuard::loss`](super::LockGuard::loss).
///
/// A future that completes when the lock is lost, or, with
/// [`LossReason::Released`](crate::LossReason::Released), when its last guard is released or
/// dropped. So a task that waits for it always ends. It completes as soon as one lock of a
/// multi-lock is no longer held (with a loss, if one is lost and the others are released), and
/// after a [downgrade](crate::WriteGuard::downgrade), whose new guard has a separate handle. After
/// it has completed, each further poll returns the same reason.
///
/// `Released` means that this process gave up the lock, and is signalled before the delete is sent.
/// The result of the [release](super::LockGuard::release) or the downgrade reports whether the
/// server has deleted the node.
///
/// The first poll may send one request: it sets the watch on the lock's node, unless the watch is
/// already set.
///
/// Clones are handles to the same lock; each can wait in a separate task. A handle does not keep
/// the lock held.
///
/// ```no_run
/// # async fn example(guard: curator_recipes::LockGuard) -> Result<(), curator_recipes::Error> {
/// let loss = guard.loss();
/// tokio::spawn(async move {
///     let lost = loss.await;
///     println!("{lost}");
/// });
/// // The task does not need the guard.
/// guard.release().await
/// # }
/// ```
///
/// Curator has no such handle: its holders are notified only of the connection's state.
///
/// # Cancel safety
///
/// Nothing is lost when it is dropped; other handles, and
/// [`LockGuard::lost`](super::LockGuard::lost), still report the loss.
#[derive(Clone)]
#[must_use = "a handle does nothing unless it is awaited or checked"]
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
    /// Makes the handle of a guard for all of these locks.
    pub(super) fn new(locks: Arc<[HoldEnd]>) -> Self {
        let ends = Arc::clone(&locks);
        let waiting = async move { first_of(ends.iter().cloned().map(HoldEnd::wait)).await };
        Self {
            locks,
            state: State::Waiting(waiting.boxed().shared()),
        }
    }

    /// Whether the lock is certainly held now: like
    /// [`LockGuard::is_valid`](super::LockGuard::is_valid), and false once the lock is released.
    ///
    /// Reads the clock, so the result is right even when no task has run for a while; but only for
    /// *this moment*. Sends nothing.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.known().is_none()
    }

    fn known(&self) -> Option<LockLost> {
        match &self.state {
            State::Over(lost) => Some(lost.clone()),
            State::Waiting(_) => {
                // With several locks, a loss takes precedence over a release: after the loss of one
                // lock, the holder releases the others.
                let ends = self.locks.iter().filter_map(HoldEnd::known);
                ends.min_by_key(|end| end.reason == LossReason::Released)
            }
        }
    }
}

impl Future for LossHandle {
    type Output = LockLost;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<LockLost> {
        // The timer of the wait stops while the machine is suspended; the lease's clock does not.
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
        f.debug_struct("LossHandle")
            .field("known", &self.known())
            .finish_non_exhaustive()
    }
}
