//! Counts consecutive failures.

use std::time::{Duration, Instant};

use super::RetryPolicy;

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

    /// Records a failure at `now`, and returns the wait before the next attempt, if the policy allows one.
    pub(crate) fn next_delay(&mut self, policy: &dyn RetryPolicy, now: Instant) -> Option<Duration> {
        let elapsed = now.saturating_duration_since(*self.first_failure.get_or_insert(now));
        // Each of the earlier failures was followed by a retry.
        let retries = self.count;
        self.count = self.count.saturating_add(1);
        policy.next_delay(retries, elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::RetryUntilElapsed;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_time_before_the_first_failure_does_not_count_as_elapsed() {
        let start = Instant::now();
        let policy = RetryUntilElapsed::new(2 * SECOND, SECOND).unwrap();
        let mut failures = Failures::default();
        // The first attempt took an hour.
        let failed = start + 3600 * SECOND;
        assert_eq!(failures.next_delay(&policy, failed), Some(SECOND));
        assert_eq!(failures.next_delay(&policy, failed + SECOND), Some(SECOND));
        assert_eq!(failures.next_delay(&policy, failed + 2 * SECOND), None);
        assert_eq!(failures.count(), 3);
    }
}
