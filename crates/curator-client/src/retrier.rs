//! Paces the attempts of one operation.

use std::sync::Arc;

use crate::closing::Closing;
use crate::error::{Error, Result};
use crate::retry_policy::{Failures, RetryPolicy};
use crate::source;
use crate::timer::Timer;
use crate::truncated::Truncated;

/// The retries of one operation: their number, and how long it has been failing.
///
/// Time counts from the first failure and not from the first attempt: an acquire that has waited
/// for an hour has not been failing for an hour.
///
/// For operations whose next attempt makes a different call. The client's own operations already
/// repeat calls that fail; do not nest retry loops.
pub struct Retrier {
    policy: Arc<dyn RetryPolicy>,
    timer: Timer,
    /// The client's name, for the log.
    client: Arc<str>,
    /// Ends the pauses early, if given.
    closing: Option<Closing>,
    failures: Failures,
}

impl std::fmt::Debug for Retrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Retrier")
            .field("policy", &self.policy)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

impl Retrier {
    /// Without [`until`](Self::until), pauses continue while the client closes: for work that a
    /// closing client waits for.
    pub(crate) fn new(policy: Arc<dyn RetryPolicy>, timer: &Timer, client: &Arc<str>) -> Self {
        let (timer, client) = (timer.clone(), Arc::clone(client));
        Self {
            policy,
            timer,
            client,
            closing: None,
            failures: Failures::default(),
        }
    }

    /// Makes pauses end with the client's [error](Closing::error) as soon as the client starts to
    /// close.
    pub(crate) fn until(mut self, closing: &Closing) -> Self {
        self.closing = Some(closing.clone());
        self
    }

    /// Waits as long as the policy requires; the next attempt is due when this returns.
    ///
    /// # Errors
    ///
    /// `error` itself when it cannot be retried or the policy gives up; [`Error::Closed`],
    /// [`Error::ClientEnded`] or [`Error::Forked`] as soon as the client closes or has ended.
    ///
    /// # Cancel safety
    ///
    /// A dropped pause counts as a retry.
    pub async fn pause(&mut self, error: Error) -> Result<()> {
        if !error.is_retryable() {
            return Err(error);
        }
        let (client, retries) = (&*self.client, self.failures.count());
        tracing::debug!(client, error = %Truncated(&error), retries, "retrying, if the policy allows it");
        if self.waited(Some(&error)).await? {
            Ok(())
        } else {
            Err(error)
        }
    }

    /// Like [`pause`](Self::pause), for a failure that is not an [`enum@Error`]. Returns `false`
    /// when the policy gives up.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`], [`Error::ClientEnded`] or [`Error::Forked`] as soon as the client closes
    /// or has ended.
    ///
    /// # Cancel safety
    ///
    /// The same as [`pause`](Self::pause).
    pub async fn again(&mut self) -> Result<bool> {
        self.waited(None).await
    }

    async fn waited(&mut self, error: Option<&Error>) -> Result<bool> {
        let Some(delay) = self
            .failures
            .next_delay(&*self.policy, error, source::now())
        else {
            return Ok(false);
        };
        let pause = self.timer.sleep(delay);
        match &self.closing {
            Some(closing) => tokio::select! {
                biased;
                () = closing.begun() => return Err(closing.error()),
                () = pause => {}
            },
            None => pause.await,
        }
        // After the timers have ended, every pause would return immediately, and the runtime that
        // drives the requests has ended too.
        if self.timer.has_ended() {
            return Err(self.closing.as_ref().map_or(Error::Closed, Closing::error));
        }
        Ok(true)
    }

    /// The number of consecutive failures, including the one at which the policy gave up.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures.count()
    }

    /// Resets the count: the next failure counts as the first.
    pub fn reset(&mut self) {
        self.failures = Failures::default();
    }
}
