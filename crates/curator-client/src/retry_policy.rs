//! Whether to retry, and how long to wait first: Curator's policies as pure functions.

#[cfg(feature = "backoff")]
mod backoff;
#[cfg(feature = "serde")]
mod configured;

use std::any::type_name;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "backoff")]
pub use self::backoff::BackoffRetry;
#[cfg(feature = "serde")]
pub use self::configured::ConfiguredRetryPolicy;
use crate::error::{Error, InvalidRetryPolicy};

/// Decides how long to wait before the next attempt, or that there is none. Pure: a policy never
/// sleeps; a [`Retrier`](crate::Retrier) does.
///
/// A client has a policy
/// ([`CuratorClientBuilder::retry_policy`](crate::CuratorClientBuilder::retry_policy)), and a view
/// of it can have another one
/// ([`CuratorClient::using_retry_policy`](crate::CuratorClient::using_retry_policy)), which applies
/// to the locks and other recipes that are made with the view. The default is
/// [`ExponentialBackoffRetry`] with 100 ms and 3 retries. [`retry_fn`] makes a policy from a
/// closure.
///
/// After Curator's `RetryPolicy.allowRetry`, without its sleep: the caller sleeps, and can be
/// cancelled meanwhile. One policy serves many operations at the same time, so the result depends
/// only on the arguments, and for some policies on chance.
///
/// # Guarantees
///
/// - A policy is asked only after an error that is [retryable](crate::Error::is_retryable), and
///   only if a repetition is safe ([`Error::outcome`](crate::Error::outcome)): it can prevent
///   retries, but not cause one that would otherwise be wrong.
/// - A pause is at least 1 ms and at most 24 hours long: other values are clamped to these bounds.
///   So no policy causes a busy loop.
/// - A pause ends early when the client closes, and at the deadline of a timed acquire.
/// - If a policy panics, so does the call that asked it, with the same effect as dropping the
///   call's future; the client and its session continue. A recipe with a task, such as a leader
///   latch, ends with an error.
///
/// ```
/// use std::time::Duration;
///
/// use curator_client::{RetryContext, RetryPolicy};
///
/// /// Retries twice, almost immediately, then stops.
/// #[derive(Debug)]
/// struct Impatient;
///
/// impl RetryPolicy for Impatient {
///     fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
///         (failed.retries() < 2).then_some(Duration::from_millis(1))
///     }
/// }
///
/// assert_eq!(Impatient.next_delay(&RetryContext::new(1, Duration::ZERO)), Some(Duration::from_millis(1)));
/// assert_eq!(Impatient.next_delay(&RetryContext::new(2, Duration::ZERO)), None);
/// ```
pub trait RetryPolicy: fmt::Debug + Send + Sync + 'static {
    /// Returns the wait before the next attempt; `None` for no further attempt.
    ///
    /// `failed` counts consecutive failures: a success resets the count.
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration>;
}

impl<P: RetryPolicy + ?Sized> RetryPolicy for Arc<P> {
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        (**self).next_delay(failed)
    }
}

impl<P: RetryPolicy + ?Sized> RetryPolicy for Box<P> {
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        (**self).next_delay(failed)
    }
}

/// The maximum number of retries of an exponential policy, as in Curator: the range doubles each
/// time.
const MOST_EXPONENTIAL_RETRIES: u32 = 29;

/// The shortest sleep, which is Curator's unit. A shorter sleep would be a busy loop against an
/// overloaded server.
pub(crate) const SHORTEST_SLEEP: Duration = Duration::from_millis(1);

/// The longest sleep. A longer value is probably a wrong unit.
pub(crate) const LONGEST_SLEEP: Duration = Duration::from_secs(24 * 60 * 60);

