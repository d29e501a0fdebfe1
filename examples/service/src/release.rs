//! Releases a lock, and waits for a limited time.

use std::time::Duration;

use curator_recipes::{Error, LockGuard, LockLost};
use tracing::warn;

/// How long a request waits for a release, which then continues in the background.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of a release.
pub(crate) enum Released {
    Confirmed,
    /// The release continues in the background, or the servers have refused it. If they have
    /// refused it, the lock is released when the session ends.
    Unconfirmed,
    /// The lock was lost before the release, so the last operations may have been done without it.
    Lost(LockLost),
}

/// Releases the lock, and waits for at most [`RELEASE_TIMEOUT`]. Without this limit, the wait would
/// last through an outage for as long as the retry policy permits, which is forever here.
pub(crate) async fn release(guard: LockGuard) -> Released {
    match guard.release_timeout(RELEASE_TIMEOUT).await {
        Ok(()) => return Released::Confirmed,
        Err(Error::Lost(lost)) => {
            warn!(%lost, "a lock was lost before its release");
            return Released::Lost(lost);
        }
        Err(error @ Error::ReleasePending { .. }) => {
            warn!(%error, "a release continues in the background");
        }
        Err(error) => warn!(%error, "a release has failed"),
    }
    Released::Unconfirmed
}
