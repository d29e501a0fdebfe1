//! The retry policies of background work, which never give up.

use std::time::Duration;

use super::{RetryContext, RetryPolicy, exponential_delay};

/// Retries forever, with random waits between 50 ms and a bound that doubles up to 1 s.
///
/// For the client's background work: a connection after an outage, a new session after a loss, and
/// the janitor's deletes. This work ends with the session or the client, not after a number of
/// attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unlimited;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

impl RetryPolicy for Unlimited {
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        Some(exponential_delay(
            FIRST,
            LONGEST,
            failed.retries(),
            fastrand::u64(..),
        ))
    }
}

/// Like [`Unlimited`], with waits of up to 10 s: for requests that the server refuses, until the
/// cause is repaired.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patient;

const LONGEST_WHILE_REFUSED: Duration = Duration::from_secs(10);

impl RetryPolicy for Patient {
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        Some(exponential_delay(
            FIRST,
            LONGEST_WHILE_REFUSED,
            failed.retries(),
            fastrand::u64(..),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unlimited_policy_slows_down_and_never_ends() {
        let delay = |retries| Unlimited.next_delay(&RetryContext::new(retries, Duration::MAX));
        for _ in 0..100 {
            assert!((FIRST..=FIRST * 2).contains(&delay(0).unwrap()));
            assert!((FIRST..=LONGEST).contains(&delay(u32::MAX).unwrap()));
        }
        // Clients that were cut off together must not reconnect together.
        assert!((0..100).any(|_| delay(10) != delay(10)));
        assert!((0..100).any(|_| delay(10).unwrap() > LONGEST / 2));
    }

    #[test]
    fn the_patient_policy_begins_like_the_other_one_and_slows_down_to_a_few_attempts_a_minute() {
        let delay = |retries| {
            Patient
                .next_delay(&RetryContext::new(retries, Duration::MAX))
                .unwrap()
        };
        assert!((0..100).all(|_| (FIRST..=FIRST * 2).contains(&delay(0))));
        let many: Duration = (0..1_000).map(|_| delay(u32::MAX)).sum();
        // 5 s on average, so 12 attempts a minute.
        assert!(
            (Duration::from_secs(4_000)..Duration::from_secs(6_000)).contains(&many),
            "{many:?}"
        );
    }
}
