//! The lock to read under.

use std::sync::Arc;

use curator_client::CuratorClient;

use super::Sides;
use super::beside;
use crate::error::{Error, Result};
use crate::lock::driver::ParticipantKind;
use crate::lock::face::{acquire_methods, holder_methods};
use crate::lock::guard::LockGuard;
use crate::lock::holds::Holds;
use crate::lock::owner::OwnerId;
use crate::lock::participants::Participant;
use crate::lock::patience::Patience;

/// The reading side of an [`InterProcessReadWriteLock`](super::InterProcessReadWriteLock): many owners may hold it at once.
///
/// An owner that holds the write lock gets it at once, with one request.
#[derive(Debug, Clone)]
pub struct ReadLock {
    sides: Sides,
}

impl ReadLock {
    pub(super) fn new(sides: Sides) -> Self {
        Self { sides }
    }

    acquire_methods!(LockGuard);
    holder_methods!();

    /// The readers that hold the lock and those that wait for it, in all processes, first comer first. Two round trips.
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

    async fn enter(&self, owner: &OwnerId, patience: Patience) -> Result<Option<LockGuard>> {
        let Sides { read, write } = &self.sides;
        let (reading, writing) = (read.holds().slot(owner), write.holds().slot(owner));
        if let Some(hold) = reading.enter() {
            return Ok(Some(read.guard(owner, hold)));
        }
        let Some(_gate) = read.internals().pass_gate(&writing.gate, patience).await? else { return Ok(None) };
        if let Some(hold) = reading.enter() {
            return Ok(Some(read.guard(owner, hold)));
        }
        if let Some(held) = writing.enter() {
            // So that the write lock stays until the read lock is there too.
            let _stays = write.guard(owner, Arc::clone(&held));
            let taking = async { beside::take(&self.sides, &held, patience).await.map(Some) };
            match read.internals().within(patience, taking).await {
                // It was no write lock any more.
                Err(Error::Lost(_)) => {}
                taken => return Ok(taken?.map(|hold| read.hold(owner, hold))),
            }
        }
        let Some(hold) = read.internals().acquire(patience).await? else { return Ok(None) };
        Ok(Some(read.hold(owner, hold)))
    }
}
