//! The locks that a command can run under.

use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::{ClockInstant, CuratorClient, Session};
use curator_recipes::{
    Error, FencingToken, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphoreV2, LeaderLatch, Leadership, LockGuard,
    LockLost, OwnerId, Participant,
};

use crate::arguments::Run;
use crate::contender::{Contender, names};
use crate::failure::{Code, Failure};
use crate::print::print_message;

/// How often a waiting participant checks why it cannot take part in the election.
const ERROR_CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// A lock that is not acquired yet.
pub(crate) enum Lock {
    Exclusive(Arc<dyn InterProcessLock>),
    Shared(InterProcessReadWriteLock),
    Semaphore(InterProcessSemaphoreV2),
}

/// A lock that is held.
pub(crate) enum Held {
    Guard(LockGuard),
    Term {
        latch: LeaderLatch,
        term: Leadership,
        session: Session,
    },
}

impl Lock {
    /// The lock that the options select.
    pub(crate) fn of(run: &Run, client: &CuratorClient) -> Result<Self, Failure> {
        let one = || match run.lock.as_slice() {
            [path] => Ok(path),
            _ => Err(Failure::here(
                "pass one --lock: several are possible only for plain exclusive locks",
            )),
        };
        Ok(match run.semaphore {
            Some(leases) => Self::Semaphore(InterProcessSemaphoreV2::new(client, one()?, leases)?),
            None if run.shared => {
                Self::Shared(InterProcessReadWriteLock::non_reentrant(client, one()?)?)
            }
            None if run.exclusive => {
                let lock = InterProcessReadWriteLock::non_reentrant(client, one()?)?;
                Self::Exclusive(Arc::new(lock.write().clone()))
            }
            None => match run.lock.as_slice() {
                [path] => {
                    Self::Exclusive(Arc::new(InterProcessMutex::non_reentrant(client, path)?))
                }
                paths => Self::Exclusive(Arc::new(InterProcessMultiLock::non_reentrant(
                    client, paths,
                )?)),
            },
        })
    }

    /// Acquires the lock; `None` after the timeout. With a timeout of zero, tries the lock once.
    pub(crate) async fn acquire(&self, timeout: Duration) -> Result<Option<Held>, Failure> {
        let guard = match self {
            Self::Exclusive(lock) => lock.acquire_timeout_as(&OwnerId::new(), timeout).await?,
            Self::Shared(lock) => lock.read().acquire_timeout(timeout).await?,
            Self::Semaphore(lock) => lock.acquire_timeout(timeout).await?.map(LockGuard::from),
        };
        Ok(guard.map(Held::Guard))
    }

    /// The holders and the waiters.
    pub(crate) async fn participants(&self) -> Result<Vec<Participant>, Failure> {
        Ok(match self {
            Self::Exclusive(lock) => lock.participants().await?,
            Self::Shared(lock) => lock.participants().await?,
            Self::Semaphore(lock) => lock.participants().await?,
        })
    }

    /// The failure when the lock was not acquired in time. Names the holders, or the first
    /// contender in the queue if a lease was free, if they can be read.
    pub(crate) async fn not_acquired(&self, run: &Run) -> Failure {
        let participants = self.participants().await.unwrap_or_default();
        let (holders, waiters): (Vec<_>, Vec<_>) = participants
            .iter()
            .partition(|participant| participant.owns);
        let contender = |participant: &Participant| Contender::from_data(&participant.data);
        let why = match (run.semaphore, waiters.first()) {
            (Some(leases), Some(first)) if holders.len() < leases => {
                format!(
                    "a lease was free, but {} before this one in the queue did not move",
                    contender(first)
                )
            }
            _ => {
                let by = names(holders.into_iter().map(contender))
                    .unwrap_or_else(|| "another client".to_owned());
                format!("it was held by {by}")
            }
        };
        Failure::new(
            Code::NotAcquired,
            format!("{} was not acquired: {why}", run.lock.join(", ")),
        )
    }
}

impl Held {
    /// Waits until this process leads, through outages of any length.
    pub(crate) async fn lead(
        client: &CuratorClient,
        path: &str,
        this: &Contender,
    ) -> Result<(Self, Session), Failure> {
        let id = String::from_utf8_lossy(&this.to_data()).into_owned();
        let latch = LeaderLatch::builder(client, path)?.id(id).start();
        let mut last_printed = None;
        loop {
            let term = tokio::select! {
                term = latch.leadership() => term?,
                () = tokio::time::sleep(ERROR_CHECK_INTERVAL) => {
                    // Print only errors that a retry cannot cure, such as a missing permission or
                    // exhausted sequence numbers.
                    let error = latch.last_error().filter(|error| !error.is_retryable()).map(|error| error.to_string());
                    if let Some(error) = error.as_ref().filter(|_| error != last_printed) {
                        print_message(format_args!("cannot take part in {path}: {error}"));
                    }
                    last_printed = error;
                    continue;
                }
            };
            // If the term is still valid after the session was read, the term belongs to this
            // session.
            if let Some(session) = client.current_session().filter(|_| term.is_valid()) {
                return Ok((
                    Self::Term {
                        latch,
                        term,
                        session: session.clone(),
                    },
                    session,
                ));
            }
            term.lost().await;
        }
    }

    /// Until this moment, no other client can have the lock.
    pub(crate) fn valid_until(&self) -> ClockInstant {
        match self {
            Self::Guard(guard) => guard.valid_until(),
            Self::Term { session, .. } => session.lease().valid_until(),
        }
    }

    pub(crate) fn token(&self) -> FencingToken {
        match self {
            Self::Guard(guard) => guard.fencing_token(),
            Self::Term { term, .. } => term.fencing_token(),
        }
    }

    /// Waits until the lock is lost.
    pub(crate) async fn lost(&self) -> LockLost {
        match self {
            Self::Guard(guard) => guard.lost().await,
            Self::Term { term, .. } => term.lost().await,
        }
    }

    /// Waits until another client [requests](curator_recipes::revoke) the lock. A leader resigns on
    /// such a request without this call, and loses its term.
    pub(crate) async fn revoked(&self) {
        if let Self::Guard(guard) = self
            && guard.revocation_requested().await.is_ok()
        {
            return;
        }
        std::future::pending::<()>().await;
    }

    /// Releases the lock.
    pub(crate) async fn release(self) -> Result<(), Error> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::Term { latch, term, .. } => {
                drop(term);
                latch.close().await
            }
        }
    }
}