/// Waits longer before each retry, up to a maximum number of retries (Curator's
/// `ExponentialBackoffRetry`).
///
/// The wait before retry n (counted from 0) is random: at least the base sleep, at most 2ⁿ⁺¹ times
/// the base sleep, and never more than the longest sleep, which is 24 hours unless
/// [`with_max_sleep`](Self::with_max_sleep) lowers it.
///
/// Unlike in Curator, clients that fail together do not retry at the same moment. In Curator, the
/// wait is a whole multiple of the base, so *every* client's first retry comes after exactly the
/// base sleep; here the wait is drawn from the whole range. In Curator, any wait above the longest
/// sleep becomes exactly the longest sleep; here the range is cut first, and the wait is drawn from
/// the rest. Curator silently lowers more than 29 retries to 29; here more than 29 retries are an
/// error. Nothing overflows.
///
/// ```
/// use std::time::Duration;
///
/// use curator_client::{ExponentialBackoffRetry, RetryContext, RetryPolicy};
///
/// let policy = ExponentialBackoffRetry::new(Duration::from_millis(100), 3)?;
/// let delay = policy.next_delay(&RetryContext::new(1, Duration::ZERO)).unwrap();
/// assert!(delay >= Duration::from_millis(100) && delay <= Duration::from_millis(400));
/// assert_eq!(policy.next_delay(&RetryContext::new(3, Duration::ZERO)), None);
/// # Ok::<(), curator_client::InvalidRetryPolicy>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExponentialBackoffRetry {
    base_sleep: Duration,
    max_sleep: Duration,
    max_retries: u32,
}

impl ExponentialBackoffRetry {
    /// Waits for `base_sleep` or longer, at most `max_retries` times, which may be 0.
    ///
    /// # Errors
    ///
    /// [`InvalidRetryPolicy`] when `base_sleep` is not between 1 ms and 24 h, or `max_retries` is
    /// more than 29.
    pub fn new(base_sleep: Duration, max_retries: u32) -> Result<Self, InvalidRetryPolicy> {
        check_sleep("base_sleep", base_sleep)?;
        if max_retries > MOST_EXPONENTIAL_RETRIES {
            return Err(InvalidRetryPolicy {
                parameter: "max_retries",
                value: max_retries.to_string(),
                expected: "at most 29",
            });
        }
        Ok(Self {
            base_sleep,
            max_sleep: LONGEST_SLEEP,
            max_retries,
        })
    }

    /// Limits every wait to `max_sleep`.
    ///
    /// # Errors
    ///
    /// [`InvalidRetryPolicy`] when `max_sleep` is shorter than the base sleep or longer than 24 h.
    pub fn with_max_sleep(mut self, max_sleep: Duration) -> Result<Self, InvalidRetryPolicy> {
        check_sleep("max_sleep", max_sleep)?;
        if max_sleep < self.base_sleep {
            return Err(InvalidRetryPolicy {
                parameter: "max_sleep",
                value: format!("{max_sleep:?}"),
                expected: "at least the base sleep",
            });
        }
        self.max_sleep = max_sleep;
        Ok(self)
    }
}

impl RetryPolicy for ExponentialBackoffRetry {
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        let random = fastrand::u64(..);
        let retries = failed.retries();
        (retries < self.max_retries)
            .then(|| exponential_delay(self.base_sleep, self.max_sleep, retries, random))
    }
}

/// Waits longer before each retry, up to a longest sleep and a maximum number of retries (Curator's
/// `BoundedExponentialBackoffRetry`).
///
/// The same as [`ExponentialBackoffRetry`] with
/// [`with_max_sleep`](ExponentialBackoffRetry::with_max_sleep).
///
/// ```
/// use std::time::Duration;
///
/// use curator_client::{BoundedExponentialBackoffRetry, RetryContext, RetryPolicy};
///
/// let policy = BoundedExponentialBackoffRetry::new(Duration::from_millis(100), Duration::from_secs(2), 29)?;
/// assert!(policy.next_delay(&RetryContext::new(28, Duration::ZERO)).unwrap() <= Duration::from_secs(2));
/// # Ok::<(), curator_client::InvalidRetryPolicy>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundedExponentialBackoffRetry {
    curve: ExponentialBackoffRetry,
}

impl BoundedExponentialBackoffRetry {
    /// Waits between `base_sleep` and `max_sleep`, at most `max_retries` times, which may be 0.
    ///
    /// # Errors
    ///
    /// [`InvalidRetryPolicy`] when `base_sleep` or `max_sleep` is not between 1 ms and 24 h,
    /// `max_sleep` is shorter than `base_sleep`, or `max_retries` is more than 29.
    pub fn new(
        base_sleep: Duration,
        max_sleep: Duration,
        max_retries: u32,
    ) -> Result<Self, InvalidRetryPolicy> {
        let curve =
            ExponentialBackoffRetry::new(base_sleep, max_retries)?.with_max_sleep(max_sleep)?;
        Ok(Self { curve })
    }
}

