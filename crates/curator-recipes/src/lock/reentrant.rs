//! A lock that its owner can enter again.

use std::sync::Arc;

use super::guard::{LockGuard, Part};
use super::hold::Hold;
use super::holds::Holds;
use super::internals::LockInternals;
use super::owner::OwnerId;
use super::patience::Patience;
use crate::error::Result;

/// What is behind every reentrant lock. Clones are the same lock.
#[derive(Debug, Clone)]
pub(crate) struct Reentrant {
    internals: Arc<LockInternals>,
    holds: Arc<Holds>,
}

impl Reentrant {
    pub(crate) fn new(internals: LockInternals) -> Self {
        Self { internals: Arc::new(internals), holds: Arc::default() }
    }

    /// Another lock, with the same path.
    pub(crate) fn with_data(&self, data: Arc<[u8]>) -> Self {
        Self::new(LockInternals::clone(&self.internals).with_data(data))
    }

    pub(crate) fn internals(&self) -> &LockInternals {
        &self.internals
    }

    pub(crate) fn holds(&self) -> &Holds {
        &self.holds
    }

    /// A guard of what `owner` holds already; else the lock is acquired.
    pub(crate) async fn enter(&self, owner: &OwnerId, patience: Patience) -> Result<Option<LockGuard>> {
        self.enter_if(owner, patience, || Ok(())).await
    }

    /// As [`enter`](Self::enter), but what is not held already is acquired only if it is `permitted`.
    ///
    /// # Errors
    ///
    /// That of `permitted`. It is asked before the wait for the owner's other futures, and after it.
    pub(crate) async fn enter_if(
        &self,
        owner: &OwnerId,
        patience: Patience,
        permitted: impl Fn() -> Result<()>,
    ) -> Result<Option<LockGuard>> {
        let slot = self.holds.slot(owner);
        if let Some(hold) = slot.enter() {
            return Ok(Some(self.guard(owner, hold)));
        }
        permitted()?;
        let Some(_gate) = self.internals.pass_gate(&slot.gate, patience).await? else { return Ok(None) };
        if let Some(hold) = slot.enter() {
            return Ok(Some(self.guard(owner, hold)));
        }
        permitted()?;
        let Some(hold) = self.internals.acquire(patience).await? else { return Ok(None) };
        Ok(Some(self.hold(owner, hold)))
    }

    /// `owner` holds the lock now.
    pub(crate) fn hold(&self, owner: &OwnerId, hold: Hold) -> LockGuard {
        let hold = Arc::new(hold);
        self.holds.slot(owner).set(&hold);
        self.guard(owner, hold)
    }

    /// `hold` already counts this guard.
    pub(crate) fn guard(&self, owner: &OwnerId, hold: Arc<Hold>) -> LockGuard {
        LockGuard::new(Part::new(&self.holds, owner, hold))
    }
}
