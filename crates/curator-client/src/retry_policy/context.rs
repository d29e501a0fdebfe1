//! What a retry policy decides by: the failure, and those before it.

use std::time::Duration;

use crate::error::Error;

/// A failed attempt, and the failures before it: what a [`RetryPolicy`](crate::RetryPolicy) decides
/// by.
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