impl RetryPolicy for BoundedExponentialBackoffRetry {
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        self.curve.next_delay(failed)
    }
}

/// Waits the same time before each of a fixed number of retries (Curator's `RetryNTimes`).
///
/// ```
/// use std::time::Duration;
///
/// use curator_client::{RetryContext, RetryNTimes, RetryPolicy};
///
/// let policy = RetryNTimes::new(2, Duration::from_millis(50))?;
/// assert_eq!(policy.next_delay(&RetryContext::new(1, Duration::ZERO)), Some(Duration::from_millis(50)));
/// assert_eq!(policy.next_delay(&RetryContext::new(2, Duration::ZERO)), None);
/// # Ok::<(), curator_client::InvalidRetryPolicy>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryNTimes {
    n: u32,
    sleep_between: Duration,
}

impl RetryNTimes {
    /// Allows at most `n` retries, with a wait of `sleep_between` before each. If `n` is 0, there
    /// is only the first attempt.
    ///
    /// # Errors
    ///
    /// [`InvalidRetryPolicy`] when `sleep_between` is not between 1 ms and 24 h.
    pub fn new(n: u32, sleep_between: Duration) -> Result<Self, InvalidRetryPolicy> {
        check_sleep("sleep_between", sleep_between)?;
        Ok(Self { n, sleep_between })
    }
}

impl RetryPolicy for RetryNTimes {
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        (failed.retries() < self.n).then_some(self.sleep_between)
    }
}

/// Retries once (Curator's `RetryOneTime`).
///
/// ```
/// use std::time::Duration;
///
/// use curator_client::{RetryContext, RetryOneTime, RetryPolicy};
///
/// let policy = RetryOneTime::new(Duration::from_millis(50))?;
/// assert_eq!(policy.next_delay(&RetryContext::new(0, Duration::ZERO)), Some(Duration::from_millis(50)));
/// assert_eq!(policy.next_delay(&RetryContext::new(1, Duration::ZERO)), None);
/// # Ok::<(), curator_client::InvalidRetryPolicy>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryOneTime {
    sleep: Duration,
}

impl RetryOneTime {
    /// Allows one retry, after `sleep`.
    ///
    /// # Errors
    ///
    /// [`InvalidRetryPolicy`] when `sleep` is not between 1 ms and 24 h.
    pub fn new(sleep: Duration) -> Result<Self, InvalidRetryPolicy> {
        check_sleep("sleep", sleep)?;
        Ok(Self { sleep })
    }
}

impl RetryPolicy for RetryOneTime {
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        (failed.retries() == 0).then_some(self.sleep)
    }
}

/// Retries until a given time has passed since the first failure (Curator's `RetryUntilElapsed`).
///
/// The last wait is shortened to end at the limit: no attempt begins later. Curator counts from the
/// start of the first attempt, always sleeps for the full time, even past its limit, and then
/// compares the time before the sleep with the limit.
///
/// ```
/// use std::time::Duration;
///
/// use curator_client::{RetryContext, RetryPolicy, RetryUntilElapsed};
///
/// let second = Duration::from_secs(1);
/// let policy = RetryUntilElapsed::new(10 * second, 3 * second)?;
/// assert_eq!(policy.next_delay(&RetryContext::new(2, 6 * second)), Some(3 * second));
/// assert_eq!(policy.next_delay(&RetryContext::new(3, 9 * second)), Some(second));
/// assert_eq!(policy.next_delay(&RetryContext::new(4, 10 * second)), None);
/// # Ok::<(), curator_client::InvalidRetryPolicy>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryUntilElapsed {
    max_elapsed: Duration,
    sleep_between: Duration,
}

impl RetryUntilElapsed {
    /// Retries with a wait of `sleep_between` before each, until `max_elapsed` after the first
    /// failure.
    ///
    /// # Errors
    ///
    /// [`InvalidRetryPolicy`] when `sleep_between` is not between 1 ms and 24 h, or `max_elapsed`
    /// is shorter.
    pub fn new(max_elapsed: Duration, sleep_between: Duration) -> Result<Self, InvalidRetryPolicy> {
        check_sleep("sleep_between", sleep_between)?;
        if max_elapsed < sleep_between {
            return Err(InvalidRetryPolicy {
                parameter: "max_elapsed",
                value: format!("{max_elapsed:?}"),
                expected: "at least the sleep between two attempts",
            });
        }
        Ok(Self {
            max_elapsed,
            sleep_between,
        })
    }
}

