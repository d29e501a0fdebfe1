//! How long an acquire waits.

use std::future::pending;
use std::time::Duration;

use curator_client::{CuratorClient, Deadline, Error as ClientError, RecipeSupport as _, SessionEnd};

use crate::error::{Error, Result};

/// How long an acquire waits for other contenders: what [`InterProcessLock::acquire_within`] is given.
///
/// [`InterProcessLock::acquire_within`]: crate::InterProcessLock::acquire_within
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an implementation of a lock handles every case")]
pub enum Wait {
    /// Not at all. The acquire enqueues, looks, and leaves again if another contender is before it. It retries nothing.
    No,
    /// Until a deadline, which covers everything. If it has passed already, an acquire ends at once, unless the owner
    /// holds the lock; it may enqueue and leave again.
    Until(Deadline),
}

impl Wait {
    /// Without a deadline.
    pub const FOREVER: Self = Self::Until(Deadline::NEVER);

    /// Until `timeout` has passed. A timeout of zero is [`No`](Self::No).
    #[must_use]
    pub fn timeout(timeout: Duration) -> Self {
        if timeout.is_zero() { Self::No } else { Self::Until(Deadline::after(timeout)) }
    }

    /// Ends `work` when the deadline has passed: with `None`, or with the error that there is no connection. Ends it with an
    /// error when the client closes. A contender that is dropped by this cleans up.
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
            // `None` says that another contender is before us, which is not known without a connection. Asked while the work still
            // stands in the queue: to leave it takes requests, which may fail.
            client.check_connected()
        };
        let done = tokio::select! {
            biased;
            error = client.closing() => Err(error.into()),
            done = work => done,
            connected = time_is_up => connected.map(|()| None).map_err(Error::from),
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
