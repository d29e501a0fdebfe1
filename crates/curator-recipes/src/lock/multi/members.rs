//! The members of a multi-lock made from locks: acquires them one after another, and rolls back if
//! one fails.

use std::sync::Arc;
use std::time::Duration;

use curator_client::{CuratorClient, Error as ClientError};

use crate::error::{Error, Result};
use crate::lock::guard::LockGuard;
use crate::lock::inter_process_lock::InterProcessLock;
use crate::owner::OwnerId;
use crate::wait::Wait;

/// The locks, in the order in which they are acquired. At least one.
#[derive(Debug, Clone)]
pub(super) struct Members {
    first: Arc<dyn InterProcessLock>,
    others: Arc<[Arc<dyn InterProcessLock>]>,
}

impl Members {
    pub(super) fn of(locks: Vec<Arc<dyn InterProcessLock>>) -> Option<Self> {
        let mut locks = locks.into_iter();
        Some(Self {
            first: locks.next()?,
            others: locks.collect(),
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<dyn InterProcessLock>> {
        std::iter::once(&self.first).chain(&*self.others)
    }

    pub(super) fn client(&self) -> &CuratorClient {
        self.first.client()
    }

    pub(super) async fn enter(&self, owner: &OwnerId, wait: Wait) -> Result<Option<LockGuard>> {
        let mut held: Option<LockGuard> = None;
        for lock in self.iter() {
            let acquired = match &held {
                None => acquire(&**lock, owner, wait).await,
                Some(guard) => tokio::select! {
                    biased;
                    error = guard.client().closing() => Err(error.into()),
                    // A held lock is lost, so the acquire fails.
                    lost = guard.session_lost() => Err(lost.into()),
                    acquired = acquire(&**lock, owner, wait) => acquired,
                },
            };
            let acquired = match (acquired, held.as_ref().and_then(LockGuard::known_loss)) {
                (Ok(Some(guard)), Some(lost)) => {
                    held = joined(held, guard);
                    Err(lost.into())
                }
                (acquired, _) => acquired,
            };
            match acquired {
                Ok(Some(guard)) => held = joined(held, guard),
                Ok(None) => {
                    let mut failures = roll_back(held, wait).await;
                    // Releases that continue in the background are not reported here; the client's
                    // janitor lists them.
                    failures.retain(|failure| !matches!(failure, Error::ReleasePending { .. }));
                    return if failures.is_empty() {
                        Ok(None)
                    } else {
                        Err(Error::ReleasesFailed { failures })
                    };
                }
                // The error is returned unwrapped, because the end of a client is not a failure of
                // one lock. The drop of `held` releases the locks held so far.
                Err(
                    closed @ Error::Client(
                        ClientError::Closed | ClientError::ClientEnded { .. } | ClientError::Forked,
                    ),
                ) => {
                    return Err(closed);
                }
                Err(cause) => {
                    let rollback = roll_back(held, wait).await;
                    return Err(Error::MultiLockMember {
                        member: name(&**lock),
                        cause: Box::new(cause),
                        rollback,
                    });
                }
            }
        }
        Ok(held)
    }
}

fn joined(held: Option<LockGuard>, next: LockGuard) -> Option<LockGuard> {
    Some(match held {
        None => next,
        Some(held) => held.and(next),
    })
}

async fn acquire(
    lock: &dyn InterProcessLock,
    owner: &OwnerId,
    wait: Wait,
) -> Result<Option<LockGuard>> {
    match wait {
        Wait::Until(deadline) if deadline.has_passed() => lock
            .client()
            .check_connected()
            .map(|()| None)
            .map_err(Error::from),
        wait => lock.acquire_within(owner, wait).await,
    }
}

/// How long a rollback may delay the caller after the deadline. A rollback normally takes one
/// request for each lock.
const GRACE: Duration = Duration::from_secs(1);

/// Releases the locks, the last one first, and returns every error. Releases not finished in time
/// continue in the background.
async fn roll_back(held: Option<LockGuard>, wait: Wait) -> Vec<Error> {
    let Some(held) = held else { return Vec::new() };
    let left = match wait {
        Wait::No => Some(Duration::ZERO),
        Wait::Until(deadline) => deadline.remaining(),
    };
    held.release_within(left.map_or(Duration::MAX, |left| left.max(GRACE)))
        .await
}

fn name(lock: &dyn InterProcessLock) -> String {
    let paths: Vec<_> = lock.paths().iter().map(ToString::to_string).collect();
    paths.join(", ")
}
