//! Cancellation tokens for the work under a lock.

use tokio_util::sync::CancellationToken;

use super::LockGuard;
use crate::error::LossReason;

impl LockGuard {
    /// A token that is cancelled as soon as the lock is no longer held, because it is lost or
    /// because its last guard is released or dropped. Needs the feature `tokio-util`.
    ///
    /// Pass it to code that must stop then: tasks of the service, libraries that accept a token.
    /// For work that may outlive the guard, use
    /// [`cancellation_token_on_loss`](Self::cancellation_token_on_loss). To distinguish a loss from
    /// a release, use a [`LossHandle`](crate::LossHandle). With a service's own token:
    /// [example](crate::guide::locks#cancellation-tokens).
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
