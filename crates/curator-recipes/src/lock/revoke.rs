//! Requests a lock back from its holder, or a place in the queue from a waiter.

use curator_client::{CuratorClient, Error as ClientError, ZPath};

use crate::engine::revocation::REVOKE_MESSAGE;
use crate::error::Result;

/// Requests that the contender at `participant` gives back its lock, or its place in the queue.
///
/// `participant` is the [`path`](super::Participant::path) of a
/// [`Participant`](super::Participant), in this process or any other, including Java Curator's.
/// This is only a request: it completes
/// [`LockGuard::revocation_requested`](super::LockGuard::revocation_requested) in the holder, which
/// decides how to react. A contender that still waits for the lock is notified once it holds the
/// lock. A [downgrade](super::WriteGuard::downgrade) keeps a request that the holder has already
/// detected, and loses a later one, because it deletes the write node.
///
/// Curator's `Revoker.attemptToRevoke`: sets the node's data to `__REVOKE__`.
///
/// ```no_run
/// use curator_recipes::{InterProcessMutex, revoke};
/// # async fn example(client: curator_recipes::client::CuratorClient) -> Result<(), curator_recipes::Error> {
/// let mutex = InterProcessMutex::non_reentrant(&client, "/locks/orders")?;
/// for participant in mutex.participants().await?.iter().filter(|participant| participant.owns) {
///     revoke(&client, &participant.path).await?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`NoNode`](curator_client::Error::NoNode) when the participant has already left; errors of the
/// client when its retry policy gives up.
///
/// # Cancel safety
///
/// A dropped request may still reach the holder.
pub async fn revoke(client: &CuratorClient, participant: &ZPath) -> Result<()> {
    match client
        .retry_write(|session| session.set_data(participant, REVOKE_MESSAGE, None))
        .await
    {
        // The participant left after an attempt whose reply was lost.
        Err(ClientError::RetryFailed { cause, .. })
            if matches!(*cause, ClientError::NoNode { .. }) =>
        {
            Err((*cause).into())
        }
        revoked => Ok(revoked.map(drop)?),
    }
}
