//! Turns the curves of the `backoff` crate into retry policies. Only this file uses that crate.
//!
//! The crate is complete but no longer maintained (RUSTSEC-2025-0012), so it is behind the feature
//! `backoff`. Only its curves are used, not its clock or its retry loop.

use std::any::{Any, type_name};
use std::fmt;
use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff;

use super::{LONGEST_SLEEP, RetryContext, RetryPolicy};

/// Turns a [`Backoff`] of the `backoff` crate into a [`RetryPolicy`].
///
/// A `Backoff` keeps its progress, but many operations share one policy. So the policy keeps the
/// backoff as a prototype, and for each call steps a fresh copy to the requested retry. Random
/// values of a copy are not kept, so a wait is random within the range of its step, independently
/// of the operation's earlier waits.
///
/// - After 1,024 steps the curve counts as flat: later retries get the wait of retry 1,023. This
///   bounds the cost of a call. A `Backoff` that ends after a number of steps must end within 1,024
///   steps.
/// - If the `Backoff` returns `None` at a step, the policy allows no retry from that step on.
/// - A copy lives for microseconds, so the time that a `Backoff` measures on its own clock is
///   always about zero. For [`backoff::ExponentialBackoff`], the policy itself applies the
///   `max_elapsed_time` to the time since the first failure: no attempt begins later. For other
///   backoffs, set a limit with [`with_max_elapsed`](Self::with_max_elapsed).
/// - No wait is longer than 24 hours.
///
/// ```
/// use std::time::Duration;
///
/// use curator_client::{BackoffRetry, RetryContext, RetryPolicy};
///
/// let policy = BackoffRetry::new(backoff::ExponentialBackoff {
///     initial_interval: Duration::from_millis(100),
///     multiplier: 2.0,
///     randomization_factor: 0.0,
///     max_elapsed_time: Some(Duration::from_secs(30)),
///     ..Default::default()
/// });
/// assert_eq!(policy.next_delay(&RetryContext::new(0, Duration::ZERO)), Some(Duration::from_millis(100)));
/// assert_eq!(policy.next_delay(&RetryContext::new(3, Duration::from_secs(1))), Some(Duration::from_millis(800)));
/// assert_eq!(policy.next_delay(&RetryContext::new(3, Duration::from_secs(30))), None);
/// ```
#[derive(Clone)]
pub struct BackoffRetry<B> {
    prototype: B,
    max_elapsed: Option<Duration>,
}

/// The maximum number of steps: enough for any curve to become flat, and few enough to repeat in
/// each call.
const MOST_STEPS: u32 = 1_024;

impl<B: Backoff + Clone + Send + Sync + 'static> BackoffRetry<B> {
    /// Makes a policy with the curve of `prototype`, from its beginning.
    #[must_use]
    pub fn new(mut prototype: B) -> Self {
        // The copies never reach the limit on their own clock, so the policy applies it.
        let max_elapsed = (&mut prototype as &mut dyn Any)
            .downcast_mut::<ExponentialBackoff>()
            .and_then(|exponential| exponential.max_elapsed_time.take());
        Self {
            prototype,
            max_elapsed,
        }
    }

    /// Allows no attempt to begin later than `max_elapsed` after the first failure.
    #[must_use]
    pub fn with_max_elapsed(mut self, max_elapsed: Duration) -> Self {
        self.max_elapsed = Some(max_elapsed);
        self
    }
}

impl<B: Backoff + Clone + Send + Sync + 'static> RetryPolicy for BackoffRetry<B> {
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        let mut backoff = self.prototype.clone();
        backoff.reset();
        let mut delay = backoff.next_backoff()?;
        for _ in 0..failed.retries().min(MOST_STEPS - 1) {
            delay = backoff.next_backoff()?;
        }
        let delay = delay.min(LONGEST_SLEEP);
        let is_in_time = self
            .max_elapsed
            .is_none_or(|max| failed.elapsed().saturating_add(delay) <= max);
        is_in_time.then_some(delay)
    }
}