impl RetryPolicy for RetryUntilElapsed {
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        let left = self
            .max_elapsed
            .checked_sub(failed.elapsed())
            .filter(|left| !left.is_zero())?;
        Some(self.sleep_between.min(left))
    }
}

/// Retries forever at a fixed interval (Curator's `RetryForever`).
///
/// An operation with this policy ends when it succeeds, when it fails with an error that is not
/// retryable, or when the client closes.
///
/// ```
/// use std::time::Duration;
///
/// use curator_client::{RetryContext, RetryForever, RetryPolicy};
///
/// let policy = RetryForever::new(Duration::from_secs(1))?;
/// assert_eq!(policy.next_delay(&RetryContext::new(u32::MAX, Duration::MAX)), Some(Duration::from_secs(1)));
/// # Ok::<(), curator_client::InvalidRetryPolicy>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryForever {
    interval: Duration,
}

impl RetryForever {
    /// Retries after every `interval`.
    ///
    /// # Errors
    ///
    /// [`InvalidRetryPolicy`] when `interval` is not between 1 ms and 24 h.
    pub fn new(interval: Duration) -> Result<Self, InvalidRetryPolicy> {
        check_sleep("interval", interval)?;
        Ok(Self { interval })
    }
}

impl RetryPolicy for RetryForever {
    fn next_delay(&self, _failed: &RetryContext<'_>) -> Option<Duration> {
        Some(self.interval)
    }
}

fn check_sleep(parameter: &'static str, sleep: Duration) -> Result<(), InvalidRetryPolicy> {
    if sleep < SHORTEST_SLEEP || sleep > LONGEST_SLEEP {
        return Err(InvalidRetryPolicy {
            parameter,
            value: format!("{sleep:?}"),
            expected: "between 1 ms and 24 h",
        });
    }
    Ok(())
}

/// The point of the range `[base, min(base * 2^(retries + 1), cap)]` that `random` selects,
/// linearly from 0 for the lowest to `u64::MAX` for the highest.
fn exponential_delay(base: Duration, cap: Duration, retries: u32, random: u64) -> Duration {
    let lowest = nanos(base);
    let growth = 1_u64
        .checked_shl(retries.saturating_add(1))
        .unwrap_or(u64::MAX);
    let highest = lowest.saturating_mul(growth).min(nanos(cap)).max(lowest);
    let points = u128::from(highest - lowest) + 1;
    // Less than `points`, so the sum is at most `highest`.
    let offset = (u128::from(random) * points) >> u64::BITS;
    Duration::from_nanos(lowest.saturating_add(u64::try_from(offset).unwrap_or(u64::MAX)))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A failed attempt, and the failures before it: the input of a
/// [`RetryPolicy`](crate::RetryPolicy).
///
/// ```
/// use std::time::Duration;
///
/// use curator_client::{RetryContext, RetryForever, RetryPolicy};
///
/// // To test a policy.
/// let policy = RetryForever::new(Duration::from_secs(1))?;
/// let tenth = RetryContext::new(9, Duration::from_secs(60));
/// assert_eq!(policy.next_delay(&tenth), Some(Duration::from_secs(1)));
/// # Ok::<(), curator_client::InvalidRetryPolicy>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RetryContext<'a> {
    retries: u32,
    elapsed: Duration,
    error: Option<&'a Error>,
}

impl<'a> RetryContext<'a> {
    /// A failure without an error, after this number of retries and this time since the first
    /// failure.
    #[must_use]
    pub fn new(retries: u32, elapsed: Duration) -> Self {
        Self {
            retries,
            elapsed,
            error: None,
        }
    }

    /// Sets the error.
    #[must_use]
    pub fn with_error(self, error: &'a Error) -> Self {
        Self {
            error: Some(error),
            ..self
        }
    }

