//! Counts consecutive failures.

use std::time::{Duration, Instant};

use super::{LONGEST_SLEEP, RetryContext, RetryPolicy, SHORTEST_SLEEP};
use crate::error::Error;

/// The consecutive failures of an operation: their number, and the time of the first one.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    count: u32,
    /// When the first attempt failed.
    first_failure: Option<Instant>,
}

impl Failures {
    /// The number of failures.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Records a failure at `now`, and returns the wait before the next attempt, if the policy
    /// allows one. The wait of a custom policy is brought within the bounds of the other policies.
    pub(crate) fn next_delay(
        &mut self,
        policy: &dyn RetryPolicy,
        error: Option<&Error>,
        now: Instant,
    ) -> Option<Duration> {
        let elapsed = now.saturating_duration_since(*self.first_failure.get_or_insert(now));
        // Each of the earlier failures was followed by a retry.
        let retries = self.count;
        self.count = self.count.saturating_add(1);
        let failed = RetryContext::new(retries, elapsed);
        let failed = error.map_or(failed, |error| failed.with_error(error));
        policy
            .next_delay(&failed)
            .map(|delay| delay.clamp(SHORTEST_SLEEP, LONGEST_SLEEP))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{RetryUntilElapsed, retry_fn};
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_time_before_the_first_failure_does_not_count_as_elapsed() {
        let start = Instant::now();
        let policy = RetryUntilElapsed::new(2 * SECOND, SECOND).unwrap();
        let mut failures = Failures::default();
        // The first attempt took an hour.
        let failed = start + 3600 * SECOND;
        assert_eq!(failures.next_delay(&policy, None, failed), Some(SECOND));
        assert_eq!(
            failures.next_delay(&policy, None, failed + SECOND),
            Some(SECOND)
        );
        assert_eq!(
            failures.next_delay(&policy, None, failed + 2 * SECOND),
            None
        );
        assert_eq!(failures.count(), 3);
    }

    #[test]
    fn a_policy_gets_the_error_and_its_wait_is_brought_within_bounds() {
        let policy = retry_fn(|failed| {
            Some(if failed.error().is_some() {
                Duration::MAX
            } else {
                Duration::ZERO
            })
        });
        let mut failures = Failures::default();
        assert_eq!(
            failures.next_delay(&policy, None, Instant::now()),
            Some(Duration::from_millis(1))
        );
        let day = Duration::from_secs(24 * 60 * 60);
        assert_eq!(
            failures.next_delay(&policy, Some(&Error::Closed), Instant::now()),
            Some(day)
        );
    }
}
