//! What a guard has of one lock.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::lock::hold::Hold;
use crate::lock::holds::Holds;
use crate::lock::owner::OwnerId;

/// One guard's share in one hold.
pub(crate) struct Part {
    holds: Arc<Holds>,
    owner: OwnerId,
    /// `None` once released.
    hold: Option<Arc<Hold>>,
    /// The same, for everything that is asked while the guard lives.
    shared: Arc<Hold>,
}

impl Part {
    /// `hold` already counts this guard.
    pub(crate) fn new(holds: &Arc<Holds>, owner: &OwnerId, hold: Arc<Hold>) -> Self {
        Self { holds: Arc::clone(holds), owner: owner.clone(), shared: Arc::clone(&hold), hold: Some(hold) }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.shared
    }

    pub(crate) fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// See [`LockGuard::release`](super::LockGuard::release).
    pub(crate) async fn release(mut self) -> Result<()> {
        let Some(releasing) = self.leave() else { return Ok(()) };
        let result = releasing.hold.delete().await;
        // Else the client goes on, or notes at least what it cannot do.
        if result.as_ref().err().is_none_or(is_over) {
            releasing.disarm();
        }
        result
    }

    /// Takes this share away; what is left to do if it was the last.
    fn leave(&mut self) -> Option<Releasing> {
        let hold = self.hold.take()?;
        // Not `then_some`: a value made in vain would be dropped, and that deletes the nodes.
        self.holds.leave(&self.owner, &hold).then(|| Releasing { hold, armed: true })
    }

    /// As dropping it, if it is the last share; else nothing.
    pub(crate) fn leave_if_last(&mut self) -> Option<Releasing> {
        let hold = self.hold.take_if(|hold| self.holds.leave_if_last(&self.owner, hold))?;
        Some(Releasing { hold, armed: true })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // Dropping what is left to do hands it to the client.
        drop(self.leave());
    }
}

/// Whether no node can be left after this error.
fn is_over(error: &Error) -> bool {
    match error {
        Error::ReleasePending { .. } | Error::ReleaseRefused { .. } => false,
        Error::ReleasesFailed { failures } => failures.iter().all(is_over),
        _ => true,
    }
}

/// Nodes that must go. Dropped while armed, it leaves the deletes to the client.
pub(crate) struct Releasing {
    hold: Arc<Hold>,
    armed: bool,
}

impl Releasing {
    pub(crate) fn hold(&self) -> &Hold {
        &self.hold
    }

    /// The nodes are gone, or are another's care.
    pub(crate) fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Releasing {
    fn drop(&mut self) {
        if self.armed {
            Arc::clone(&self.hold).delete_in_background();
        }
    }
}
