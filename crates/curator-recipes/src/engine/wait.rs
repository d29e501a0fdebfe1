//! How long an acquire waits.

use std::future::pending;
use std::time::Duration;

use curator_client::{CuratorClient, Deadline, Error as ClientError, SessionEnd};

use crate::error::{Error, Result};

/// How long to wait for other contenders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Not at all: enqueue, look, and leave again if someone is before us. Nothing is retried.
    No,
    /// Until one deadline, which covers everything.
    Until(Deadline),
}

impl Wait {
    pub(crate) const FOREVER: Self = Self::Until(Deadline::NEVER);

    /// Until `timeout` has passed.
    pub(crate) fn timeout(timeout: Duration) -> Self {
        if timeout.is_zero() { Self::No } else { Self::Until(Deadline::after(timeout)) }
    }

    /// Ends `work` with `None` when the deadline has passed, or with an error when the client closes. A contender that
    /// is dropped by this cleans up.
    pub(crate) async fn bound<T>(
        self,
        client: &CuratorClient,
        work: impl Future<Output = Result<Option<T>>>,
    ) -> Result<Option<T>> {
        let deadline = match self {
            Self::No => Deadline::NEVER,
            Self::Until(deadline) => deadline,
        };
        let time_is_up = async {
            match deadline {
                // A timer that never runs out would cost memory for each who waits. The end of the runtime closes the client.
                Deadline::NEVER => pending().await,
                deadline => client.sleep_until(deadline).await,
            }
        };
        let done = tokio::select! {
            biased;
            error = client.closing() => Err(error.into()),
            done = work => done,
            () = time_is_up => Ok(None),
        };
        match done {
            // Whichever of the two was seen first, the cause is that the client closes.
            Err(Error::Client(ClientError::SessionEnded { end: SessionEnd::Closed | SessionEnd::Forked, .. })) => {
                Err(client.closing().await.into())
            }
            done => done,
        }
    }
}
