//! The pauses of one acquire: after failures, as the retry policy allows, and while directories keep changing.

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
    /// The pauses while others keep creating and deleting the directories; `None` without any.
    changes: Option<Box<Retrier>>,
    /// When the first of the failing attempts began; without failures, when the latest attempt began.
    since: Instant,
}

impl<'a> Failures<'a> {
    /// An empty count, for an acquire of `lock`.
    pub(crate) fn new(client: &'a CuratorClient, lock: &'a ZPath) -> Self {
        Self { client, lock, retrier: None, changes: None, since: Instant::now() }
    }

    /// Records that an attempt begins. If it is the first to fail, the time of failing starts here.
    pub(crate) fn attempt(&mut self) {
        if self.retrier.is_none() {
            self.since = Instant::now();
        }
    }

    /// Resets the count: the next failure is the first.
    pub(crate) fn forget(&mut self) {
        (self.retrier, self.changes) = (None, None);
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

    /// Waits before the next attempt while others keep creating and deleting the directories: longer each time, up to
    /// a second. This is no failure, so it does not ask the retry policy, and never gives up.
    ///
    /// # Errors
    ///
    /// That of a client that closes or has ended.
    pub(crate) async fn pause_for_changes(&mut self) -> Result<()> {
        let changes = self.changes.get_or_insert_with(|| Box::new(self.client.persistent_retrier()));
        changes.again().await?;
        Ok(())
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
