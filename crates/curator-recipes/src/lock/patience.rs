//! How long an acquire waits, and how many failures it bears.

use std::time::Duration;

use curator_client::{CuratorClient, Deadline, Retrier, SessionEnd};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};

use super::internals::LockInternals;
use crate::error::{Error, Result};

/// How long to wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Enqueue, look, and leave again if somebody is before us.
    OneFlight,
    /// One deadline over everything.
    Until(Deadline),
}

impl Patience {
    /// No longer than `timeout`. Without any, there is time for one flight.
    pub(crate) fn of(timeout: Duration) -> Self {
        if timeout.is_zero() { Self::OneFlight } else { Self::Until(Deadline::after(timeout)) }
    }
}

/// The failures of one acquire so far, and what the retry policy says to them.
pub(crate) struct Failures {
    /// How often somebody has deleted our place.
    pub(crate) places_lost: Retrier,
    /// Those of requests, in a row; a place in the queue ends the row.
    pub(crate) requests: Retrier,
}

impl Failures {
    pub(crate) fn new(client: &CuratorClient) -> Self {
        Self { places_lost: client.retrier(), requests: client.retrier() }
    }
}

/// What bounds the waits of an acquire: its patience, and the life of the client.
impl LockInternals {
    /// Waits for another future of the same owner to be done with `gate`. `None` when patience ends first.
    pub(crate) async fn pass_gate<'a>(
        &self,
        gate: &'a AsyncMutex<()>,
        patience: Patience,
    ) -> Result<Option<MutexGuard<'a, ()>>> {
        match patience {
            Patience::OneFlight => Ok(gate.try_lock().ok()),
            Patience::Until(_) => self.within(patience, async { Ok(Some(gate.lock().await)) }).await,
        }
    }

    /// Ends `work` when the deadline has passed or the client closes. A contender that is dropped so cleans up.
    pub(crate) async fn within<T>(
        &self,
        patience: Patience,
        work: impl Future<Output = Result<Option<T>>>,
    ) -> Result<Option<T>> {
        let deadline = match patience {
            Patience::OneFlight => Deadline::NEVER,
            Patience::Until(deadline) => deadline,
        };
        self.while_open(async {
            tokio::select! {
                biased;
                done = work => done,
                () = self.client().sleep_until(deadline) => Ok(None),
            }
        })
        .await
    }

    /// Ends `work` when the client closes.
    pub(crate) async fn while_open<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let done = tokio::select! {
            biased;
            () = self.client().closing() => Err(curator_client::Error::Closed.into()),
            done = work => done,
        };
        done.map_err(|error| match error {
            // Whichever of the two was seen first, it is the client that closes.
            Error::Client(curator_client::Error::SessionEnded { end: SessionEnd::Closed, .. }) => {
                curator_client::Error::Closed.into()
            }
            error => error,
        })
    }
}
