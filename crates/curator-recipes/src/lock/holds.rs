//! Maps each owner in this process to its hold of a lock, and admits one acquiring future of an
//! owner at a time.

#![expect(
    clippy::disallowed_types,
    reason = "looks up one owner at a time, and sorts what it lists"
)]

use std::hash::BuildHasherDefault;
use std::mem;
use std::sync::Arc;

use dashmap::DashMap;
use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};
use tracing::Instrument as _;

use crate::engine::hold::{Hold, HoldUser};
use crate::engine::log::AcquireLog;
use crate::engine::own_nodes::OwnNodes;
use crate::error::Result;
use crate::owner::{OwnerHasher, OwnerId};
use crate::wait::Wait;

/// The holds of one lock, by owner.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    slots: DashMap<OwnerId, Slot, BuildHasherDefault<OwnerHasher>>,
}

/// The hold of one owner, and its gate.
#[derive(Debug, Default)]
struct Slot {
    hold: Option<Arc<Hold>>,
    gate: Arc<AsyncMutex<()>>,
    /// How many of the owner's futures are waiting at the gate, or have passed it.
    contending: usize,
}

/// Admits one contending future of an owner at a time. Futures joined in one task are one owner:
/// the second waits here and then re-enters, whereas two contenders of one owner would wait for
/// each other in the queue.
#[derive(Debug)]
pub(crate) struct Gate<'a> {
    holds: &'a Holds,
    owner: &'a OwnerId,
    mutex: Arc<AsyncMutex<()>>,
}

impl Holds {
    /// Enters the hold of `owner`. Returns `None` if the owner has no hold, or has lost it.
    pub(crate) fn enter(&self, owner: &OwnerId, user: HoldUser) -> Option<Arc<Hold>> {
        self.hold_of(owner).filter(|hold| hold.enter(user))
    }

    /// Records that the owner of `hold` now holds the lock, and returns its first share.
    pub(crate) fn insert(self: &Arc<Self>, hold: Hold) -> Share {
        let hold = Arc::new(hold);
        self.slots.entry(hold.owner().clone()).or_default().hold = Some(Arc::clone(&hold));
        Share::new(self, hold)
    }

    /// The gate of `owner`.
    pub(crate) fn gate<'a>(&'a self, owner: &'a OwnerId) -> Gate<'a> {
        let mut slot = self.slots.entry(owner.clone()).or_default();
        slot.contending += 1;
        Gate {
            holds: self,
            owner,
            mutex: Arc::clone(&slot.gate),
        }
    }

    /// Whether `owner` holds the lock now.
    pub(crate) fn is_held_by(&self, owner: &OwnerId) -> bool {
        self.hold_of(owner).is_some_and(|hold| hold.is_held())
    }

    /// Whether any owner in this process holds the lock now.
    pub(crate) fn is_held(&self) -> bool {
        #[expect(clippy::disallowed_methods, reason = "sorted")]
        let mut holds: Vec<_> = self
            .slots
            .iter()
            .filter_map(|slot| slot.hold.clone())
            .collect();
        // The first one that is held ends the search, and a loss that is found on the way wakes
        // other futures.
        holds.sort_unstable_by(|one, other| one.path().cmp(other.path()));
        holds.iter().any(|hold| hold.is_held())
    }

    /// Returns a clone, so that the map is unlocked when the hold is used: recording a loss can
    /// wake other futures.
    fn hold_of(&self, owner: &OwnerId) -> Option<Arc<Hold>> {
        self.slots.get(owner)?.hold.clone()
    }

    fn forget(&self, hold: &Arc<Hold>) {
        let owner = hold.owner();
        if let Some(mut slot) = self.slots.get_mut(owner) {
            // After a loss, the owner may have acquired the lock again.
            slot.hold.take_if(|current| Arc::ptr_eq(current, hold));
        }
        self.slots.remove_if(owner, |_, slot| slot.is_unused());
    }
}

impl Slot {
    fn is_unused(&self) -> bool {
        self.hold.is_none() && self.contending == 0
    }
}

impl Gate<'_> {
    /// Waits while another future of the same owner has passed the gate. With [`Wait::No`], returns
    /// `None` instead.
    pub(crate) async fn pass(&self, wait: Wait) -> Option<MutexGuard<'_, ()>> {
        match wait {
            Wait::No => self.mutex.try_lock().ok(),
            Wait::Until(_) => Some(self.mutex.lock().await),
        }
    }

    /// Like [`pass`](Self::pass), and logs if another future has passed the gate.
    pub(crate) async fn pass_logged(
        &self,
        wait: Wait,
        log: &AcquireLog<'_>,
    ) -> Option<MutexGuard<'_, ()>> {
        let passed = self.pass(Wait::No).await;
        if passed.is_some() {
            return passed;
        }
        log.waits_for_its_owner();
        self.pass(wait).await
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        if let Some(mut slot) = self.holds.slots.get_mut(self.owner) {
            slot.contending -= 1;
        }
        self.holds
            .slots
            .remove_if(self.owner, |_, slot| slot.is_unused());
    }
}

/// One guard's share in a hold.
pub(crate) struct Share {
    holds: Arc<Holds>,
    hold: Arc<Hold>,
    user: HoldUser,
    has_left: bool,
}

impl Share {
    /// Makes the share of a guard that `hold` already counts.
    pub(crate) fn new(holds: &Arc<Holds>, hold: Arc<Hold>) -> Self {
        Self {
            holds: Arc::clone(holds),
            hold,
            user: HoldUser::Guard,
            has_left: false,
        }
    }

    /// Like [`new`](Self::new), for an internal share of the lock.
    pub(crate) fn of_lock(holds: &Arc<Holds>, hold: Arc<Hold>) -> Self {
        let mut share = Self::new(holds, hold);
        share.user = HoldUser::Lock;
        share
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    pub(crate) fn owner(&self) -> &OwnerId {
        self.hold.owner()
    }

    /// Gives up this share. If it was the last, returns the deletion of the nodes: see
    /// [`LockGuard::release`](super::LockGuard::release). Boxed, so that the user's future that
    /// contains it stays small.
    pub(crate) fn release(mut self) -> Option<BoxFuture<'static, Result<()>>> {
        let nodes = self.leave()?;
        Some(
            nodes
                .delete(self.hold.loss())
                .instrument(self.hold.span().clone())
                .boxed(),
        )
    }

    /// Gives up this share. If it was the last, returns the nodes; dropping them deletes them.
    fn leave(&mut self) -> Option<OwnNodes> {
        if mem::replace(&mut self.has_left, true) {
            return None;
        }
        let nodes = self.hold.leave(self.user)?;
        self.holds.forget(&self.hold);
        Some(nodes)
    }

    /// Like [`leave`](Self::leave) if this is the last share; otherwise does nothing.
    pub(crate) fn leave_if_last(&mut self) -> Option<OwnNodes> {
        let nodes = self.hold.leave_if_last()?;
        self.has_left = true;
        self.holds.forget(&self.hold);
        Some(nodes)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // Dropping the nodes makes the client delete them.
        drop(self.leave());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every task that acquires the lock is an owner, so the map must not keep all of them.
    #[test]
    fn an_owner_that_no_longer_contends_and_holds_nothing_is_forgotten() {
        let (holds, owner) = (Holds::default(), OwnerId::new());
        let (first, second) = (holds.gate(&owner), holds.gate(&owner));
        drop(first);
        assert_eq!(holds.slots.len(), 1, "the second future still contends");
        drop(second);
        assert!(holds.slots.is_empty(), "{holds:?}");
    }
}
