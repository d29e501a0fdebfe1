//! The pauses between the attempts of one operation.

use std::sync::Arc;

use tokio::time::Instant;

use crate::closing::Closing;
use crate::error::{Error, Result};
use crate::retry_policy::{Failures, RetryPolicy};
use crate::timer::Timer;

/// The retries of one operation: how many there were, and since when it has been failing.
///
/// Time counts from the first failure and not from the first try: an acquire that has waited for an hour has not failed for
/// an hour.
///
/// For a protocol whose next try is not simply the same call again. What can be said as "the same call again" is
/// retried by the client's own operations already; do not put one loop inside another.
#[derive(Debug)]
pub struct Retrier {
    policy: Arc<dyn RetryPolicy>,
    timer: Timer,
    /// What ends the pauses early.
    closing: Option<Closing>,
    failures: Failures,
}

impl Retrier {
    /// Its pauses go on while the client closes: for work that a closing client waits for.
    pub(crate) fn new(policy: Arc<dyn RetryPolicy>, timer: &Timer) -> Self {
        Self { policy, timer: timer.clone(), closing: None, failures: Failures::default() }
    }

    /// Pauses end with [`Error::Closed`] as soon as the client starts to close.
    pub(crate) fn until(mut self, closing: &Closing) -> Self {
        self.closing = Some(closing.clone());
        self
    }

    /// Waits for as long as the policy says; then it is time for the next try.
    ///
    /// # Errors
    ///
    /// `error` itself when it cannot be retried or the policy gives up; [`Error::Closed`] as soon as the client closes.
    ///
    /// # Cancel safety
    ///
    /// A dropped pause counts as a retry.
    pub async fn pause(&mut self, error: Error) -> Result<()> {
        if !error.is_retryable() {
            return Err(error);
        }
        tracing::debug!(%error, retries = self.failures.retries(), "trying again, if the policy agrees");
        if self.again().await? { Ok(()) } else { Err(error) }
    }

    /// As [`pause`](Self::pause), for a failure that is no [`enum@Error`]: `false` when the policy gives up.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] as soon as the client closes.
    ///
    /// # Cancel safety
    ///
    /// As [`pause`](Self::pause).
    pub async fn again(&mut self) -> Result<bool> {
        let Some(delay) = self.failures.next_delay(&*self.policy, Instant::now()) else { return Ok(false) };
        let pause = self.timer.sleep(delay);
        match &self.closing {
            Some(closing) => tokio::select! {
                biased;
                () = closing.begun() => return Err(Error::Closed),
                () = pause => {}
            },
            None => pause.await,
        }
        // Timers that have ended do not pace anything any more; and nobody is left who could answer.
        if self.timer.has_ended() { Err(Error::Closed) } else { Ok(true) }
    }

    /// Forgets the retries so far: the next failure is the first again.
    pub fn reset(&mut self) {
        self.failures = Failures::default();
    }
}
