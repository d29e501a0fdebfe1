//! The retry loop of the client's operations.

use std::future::Future;

use super::CuratorClient;
use super::recipe_support::RecipeSupport as _;
use crate::error::{Error, Outcome, Result, SessionEnd};
use crate::session::Session;

impl CuratorClient {
    /// Runs `operation` on the current session until it succeeds, fails with an error that cannot
    /// be retried, or this client's policy gives up.
    ///
    /// This is the loop behind every operation of this client. Each attempt first waits for a
    /// connection, no longer than the connection timeout.
    ///
    /// Use it for reads, and for operations that return an error that is not retryable when their
    /// outcome is unknown. For other operations, use [`retry_write`](Self::retry_write).
    ///
    /// # Errors
    ///
    /// The last error of `operation`, or [`Error::NotConnected`](crate::Error::NotConnected).
    ///
    /// # Cancel safety
    ///
    /// That of `operation`.
    // Not an `AsyncFnMut`: its futures cannot be shown to be `Send` (rust-lang/rust issue 100013).
    pub async fn retry<T, F: Future<Output = Result<T>>>(
        &self,
        operation: impl FnMut(Session) -> F,
    ) -> Result<T> {
        self.retry_recording(&mut MaybeApplied::default(), operation)
            .await
    }

    /// Like [`retry`](Self::retry), for an operation that is repeated after an unknown outcome,
    /// because a second change does no harm.
    ///
    /// # Errors
    ///
    /// [`Error::RetryFailed`] if the last attempt was not applied, but an earlier one may have
    /// been. Otherwise the same as [`retry`](Self::retry).
    ///
    /// # Cancel safety
    ///
    /// That of `operation`.
    pub async fn retry_write<T, F: Future<Output = Result<T>>>(
        &self,
        operation: impl FnMut(Session) -> F,
    ) -> Result<T> {
        let mut maybe_applied = MaybeApplied::default();
        self.retry_recording(&mut maybe_applied, operation)
            .await
            .map_err(|error| maybe_applied.explain(error))
    }

    /// Like [`retry`](Self::retry), and records whether an attempt may have been applied.
    pub(super) async fn retry_recording<T, F: Future<Output = Result<T>>>(
        &self,
        maybe_applied: &mut MaybeApplied,
        mut operation: impl FnMut(Session) -> F,
    ) -> Result<T> {
        let mut retrier = self.retrier();
        loop {
            let result = match self.session().await {
                Ok(session) => operation(session).await,
                Err(error) => Err(error),
            };
            match result {
                Ok(value) => return Ok(value),
                Err(error) => {
                    maybe_applied.record(&error);
                    retrier.pause(error).await?;
                }
            }
        }
    }

    /// Like [`retry`](Self::retry), but only in `session`: when the session ends, so do the
    /// retries, even during a pause.
    ///
    /// `ended` makes the error that is returned when the session ends before an attempt or during a
    /// pause. An error that cannot be retried is returned unchanged.
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

/// The error of the last attempt that may have been applied, if there is one.
#[derive(Default)]
pub(super) struct MaybeApplied(Option<Error>);

impl MaybeApplied {
    /// Records an attempt that failed with `error`.
    pub(super) fn record(&mut self, error: &Error) {
        if error.outcome() == Outcome::Unknown {
            self.0 = Some(error.clone());
        }
    }

    pub(super) fn exists(&self) -> bool {
        self.0.is_some()
    }

    /// The error of an operation whose last attempt failed with `error`: its outcome is unknown if
    /// any attempt may have been applied.
    pub(super) fn explain(self, error: Error) -> Error {
        match self.0 {
            Some(in_doubt) if error.outcome() == Outcome::NotApplied => Error::RetryFailed {
                in_doubt: Box::new(in_doubt),
                cause: Box::new(error),
            },
            _ => error,
        }
    }
}
