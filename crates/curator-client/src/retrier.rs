//! Paces the attempts of one operation, and counts its failures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::closing::Closing;
use crate::error::{Error, Result};
use crate::retry_policy::{LONGEST_SLEEP, RetryContext, RetryPolicy, SHORTEST_SLEEP};
use crate::source;
use crate::text::{Truncated, debug_line};
use crate::time::Timer;

/// The retries of one operation: their number, and how long it has been failing.
///
/// Time counts from the first failure and not from the first attempt: an acquire that has waited
/// for an hour has not been failing for an hour.
///
/// Use it for operations whose next attempt makes a different call. The client's own operations
/// already repeat calls that fail; do not nest retry loops.
pub struct Retrier {
    policy: Arc<dyn RetryPolicy>,
    timer: Timer,
    /// The client's name, for the log.
    client: Arc<str>,
    /// Ends the pauses early, if given.
    closing: Option<Closing>,
    /// The number of consecutive failures.
    failures: u32,
    /// When the first of them was recorded.
    first_failure: Option<Instant>,
}

debug_line!(Retrier, |this| policy: this.policy, failures: this.failures);

impl Retrier {
    /// Unless [`until`](Self::until) is called, pauses continue while the client closes, for work
    /// that a closing client waits for.
    pub(crate) fn new(policy: Arc<dyn RetryPolicy>, timer: &Timer, client: &Arc<str>) -> Self {
        let timer = timer.clone();
        let client = Arc::clone(client);
        Self {
            policy,
            timer,
            client,
            closing: None,
            failures: 0,
            first_failure: None,
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
    /// `error` itself when it cannot be retried or the policy allows no retry; [`Error::Closed`],
    /// [`Error::ClientEnded`] or [`Error::Forked`] as soon as the client closes or has ended.
    ///
    /// # Cancel safety
    ///
    /// A dropped pause counts as a retry.
    pub async fn pause(&mut self, error: Error) -> Result<()> {
        if !error.is_retryable() {
            return Err(error);
        }
        let client = &*self.client;
        let retries = self.failures;
        tracing::debug!(client, error = %Truncated(&error), retries, "retrying, if the policy allows it");
        if self.waited(Some(&error)).await? {
            Ok(())
        } else {
            Err(error)
        }
    }

    /// Like [`pause`](Self::pause), for a failure that is not an [`enum@Error`]. Returns `false`
    /// when the policy allows no retry.
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
        let Some(delay) = self.next_delay(error, source::now()) else {
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

    /// The number of consecutive failures, including a last one after which the policy allowed no
    /// retry.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Resets the count: the next failure counts as the first.
    pub fn reset(&mut self) {
        self.failures = 0;
        self.first_failure = None;
    }

    /// Records a failure at `now`, and returns the wait before the next attempt, if the policy
    /// allows one. The wait of a custom policy is clamped to the bounds of the other policies.
    fn next_delay(&mut self, error: Option<&Error>, now: Instant) -> Option<Duration> {
        let elapsed = now.saturating_duration_since(*self.first_failure.get_or_insert(now));
        // Each of the earlier failures was followed by a retry.
        let retries = self.failures;
        self.failures = self.failures.saturating_add(1);
        let mut failed = RetryContext::new(retries, elapsed);
        if let Some(error) = error {
            failed = failed.with_error(error);
        }
        self.policy
            .next_delay(&failed)
            .map(|delay| delay.clamp(SHORTEST_SLEEP, LONGEST_SLEEP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry_policy::{RetryUntilElapsed, retry_fn};

    const SECOND: Duration = Duration::from_secs(1);

    fn retrier(policy: impl RetryPolicy) -> Retrier {
        let timer = Timer::new(tokio::runtime::Handle::current());
        Retrier::new(Arc::new(policy), &timer, &"test".into())
    }

    #[tokio::test]
    async fn the_time_before_the_first_failure_does_not_count_as_elapsed() {
        let start = Instant::now();
        let policy = RetryUntilElapsed::new(2 * SECOND, SECOND).unwrap();
        let mut retrier = retrier(policy);
        // The first attempt took an hour.
        let failed = start + 3600 * SECOND;
        assert_eq!(retrier.next_delay(None, failed), Some(SECOND));
        assert_eq!(retrier.next_delay(None, failed + SECOND), Some(SECOND));
        assert_eq!(retrier.next_delay(None, failed + 2 * SECOND), None);
        assert_eq!(retrier.failures(), 3);
    }

    #[tokio::test]
    async fn a_policy_gets_the_error_and_its_wait_is_brought_within_bounds() {
        let policy = retry_fn(|failed| {
            Some(if failed.error().is_some() {
                Duration::MAX
            } else {
                Duration::ZERO
            })
        });
        let mut retrier = retrier(policy);
        assert_eq!(
            retrier.next_delay(None, Instant::now()),
            Some(Duration::from_millis(1))
        );
        let day = Duration::from_secs(24 * 60 * 60);
        assert_eq!(
            retrier.next_delay(Some(&Error::Closed), Instant::now()),
            Some(day)
        );
    }
}
