//! The read lock.

use curator_client::CuratorClient;
use curator_protocol::ParticipantKind;

use super::Sides;
use super::downgrade;
use crate::debug::debug_line;
use crate::engine::log::AcquireLog;
use crate::error::{Error, Result};
use crate::lock::acquire_methods::{acquire_methods, holder_methods};
use crate::lock::guard::LockGuard;
use crate::lock::holds::Holds;
use crate::lock::participants::Participant;
use crate::owner::OwnerId;
use crate::wait::Wait;

/// The reading side of an [`InterProcessReadWriteLock`](super::InterProcessReadWriteLock): many
/// owners may hold it at the same time.
///
/// An owner that holds the write lock gets the read lock immediately, with one request.
#[derive(Clone)]
pub struct ReadLock {
    sides: Sides,
}

debug_line!(ReadLock, |lock| path: lock.sides.read.internals().dir(), held: lock.is_acquired_in_this_process(), connection: lock.client().connection_state());

impl ReadLock {
    pub(super) fn new(sides: Sides) -> Self {
        Self { sides }
    }

    acquire_methods!(
        LockGuard,
        "If the lock is reentrant, the current task (or thread, see [`OwnerId`](crate::OwnerId)) re-enters immediately when it \
         already holds either side: futures that share a task then do not exclude each other. A \
         [`non_reentrant`](crate::InterProcessReadWriteLock::non_reentrant) lock has no re-entry."
    );
    holder_methods!();

    /// Lists the readers that hold the lock and the readers that wait for it, in all processes, in
    /// the order of arrival. One round trip for the list, and one for each 64 nodes that it names.
    ///
    /// # Errors
    ///
    /// Errors of the client when its retry policy gives up.
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
        let Some(gates) = write.gates(owner)? else {
            return read.enter_alone(wait).await;
        };
        if let Some(guard) = read.reenter(owner) {
            return Ok(Some(guard));
        }
        let acquiring = async |log: &mut AcquireLog<'_>| {
            let Some(_passed) = gates.pass_logged(owner, wait, log).await else {
                return Ok(None);
            };
            if let Some(guard) = read.reenter(owner) {
                return Ok(Some(guard));
            }
            // Keeps the write lock until the read lock is held too.
            if let Some(writing) = write.keep(owner) {
                match downgrade::take(read.internals(), writing.hold(), wait, log).await {
                    // The write lock was lost: acquire like any other reader.
                    Err(Error::Lost(_)) => {}
                    taken => return Ok(Some(read.hold(taken?).of_reentry(true))),
                }
            }
            read.contend(wait, log).await
        };
        read.internals().logged(owner, wait, acquiring).await
    }
}
