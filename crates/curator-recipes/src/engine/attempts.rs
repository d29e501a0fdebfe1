//! Counts the failed attempts of one acquire, and pauses between attempts.
//!
//! The retry policy decides on the pauses after failures, but not while other clients keep changing
//! the lock's directories: then the contest decides when a pause is due (`IMMEDIATE_ATTEMPTS` in
//! `curator-protocol`).

use std::time::Instant;

use curator_client::{CuratorClient, Error as ClientError, Retrier, ZPath, source};
use curator_protocol::Request;

use super::internals::LockInternals;
use crate::error::{Error, Result};

/// The consecutive failed attempts of an acquire to send requests, or to get a session.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    client: &'a CuratorClient,
    lock: &'a ZPath,
    /// `None` while there is no failure.
    retrier: Option<Retrier>,
    /// The pauses while other clients keep creating and deleting the directories; `None` before the
    /// first.
    changes: Option<Box<Retrier>>,
    /// When the first of the failing attempts began; without failures, when the latest attempt
    /// began.
    since: Instant,
    /// The attempts to create nodes whose directories other clients may delete in the meantime;
    /// `None` before the first.
    creates: Option<Creates>,
}

/// Consecutive attempts to create the same nodes.
#[derive(Debug)]
struct Creates {
    /// Whether the nodes are contenders in queues; otherwise they are leases, or the limit.
    of_queue: bool,
    attempts: u32,
    /// When the first attempt began.
    since: Instant,
}

impl LockInternals {
    /// Starts to count the attempts of an acquire of this lock.
    pub(crate) fn attempts(&self) -> Attempts<'_> {
        Attempts {
            client: &self.client,
            lock: &self.paths[0],
            retrier: None,
            changes: None,
            since: source::now(),
            creates: None,
        }
    }
}

impl Attempts<'_> {
    /// Records that an attempt begins. If it is the first to fail, `failing_for` starts here.
    pub(crate) fn begin(&mut self) {
        if self.retrier.is_none() {
            self.since = source::now();
        }
    }

    /// Resets the count: the next failure is the first.
    pub(crate) fn reset(&mut self) {
        self.retrier = None;
        self.changes = None;
        self.creates = None;
    }

    /// Counts an attempt to create nodes, if one of these requests creates a node with parents, the
    /// limit, or leases.
    pub(crate) fn creates(&mut self, requests: &[(usize, Request)]) {
        let of_queue = requests
            .iter()
            .any(|(_, request)| *request == Request::CreateWithParents);
        let of_claim = requests
            .iter()
            .any(|(_, request)| matches!(request, Request::CreateLimit | Request::Take { .. }));
        if !of_queue && !of_claim {
            return;
        }
        match &mut self.creates {
            Some(creates) if creates.of_queue == of_queue => creates.attempts += 1,
            creates => {
                *creates = Some(Creates {
                    of_queue,
                    attempts: 1,
                    since: self.since,
                });
            }
        }
    }

    /// Waits for the delay of the retry policy; the next attempt is due when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::AcquireFailed`] when the policy permits no retry; `error` itself when a retry
    /// cannot help.
    pub(crate) async fn pause(&mut self, error: ClientError) -> Result<()> {
        let retrier = self.retrier.get_or_insert_with(|| self.client.retrier());
        let paused = retrier.pause(error).await;
        let attempts = retrier.failures();
        paused.map_err(|cause| self.failed(attempts, cause))
    }

    /// Waits before the next attempt while other clients keep creating and deleting the
    /// directories: longer each time, up to a second. These changes are not failures, so the retry
    /// policy is not consulted, and there is no limit on the number of pauses.
    ///
    /// # Errors
    ///
    /// The client's error when it closes or has ended.
    pub(crate) async fn pause_for_changes(&mut self) -> Result<()> {
        let changes = self
            .changes
            .get_or_insert_with(|| Box::new(self.client.persistent_retrier()));
        changes.again().await?;
        Ok(())
    }

    /// Returns the error of an acquire that does not retry.
    pub(crate) fn without_retry(&self, cause: ClientError) -> Error {
        self.failed(1, cause)
    }

    /// Returns the error of an acquire that must not wait while other clients keep creating and
    /// deleting the directories.
    pub(crate) fn keep_changing(&mut self, cause: ClientError) -> Error {
        let Some(Creates {
            attempts, since, ..
        }) = self.creates
        else {
            return self.without_retry(cause);
        };
        self.since = since;
        self.failed(attempts, cause)
    }

    fn failed(&self, attempts: u32, cause: ClientError) -> Error {
        // Other errors, such as a missing permission, need no count of attempts.
        if !cause.is_retryable() {
            return cause.into();
        }
        let failing_for = source::elapsed(self.since);
        Error::AcquireFailed {
            lock: self.lock.clone(),
            attempts,
            failing_for,
            cause: Box::new(cause),
        }
    }
}