    /// The number of retries so far: 0 after the first failure.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// The time since the first of these consecutive failures, on a monotonic clock: zero after
    /// that failure itself, however long the first attempt took.
    ///
    /// A success ends the sequence, so an acquire that has waited for hours still has the full time
    /// for retries when a request fails. Curator measures from the start of the first attempt, on
    /// the wall clock, so correcting that clock can end an operation early.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// The error of the attempt, which is always [retryable](Error::is_retryable). `None` if no
    /// request failed: other clients deleted the node of a waiting contender, or changed a value
    /// between the read and the write of an atomic change.
    #[must_use]
    pub fn error(&self) -> Option<&'a Error> {
        self.error
    }
}

/// Makes a retry policy from a closure that returns the pause before the next attempt, or `None`
/// for no further attempt.
///
/// The rules of [`RetryPolicy`] apply. The policies of this crate can be parts of a closure:
///
/// ```
/// use std::time::Duration;
///
/// use curator_client::{Error, RetryContext, RetryForever, RetryPolicy, retry_fn};
///
/// // Waits through an outage, but stops if a server is overloaded.
/// let patient = RetryForever::new(Duration::from_millis(500))?;
/// let policy = retry_fn(move |failed| match failed.error() {
///     Some(Error::Throttled { .. }) => None,
///     _ => patient.next_delay(failed),
/// });
/// assert_eq!(policy.next_delay(&RetryContext::new(0, Duration::ZERO)), Some(Duration::from_millis(500)));
/// # Ok::<(), curator_client::InvalidRetryPolicy>(())
/// ```
pub fn retry_fn<F>(decide: F) -> RetryFn<F>
where
    F: Fn(&RetryContext<'_>) -> Option<Duration> + Send + Sync + 'static,
{
    RetryFn { decide }
}

/// A closure as a [`RetryPolicy`]; made by [`retry_fn`].
#[derive(Clone, Copy)]
pub struct RetryFn<F> {
    decide: F,
}

impl<F> RetryPolicy for RetryFn<F>
where
    F: Fn(&RetryContext<'_>) -> Option<Duration> + Send + Sync + 'static,
{
    fn next_delay(&self, failed: &RetryContext<'_>) -> Option<Duration> {
        (self.decide)(failed)
    }
}

/// Shows the closure's type, which names the function that contains the closure.
impl<F> fmt::Debug for RetryFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RetryFn")
            .field(&format_args!("{}", type_name::<F>()))
            .finish()
    }
}

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
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const ZERO: Duration = Duration::ZERO;

    #[test]
    fn a_fixed_delay_policy_ends_with_its_retries_or_never() {
        let sleep = Some(5 * MS);
        let policies: [(Box<dyn RetryPolicy>, _); 4] = [
            (
                Box::new(RetryNTimes::new(2, 5 * MS).unwrap()),
                [sleep, sleep, None, None],
            ),
            (Box::new(RetryNTimes::new(0, 5 * MS).unwrap()), [None; 4]),
            (
                Box::new(RetryOneTime::new(5 * MS).unwrap()),
                [sleep, None, None, None],
            ),
            (Box::new(RetryForever::new(5 * MS).unwrap()), [sleep; 4]),
        ];
        for (policy, expected) in policies {
            assert_eq!(
                [0, 1, 2, u32::MAX]
                    .map(|retries| policy.next_delay(&RetryContext::new(retries, Duration::MAX))),
                expected,
                "{policy:?}"
            );
        }
    }

    #[test]
    fn the_last_sleep_of_retry_until_elapsed_ends_at_max_elapsed() {
        let policy = RetryUntilElapsed::new(10 * MS, 4 * MS).unwrap();
        assert_eq!(policy.next_delay(&RetryContext::new(0, ZERO)), Some(4 * MS));
        assert_eq!(
            policy.next_delay(&RetryContext::new(1, 6 * MS)),
            Some(4 * MS)
        );
        assert_eq!(
            policy.next_delay(&RetryContext::new(2, 7 * MS)),
            Some(3 * MS)
        );
        assert_eq!(
            policy.next_delay(&RetryContext::new(u32::MAX, 10 * MS)),
            None
        );
        assert_eq!(
            policy.next_delay(&RetryContext::new(0, Duration::MAX)),
            None
        );
    }

    #[test]
    fn an_exponential_policy_ends_with_its_retries() {
        let policy = ExponentialBackoffRetry::new(MS, 29).unwrap();
        assert!(policy.next_delay(&RetryContext::new(28, ZERO)).is_some());
        assert_eq!(policy.next_delay(&RetryContext::new(29, ZERO)), None);
        assert_eq!(policy.next_delay(&RetryContext::new(u32::MAX, ZERO)), None);
        assert_eq!(
            ExponentialBackoffRetry::new(MS, 0)
                .unwrap()
                .next_delay(&RetryContext::new(0, ZERO)),
            None
        );
    }

    #[test]
    fn the_exponential_delay_doubles_up_to_its_cap() {
        assert_eq!(
            [0, 1, 2, 3].map(|retries| exponential_delay(MS, 10 * MS, retries, u64::MAX)),
            [2 * MS, 4 * MS, 8 * MS, 10 * MS]
        );
        assert_eq!(
            [0, 1, 2, 3].map(|retries| exponential_delay(MS, 10 * MS, retries, u64::MAX / 2)),
            [3 * MS / 2, 5 * MS / 2, 9 * MS / 2, 11 * MS / 2]
        );
        assert_eq!(
            [0, 1, 2, 3].map(|retries| exponential_delay(MS, 10 * MS, retries, 0)),
            [MS; 4]
        );
    }

    #[test]
    fn clients_that_fail_together_do_not_retry_together() {
        let policy =
            BoundedExponentialBackoffRetry::new(Duration::from_secs(1), Duration::from_secs(5), 29)
                .unwrap();
        for retries in [0, 28] {
            let mut delays: Vec<_> = (0..100)
                .map(|_| {
                    policy
                        .next_delay(&RetryContext::new(retries, ZERO))
                        .unwrap()
                })
                .collect();
            delays.sort_unstable();
            delays.dedup();
            assert!(
                delays.len() > 95,
                "{} different delays of 100 at retry {retries}",
                delays.len()
            );
        }
    }

    #[test]
    fn invalid_policy_settings_are_refused_with_the_reason() {
        let day = Duration::from_secs(24 * 60 * 60);
        for (result, message) in [
            (
                ExponentialBackoffRetry::new(ZERO, 3).err(),
                "invalid base_sleep 0ns: expected between 1 ms and 24 h",
            ),
            (
                ExponentialBackoffRetry::new(MS, 30).err(),
                "invalid max_retries 30: expected at most 29",
            ),
            (
                BoundedExponentialBackoffRetry::new(2 * MS, MS, 3).err(),
                "invalid max_sleep 1ms: expected at least the base sleep",
            ),
            (
                BoundedExponentialBackoffRetry::new(MS, Duration::MAX, 3).err(),
                "invalid max_sleep 18446744073709551615.999999999s: expected between 1 ms and 24 h",
            ),
            (
                RetryNTimes::new(3, ZERO).err(),
                "invalid sleep_between 0ns: expected between 1 ms and 24 h",
            ),
            (
                RetryOneTime::new(day + MS).err(),
                "invalid sleep 86400.001s: expected between 1 ms and 24 h",
            ),
            (
                RetryUntilElapsed::new(MS, 2 * MS).err(),
                "invalid max_elapsed 1ms: expected at least the sleep between two attempts",
            ),
            (
                RetryForever::new(MS / 2).err(),
                "invalid interval 500µs: expected between 1 ms and 24 h",
            ),
        ] {
            assert_eq!(result.unwrap().to_string(), message);
        }
        assert!(RetryForever::new(day).is_ok());
        assert!(RetryForever::new(MS).is_ok());
        assert!(
            ExponentialBackoffRetry::new(MS, 29)
                .unwrap()
                .with_max_sleep(MS)
                .is_ok()
        );
    }

    proptest! {
        #[test]
        fn the_exponential_delay_stays_within_its_bounds(
            base in 1_u64..=86_400_000, more in 0_u64..=86_400_000, retries in any::<u32>(), random in any::<u64>(),
        ) {
            let cap = Duration::from_millis(base + more);
            let base = Duration::from_millis(base);
            let delay = exponential_delay(base, cap, retries, random);
            prop_assert!(base <= delay && delay <= cap);
            if retries < 29 {
                prop_assert!(delay <= base.saturating_mul(2 << retries));
            }
        }
    }

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
    fn the_patient_policy_begins_at_50_ms_and_slows_down_to_12_attempts_a_minute() {
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
