//! Asking a holder for its lock back.

use curator_client::{CuratorClient, ZPath};

use crate::engine::revocation::REVOKE_MESSAGE;
use crate::error::Result;

/// Asks the contender at `participant` to give back its lock, or its place in the queue.
///
/// `participant` is the [`path`](super::Participant::path) of a [`Participant`](super::Participant), in this process or
/// any other, including Java Curator's. This is only a request: a holder that waits for
/// [`LockGuard::revocation_requested`](super::LockGuard::revocation_requested) learns of it, and does as it sees fit. A
/// contender that is still waiting for the lock learns of it once it holds the lock. Only a
/// [downgrade](super::WriteGuard::downgrade) forgets a request for its write node, because the read node is a different
/// one.
///
/// Curator's `Revoker.attemptToRevoke`: the node's data becomes `__REVOKE__`.
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
/// [`NoNode`](curator_client::Error::NoNode) when the participant has already left; and those of the client when its
/// retry policy gives up.
///
/// # Cancel safety
///
/// A dropped request may still reach the holder.
pub async fn revoke(client: &CuratorClient, participant: &ZPath) -> Result<()> {
    client.retry(|session| session.set_data(participant, REVOKE_MESSAGE, None)).await?;
    Ok(())
}
