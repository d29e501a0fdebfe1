//! A closure as a retry policy.

use std::any::type_name;
use std::fmt;
use std::time::Duration;

use super::{RetryContext, RetryPolicy};

/// Makes a retry policy of a closure that returns the pause before the next attempt, or `None` to
/// give up.
///
/// The rules of [`RetryPolicy`] apply. The policies of this crate can be parts of a closure:
///
/// ```
/// use std::time::Duration;
///
/// use curator_client::{Error, RetryContext, RetryForever, RetryPolicy, retry_fn};
///
/// // Waits through an outage, but gives up if a server is overloaded.
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

/// The type of a closure names the function that contains it.
impl<F> fmt::Debug for RetryFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RetryFn")
            .field(&format_args!("{}", type_name::<F>()))
            .finish()
    }
}
