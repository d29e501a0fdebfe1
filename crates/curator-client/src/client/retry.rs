//! Retrying operations.

use std::future::Future;
use std::sync::Arc;

use super::CuratorClient;
use crate::error::{Error, Result, SessionEnd};
use crate::retrier::Retrier;
use crate::retry_policy::Unlimited;
use crate::session::Session;

impl CuratorClient {
    /// Runs `operation` on the current session until it succeeds, fails for good, or this client's policy gives up: the
    /// loop behind every operation of this client. Each try waits for a connection first, no longer than the connection
    /// timeout.
    ///
    /// # Errors
    ///
    /// The last error of `operation`, or that there is no connection.
    ///
    /// # Cancel safety
    ///
    /// That of `operation`.
    // Not an `AsyncFnMut`: the futures of those cannot be shown to be `Send` (rust-lang/rust issue 100013).
    pub async fn retry<T, F: Future<Output = Result<T>>>(&self, mut operation: impl FnMut(Session) -> F) -> Result<T> {
        let mut retrier = self.retrier();
        loop {
            let result = match self.session().await {
                Ok(session) => operation(session).await,
                Err(error) => Err(error),
            };
            match result {
                Ok(value) => return Ok(value),
                Err(error) => retrier.pause(error).await?,
            }
        }
    }

    /// As [`retry`](Self::retry), but on `session` and no other: the end of the session is the end of the retries, in the
    /// middle of a pause too.
    ///
    /// `ended` is the error for that. It must be true of an operation that failed in a way that can be retried.
    pub(super) async fn retry_in<T, F: Future<Output = Result<T>>>(
        &self,
        session: &Session,
        ended: impl Fn(SessionEnd) -> Error,
        mut operation: impl FnMut() -> F,
    ) -> Result<T> {
        let mut retrier = self.retrier();
        loop {
            let error = match self.inner.sessions.connection_of(session).await {
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

    /// The retries of one operation that is not simply "the same call again", by this client's policy.
    #[must_use]
    pub fn retrier(&self) -> Retrier {
        Retrier::new(Arc::clone(&self.inner.retry_policy), &self.inner.timer).until(&self.inner.closing)
    }

    /// Retries that do not end before the client closes: for duties that must not be given up. From 50 ms to 1 s apart.
    #[must_use]
    pub fn persistent_retrier(&self) -> Retrier {
        Retrier::new(Arc::new(Unlimited), &self.inner.timer).until(&self.inner.closing)
    }
}
