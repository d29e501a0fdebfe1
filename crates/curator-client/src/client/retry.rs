//! The retry loop of the client's operations.

use std::future::Future;

use super::CuratorClient;
use super::recipe_support::RecipeSupport as _;
use crate::error::{Error, Result, SessionEnd};
use crate::session::Session;

impl CuratorClient {
    /// Runs `operation` on the current session until it succeeds, fails with an error that cannot be retried, or this
    /// client's policy gives up.
    ///
    /// This is the loop behind every operation of this client. Each attempt first waits for a connection, no longer
    /// than the connection timeout.
    ///
    /// # Errors
    ///
    /// The last error of `operation`, or [`Error::NotConnected`](crate::Error::NotConnected).
    ///
    /// # Cancel safety
    ///
    /// That of `operation`.
    // Not an `AsyncFnMut`: its futures cannot be shown to be `Send` (rust-lang/rust issue 100013).
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

    /// Like [`retry`](Self::retry), but only in `session`: when the session ends, so do the retries, even during a
    /// pause.
    ///
    /// `ended` makes the error that is returned when the session ends before an attempt or during a pause. An error
    /// that cannot be retried is returned unchanged.
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
}
