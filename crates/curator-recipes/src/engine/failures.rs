//! The consecutive failures of one acquire, and its error when the retry policy gives up.

use std::time::Instant;

use curator_client::{CuratorClient, Error as ClientError, RecipeSupport as _, Retrier, ZPath};

use crate::error::{Error, Result};

/// Consecutive failures: of requests, or of finding a session.
#[derive(Debug)]
pub(crate) struct Failures<'a> {
    client: &'a CuratorClient,
    lock: &'a ZPath,
    /// `None` while all is well.
    retrier: Option<Retrier>,
    /// When the first of the failing attempts began; while all is well, the latest attempt.
    since: Instant,
}

impl<'a> Failures<'a> {
    /// None yet, of an acquire of `lock`.
    pub(crate) fn new(client: &'a CuratorClient, lock: &'a ZPath) -> Self {
        Self { client, lock, retrier: None, since: Instant::now() }
    }

    /// An attempt begins. If it fails, and is the first that does, the time of the failure counts from now.
    pub(crate) fn attempt(&mut self) {
        if self.retrier.is_none() {
            self.since = Instant::now();
        }
    }

    /// All is well: the next failure counts as the first.
    pub(crate) fn forget(&mut self) {
        self.retrier = None;
    }

    /// Waits for as long as the policy says; the next attempt is due when this returns.
    ///
    /// # Errors
    ///
    /// That the acquire has failed, when the policy gives up; `error` itself when no retry can help.
    pub(crate) async fn pause(&mut self, error: ClientError) -> Result<()> {
        let retrier = self.retrier();
        let paused = retrier.pause(error).await;
        let attempts = retrier.failures();
        paused.map_err(|cause| self.failed(attempts, cause))
    }

    /// As [`pause`](Self::pause), for a failure that is not an error of the client. Returns `false` when the policy gives up.
    pub(crate) async fn again(&mut self) -> Result<bool> {
        Ok(self.retrier().again().await?)
    }

    /// The error of an acquire that retries nothing.
    pub(crate) fn at_once(&self, cause: ClientError) -> Error {
        self.failed(1, cause)
    }

    fn retrier(&mut self) -> &mut Retrier {
        self.retrier.get_or_insert_with(|| self.client.retrier())
    }

    fn failed(&self, attempts: u32, cause: ClientError) -> Error {
        // Others, such as a missing permission, say all that there is to say.
        if !cause.is_retryable() {
            return cause.into();
        }
        let failing_for = self.since.elapsed();
        Error::AcquireFailed { lock: self.lock.clone(), attempts, failing_for, cause: Box::new(cause) }
    }
}
