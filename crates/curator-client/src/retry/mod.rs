//! Trying again: the policies decide, and one loop obeys.

mod backoff;
mod persistent;
mod policy;
mod row;

use std::sync::Arc;

use tokio::time::Instant;

pub use self::backoff::BackoffRetry;
pub(crate) use self::persistent::Persistently;
pub use self::policy::{
    BoundedExponentialBackoffRetry, ExponentialBackoffRetry, InvalidRetryPolicy, RetryForever, RetryNTimes,
    RetryOneTime, RetryPolicy, RetryUntilElapsed,
};
use self::row::Row;
use crate::error::{Error, Result, SessionEnd};
use crate::session::Session;
use crate::shared::Shared;

/// Runs `operation` on the current session until it succeeds, fails for good, or the client's policy gives up.
///
/// Each try waits for a session first, no longer than the connection timeout.
///
/// Not an `AsyncFnMut`: the futures of those cannot be shown to be `Send` (rust-lang/rust issue 100013).
pub(crate) async fn retry<T, F>(shared: &Arc<Shared>, mut operation: impl FnMut(Session) -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut retrier = Retrier::new(shared);
    loop {
        let result = match shared.session().await {
            Ok(session) => operation(session).await,
            Err(error) => Err(error),
        };
        match result {
            Ok(value) => return Ok(value),
            Err(error) => retrier.pause(error).await?,
        }
    }
}

/// As [`retry`], but on `session` and no other: the end of the session is the end of the retries, in the middle of a pause
/// too.
///
/// `ended` is the error for that. It must be true of an operation that failed in a way that can be retried.
pub(crate) async fn retry_in<T, F>(
    shared: &Arc<Shared>,
    session: &Session,
    ended: impl Fn(SessionEnd) -> Error,
    mut operation: impl FnMut() -> F,
) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut retrier = Retrier::new(shared);
    loop {
        let error = match shared.connection_of(session).await {
            Ok(Err(end)) => return Err(ended(end)),
            Ok(Ok(())) => match operation().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            },
            Err(error) => error,
        };
        if !error.is_retryable() {
            return Err(error);
        }
        tokio::select! {
            biased;
            end = session.ended() => return Err(ended(end)),
            paused = retrier.pause(error) => paused?,
        }
    }
}

/// The retries of one operation: how many there were, and since when it has been failing.
///
/// Time counts from the first failure and not from the first try: an acquire that has waited for an hour has not failed for
/// an hour.
///
/// For a protocol whose next try is not simply the same call again. What can be said as "the same call again" is
/// retried by the client's own operations already; do not put one loop inside another.
#[derive(Debug)]
pub struct Retrier {
    shared: Arc<Shared>,
    policy: Arc<dyn RetryPolicy>,
    row: Row,
    even_while_closing: bool,
}

impl Retrier {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self::with_policy(shared, Arc::clone(&shared.options.retry_policy))
    }

    pub(crate) fn with_policy(shared: &Arc<Shared>, policy: Arc<dyn RetryPolicy>) -> Self {
        Self { shared: Arc::clone(shared), policy, row: Row::default(), even_while_closing: false }
    }

    /// A closing client does not end the pauses: for duties that it waits for.
    pub(crate) fn even_while_closing(mut self) -> Self {
        self.even_while_closing = true;
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
        tracing::debug!(%error, retries = self.row.retries(), "trying again, if the policy agrees");
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
        let Some(delay) = self.row.next_delay(&*self.policy, Instant::now()) else { return Ok(false) };
        tokio::select! {
            biased;
            () = self.shared.closing(), if !self.even_while_closing => Err(Error::Closed),
            // Timers that have ended do not pace anything any more; and nobody is left who could answer.
            () = self.shared.timer.sleep(delay) => if self.shared.timer.has_ended() { Err(Error::Closed) } else { Ok(true) },
        }
    }

    /// Forgets the retries so far: the next failure is the first of another row.
    pub fn reset(&mut self) {
        self.row = Row::default();
    }
}
