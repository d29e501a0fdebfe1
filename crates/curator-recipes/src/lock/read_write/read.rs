//! The read lock.

use curator_client::CuratorClient;
use curator_protocol::ParticipantKind;

use super::Sides;
use super::downgrade;
use crate::error::{Error, Result};
use crate::lock::acquire_methods::{Wait, acquire_methods, holder_methods};
use crate::lock::debug::debug_line;
use crate::lock::guard::LockGuard;
use crate::lock::holds::Holds;
use crate::lock::owner::OwnerId;
use crate::lock::participants::Participant;

/// The reading side of an [`InterProcessReadWriteLock`](super::InterProcessReadWriteLock): many owners may hold it at once.
///
/// An owner that holds the write lock gets it at once, with one request.
#[derive(Clone)]
pub struct ReadLock {
    sides: Sides,
}

debug_line!(ReadLock, |lock| path: lock.sides.read.internals().dir(), held: lock.is_acquired_in_this_process(), connection: lock.client().connection_state());

impl ReadLock {
    pub(super) fn new(sides: Sides) -> Self {
        Self { sides }
    }

    acquire_methods!(LockGuard);
    holder_methods!();

    /// Lists the readers that hold the lock and those that wait for it, in all processes, in the order of arrival. Two
    /// round trips.
    ///
    /// # Errors
    ///
    /// Those of the client when its retry policy gives up.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn participants(&self) -> Result<Vec<Participant>> {
        let mut participants = self.sides.read.internals().participants().await?;
        participants.retain(|participant| participant.kind == ParticipantKind::Read);
        Ok(participants)
    }

    fn client(&self) -> &CuratorClient {
        self.sides.read.internals().client()
    }

    fn holds(&self) -> &Holds {
        self.sides.read.holds()
    }

    async fn enter(&self, owner: &OwnerId, wait: Wait) -> Result<Option<LockGuard>> {
        let Sides { read, write } = &self.sides;
        let owner = &*read.owner(owner);
        if let Some(guard) = read.enter_again(owner) {
            return Ok(Some(guard));
        }
        let gate = write.holds().gate(owner);
        // Boxed, so that the user's future that contains it stays small.
        let acquiring = Box::pin(async {
            let Some(_passed) = gate.pass(wait).await else { return Ok(None) };
            if let Some(guard) = read.enter_again(owner) {
                return Ok(Some(guard));
            }
            // The guard is kept, so that the write lock is held until the read lock is held too.
            if let Some(writing) = write.enter_again(owner) {
                match downgrade::take(read.internals(), writing.first_hold(), wait).await {
                    // The write lock had been lost.
                    Err(Error::Lost(_)) => {}
                    taken => return Ok(Some(read.hold(owner, taken?).of_reentry(true))),
                }
            }
            let acquired = read.internals().acquire(owner, wait, None).await?;
            Ok(acquired.and_then(|mut holds| holds.pop()).map(|hold| read.hold(owner, hold)))
        });
        wait.bound(read.internals().client(), acquiring).await
    }
}
