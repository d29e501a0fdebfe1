//! A release that nobody waits for too long.

use std::time::Duration;

use curator_recipes::{Error, LockGuard, LockLost};
use tracing::warn;

/// How long anyone waits for a release; after that it goes on in the background.
const RELEASE: Duration = Duration::from_secs(2);

/// How a release has ended.
pub(crate) enum Released {
    Confirmed,
    /// It goes on in the background, or the servers refuse it, and the lock is free when the session ends.
    Unconfirmed,
    /// What was done last may have been done without the lock.
    Lost(LockLost),
}

/// In an outage a release waits as long as the retry policy says, which is forever here.
pub(crate) async fn release(guard: LockGuard) -> Released {
    match guard.release_timeout(RELEASE).await {
        Ok(()) => return Released::Confirmed,
        Err(Error::Lost(lost)) => {
            warn!(%lost, "a lock was lost before its release");
            return Released::Lost(lost);
        }
        Err(error @ Error::ReleasePending { .. }) => warn!(%error, "a release goes on in the background"),
        Err(error) => warn!(%error, "a release has failed"),
    }
    Released::Unconfirmed
}
