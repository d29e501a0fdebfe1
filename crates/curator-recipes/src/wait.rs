//! How long an acquire waits, and what it returns when the time is up.

use std::future::pending;
use std::time::Duration;

use curator_client::{CuratorClient, Deadline, Error as ClientError, SessionEnd};

use crate::error::{Error, Result};

/// How long an acquire waits for other contenders: the argument of
/// [`InterProcessLock::acquire_within`].
///
/// [`InterProcessLock::acquire_within`]: crate::InterProcessLock::acquire_within
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "an implementation of a lock handles every case"
)]
pub enum Wait {
    /// The acquire does not wait. It creates its node, reads the queue, and deletes its node again
    /// if another contender is ahead. It does not retry.
    ///
    /// For a semaphore, the acquire does wait for contenders ahead while enough leases are left,
    /// because all contenders pass through the queue, even if leases are free: see
    /// [`try_acquire`](crate::InterProcessSemaphoreV2::try_acquire).
    No,
    /// The acquire waits until a deadline, which covers connecting, queueing and requests. If the
    /// deadline has already passed, the acquire ends immediately, unless the owner holds the lock;
    /// it may create its node and delete it again.
    Until(Deadline),
}

impl Wait {
    /// Waits without a deadline.
    pub const FOREVER: Self = Self::Until(Deadline::NEVER);

    /// Waits until `timeout` has passed. A timeout of zero means [`No`](Self::No).
    #[must_use]
    pub fn timeout(timeout: Duration) -> Self {
        if timeout.is_zero() {
            Self::No
        } else {
            Self::Until(Deadline::after(timeout))
        }
    }

    /// Runs `work` until the deadline or until the client closes. At the deadline, returns `None`,
    /// or an error if there is no connection; when the client closes, returns its error. In both
    /// cases `work` is dropped, and its contender deletes its nodes in the background.
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
                // No timer, because it would use memory for each waiter. If the runtime ends, the
                // client ends too, which completes `closing` below.
                Deadline::NEVER => pending().await,
                deadline => client.sleep_until(deadline).await,
            }
            // `None` means that another contender is ahead, which is unknown without a connection.
            // Check the connection before `work` is dropped, because the drop sends a delete, which
            // may find the connection broken.
            client.check_connected()
        };
        let done = tokio::select! {
            biased;
            error = client.closing() => Err(error.into()),
            done = work => done,
            connected = time_is_up => connected.map(|()| None).map_err(Error::from),
        };
        match done {
            // The client has ended, which ended the session, and `work` noticed the session first.
            Err(Error::Client(ClientError::SessionEnded {
                end: SessionEnd::Closed | SessionEnd::Forked,
                ..
            })) => Err(client.closing().await.into()),
            done => done,
        }
    }
}