impl<B> fmt::Debug for BackoffRetry<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackoffRetry")
            .field("backoff", &format_args!("{}", type_name::<B>()))
            .field("max_elapsed", &self.max_elapsed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn without_jitter(max_elapsed_time: Option<Duration>) -> ExponentialBackoff {
        ExponentialBackoff {
            initial_interval: SECOND,
            multiplier: 2.0,
            randomization_factor: 0.0,
            max_interval: 8 * SECOND,
            max_elapsed_time,
            ..Default::default()
        }
    }

    /// Returns its delays, then `None`, and keeps its position.
    #[derive(Clone)]
    struct Script {
        delays: Vec<Duration>,
        next: usize,
    }

    impl Backoff for Script {
        fn reset(&mut self) {
            self.next = 0;
        }

        fn next_backoff(&mut self) -> Option<Duration> {
            let delay = self.delays.get(self.next).copied();
            self.next += 1;
            delay
        }
    }

    #[test]
    fn next_delay_depends_only_on_its_arguments() {
        let policy = BackoffRetry::new(without_jitter(None));
        for _ in 0..3 {
            for (retries, seconds) in [(4, 8), (0, 1), (3, 8), (1, 2), (2, 4)] {
                assert_eq!(
                    policy.next_delay(&RetryContext::new(retries, Duration::ZERO)),
                    Some(seconds * SECOND)
                );
            }
        }
        // The steps of a call are bounded, so a high number of retries is cheap.
        assert_eq!(
            policy.next_delay(&RetryContext::new(u32::MAX, Duration::MAX)),
            Some(8 * SECOND)
        );
    }

    #[test]
    fn the_limit_of_an_exponential_backoff_applies_to_the_elapsed_time_passed_in() {
        let policy = BackoffRetry::new(without_jitter(Some(10 * SECOND)));
        assert_eq!(
            policy.next_delay(&RetryContext::new(0, 9 * SECOND)),
            Some(SECOND)
        );
        assert_eq!(policy.next_delay(&RetryContext::new(0, 10 * SECOND)), None);
        assert_eq!(policy.next_delay(&RetryContext::new(1, 9 * SECOND)), None);
        assert_eq!(
            policy.next_delay(&RetryContext::new(1, 8 * SECOND)),
            Some(2 * SECOND)
        );
        assert_eq!(
            policy.next_delay(&RetryContext::new(0, Duration::MAX)),
            None
        );
    }

    #[test]
    fn a_custom_backoff_ends_when_its_delays_end_or_at_max_elapsed() {
        let script = Script {
            delays: vec![SECOND, 3 * SECOND],
            next: 1,
        };
        let policy = BackoffRetry::new(script);
        assert_eq!(
            policy.next_delay(&RetryContext::new(0, Duration::MAX)),
            Some(SECOND)
        );
        assert_eq!(
            policy.next_delay(&RetryContext::new(1, Duration::ZERO)),
            Some(3 * SECOND)
        );
        assert_eq!(
            policy.next_delay(&RetryContext::new(2, Duration::ZERO)),
            None
        );
        assert_eq!(
            policy.next_delay(&RetryContext::new(u32::MAX, Duration::ZERO)),
            None
        );
        let limited = policy.with_max_elapsed(5 * SECOND);
        assert_eq!(
            limited.next_delay(&RetryContext::new(1, 2 * SECOND)),
            Some(3 * SECOND)
        );
        assert_eq!(limited.next_delay(&RetryContext::new(1, 3 * SECOND)), None);
        let absurd = BackoffRetry::new(Script {
            delays: vec![Duration::MAX],
            next: 0,
        });
        assert_eq!(
            absurd.next_delay(&RetryContext::new(0, Duration::ZERO)),
            Some(LONGEST_SLEEP)
        );
    }
}
