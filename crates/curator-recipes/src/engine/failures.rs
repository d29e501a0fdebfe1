//! The consecutive failures of one acquire, and its error when the retry policy gives up.

use std::time::Instant;

use curator_client::{CuratorClient, Error as ClientError, RecipeSupport as _, Retrier, ZPath};

use crate::error::{Error, Result};

/// Consecutive failures: of requests, or of finding a session.
#[derive(Debug)]
pub(crate) struct Failures<'a> {
    client: &'a CuratorClient,
    lock: &'a ZPath,
    /// `None` while there is no failure.
    retrier: Option<Retrier>,
    /// When the first of the failing attempts began; without failures, when the latest attempt began.
    since: Instant,
}

impl<'a> Failures<'a> {
    /// An empty count, for an acquire of `lock`.
    pub(crate) fn new(client: &'a CuratorClient, lock: &'a ZPath) -> Self {
        Self { client, lock, retrier: None, since: Instant::now() }
    }

    /// Records that an attempt begins. If it is the first to fail, the time of failing starts here.
    pub(crate) fn attempt(&mut self) {
        if self.retrier.is_none() {
            self.since = Instant::now();
        }
    }

    /// Resets the count: the next failure is the first.
    pub(crate) fn forget(&mut self) {
        self.retrier = None;
    }

    /// Waits for the delay of the retry policy; the next attempt is due when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::AcquireFailed`] when the policy gives up; `error` itself when no retry can help.
    pub(crate) async fn pause(&mut self, error: ClientError) -> Result<()> {
        let retrier = self.retrier();
        let paused = retrier.pause(error).await;
        let attempts = retrier.failures();
        paused.map_err(|cause| self.failed(attempts, cause))
    }

    /// Like [`pause`](Self::pause), for a failure that is not an error of the client. Returns `false` when the policy
    /// gives up.
    pub(crate) async fn again(&mut self) -> Result<bool> {
        Ok(self.retrier().again().await?)
    }

    /// Returns the error of an acquire that does not retry.
    pub(crate) fn without_retry(&self, cause: ClientError) -> Error {
        self.failed(1, cause)
    }

    fn retrier(&mut self) -> &mut Retrier {
        self.retrier.get_or_insert_with(|| self.client.retrier())
    }

    fn failed(&self, attempts: u32, cause: ClientError) -> Error {
        // Other errors, such as a missing permission, need no count of attempts.
        if !cause.is_retryable() {
            return cause.into();
        }
        let failing_for = self.since.elapsed();
        Error::AcquireFailed { lock: self.lock.clone(), attempts, failing_for, cause: Box::new(cause) }
    }
}
