//! Signals to code without a lock's guard that the lock is no longer held: by handles, and by
//! cancellation tokens.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::{BoxFuture, FutureExt as _, Shared, select_all};
#[cfg(feature = "tokio-util")]
use tokio_util::sync::CancellationToken;

#[cfg(feature = "tokio-util")]
use super::LockGuard;
use crate::engine::hold::HoldEnd;
use crate::error::{LockLost, LossReason};

/// Signals to any task when a lock is no longer held; made by
/// [`LockGuard::loss`](super::LockGuard::loss).
///
/// A future that completes when the lock is lost, or, with
/// [`LossReason::Released`](crate::LossReason::Released), when its last guard is released or
/// dropped. So a task that waits for it always ends. For a multi-lock, it completes as soon as one
/// lock is no longer held, with a loss if one lock is lost and the others are released. It also
/// completes after a [downgrade](crate::WriteGuard::downgrade), whose new guard has a separate
/// handle. After it has completed, each further poll returns the same reason.
///
/// `Released` means that this process has released the lock, and is signalled before the delete is
/// sent. The result of the [release](super::LockGuard::release) or the downgrade reports whether
/// the server has deleted the node.
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
/// Nothing is lost when a handle is dropped; other handles, and
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
    Ended(LockLost),
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
            State::Ended(lost) => Some(lost.clone()),
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
        // Reads the clock first: while the machine is suspended, the timer of the wait stops, but
        // the lease's clock does not.
        let known = self.known();
        let lost = match (known, &mut self.state) {
            (Some(lost), _) => lost,
            (None, State::Waiting(waiting)) => {
                let first = std::task::ready!(waiting.poll_unpin(cx));
                self.known().unwrap_or(first)
            }
            (None, State::Ended(lost)) => lost.clone(),
        };
        self.state = State::Ended(lost.clone());
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

/// Cancellation tokens for the work under a lock.
#[cfg(feature = "tokio-util")]
impl LockGuard {
    /// A token that is cancelled as soon as the lock is no longer held, because it is lost or
    /// because its last guard is released or dropped. Needs the feature `tokio-util`.
    ///
    /// Pass it to code that must stop then: tasks of the service, libraries that accept a token.
    /// For work that may outlive the guard, use
    /// [`cancellation_token_on_loss`](Self::cancellation_token_on_loss). To distinguish a loss from
    /// a release, use a [`LossHandle`](crate::LossHandle). To combine it with a service's own
    /// token, see the [example](crate::guide::locks#cancellation-tokens).
    ///
    /// This call spawns a task on the client's runtime, which cancels the token. The task ends with
    /// the hold, or as soon as other code cancels the token, so it does not outlive the client. If
    /// the runtime ends first, the token is cancelled. Each call makes another token and another
    /// task: clone the token if you need several. Like [`lost`](Self::lost), it may set a watch:
    /// one request. If the task is scheduled late, the token is cancelled late;
    /// [`is_valid`](Self::is_valid) and [`run`](Self::run) read the clock.
    ///
    /// ```no_run
    /// # async fn example(guard: curator_recipes::LockGuard) -> Result<(), curator_recipes::Error> {
    /// let token = guard.cancellation_token();
    /// let worker = tokio::spawn(async move {
    ///     token.run_until_cancelled(async { /* the work */ }).await
    /// });
    /// // `None` if the lock was lost first.
    /// let done = worker.await;
    /// # drop(done);
    /// guard.release().await
    /// # }
    /// ```
    #[must_use = "dropping the token cancels nothing"]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.spawn_token(|_| true)
    }

    /// A token that is cancelled when the lock is lost, and only then. Needs the feature
    /// `tokio-util`.
    ///
    /// For work that need not stop when the guard is released, such as a reply that is still being
    /// sent. After the last guard is released or dropped, the token is never cancelled: a task that
    /// only waits for [`cancelled`](CancellationToken::cancelled) waits forever. Otherwise it is
    /// like [`cancellation_token`](Self::cancellation_token), and its task ends with the hold too.
    #[must_use = "dropping the token cancels nothing"]
    pub fn cancellation_token_on_loss(&self) -> CancellationToken {
        self.spawn_token(|end| end != LossReason::Released)
    }

    /// Makes a token that is cancelled when the hold ends for a reason that `cancels` accepts.
    fn spawn_token(&self, cancels: fn(LossReason) -> bool) -> CancellationToken {
        let token = CancellationToken::new();
        let loss = self.loss();
        // The drop guard cancels the token when the runtime drops the task, too.
        let cancelled = token.clone();
        let cancel = token.clone().drop_guard();
        self.client().spawn(async move {
            let cancel = cancel;
            tokio::select! {
                biased;
                end = loss => if !cancels(end.reason) {
                    cancel.disarm();
                },
                () = cancelled.cancelled() => {}
            }
        });
        token
    }
}

/// Runs a future, and drops it when the lock is no longer held.
pub(crate) async fn run_until<F: Future>(
    mut loss: LossHandle,
    future: F,
) -> Result<F::Output, LockLost> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        // Reads the clock, so the future is not polled after the end of the lease.
        if let Poll::Ready(lost) = loss.poll_unpin(cx) {
            return Poll::Ready(Err(lost));
        }
        future.as_mut().poll(cx).map(Ok)
    })
    .await
}

pub(super) async fn first_of<T>(
    futures: impl Iterator<Item = impl Future<Output = T> + Send>,
) -> T {
    let futures: Vec<Pin<Box<_>>> = futures.map(Box::pin).collect();
    select_all(futures).await.0
}
