//! Which owner holds a lock: what makes it reentrant.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use dashmap::DashMap;
use tokio::sync::Mutex as AsyncMutex;

use super::hold::Hold;
use super::owner::OwnerId;

/// The holds of one lock, by owner.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    slots: DashMap<OwnerId, Arc<Slot>>,
}

/// What one owner has of the lock.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    hold: Mutex<Option<Arc<Hold>>>,
    /// Taken while the owner contends. Futures joined in one task are one owner: the second waits here and then
    /// re-enters, where two contenders of one owner would wait for each other in the queue.
    pub(crate) gate: AsyncMutex<()>,
}

impl Slot {
    /// Another guard on what is held already. `None` if nothing is, or if it is lost.
    pub(crate) fn enter(&self) -> Option<Arc<Hold>> {
        self.lock().as_ref().filter(|hold| hold.enter()).cloned()
    }

    pub(crate) fn set(&self, hold: &Arc<Hold>) {
        *self.lock() = Some(Arc::clone(hold));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Arc<Hold>>> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Holds {
    /// The slot of `owner`, for as long as the result lives.
    pub(crate) fn slot(&self, owner: &OwnerId) -> SlotUse<'_> {
        let slot = Arc::clone(&self.slots.entry(owner.clone()).or_default());
        SlotUse { holds: self, owner: owner.clone(), slot }
    }

    /// Whether `owner` holds the lock now.
    pub(crate) fn is_held_by(&self, owner: &OwnerId) -> bool {
        self.slots.get(owner).is_some_and(|slot| is_held(&slot))
    }

    /// Whether anybody in this process holds the lock now.
    pub(crate) fn is_held(&self) -> bool {
        self.slots.iter().any(|slot| is_held(&slot))
    }

    /// Takes a guard of `hold` away: whether it was the last, and so the nodes must go.
    pub(crate) fn leave(&self, owner: &OwnerId, hold: &Arc<Hold>) -> bool {
        let last = hold.leave();
        if last {
            self.forget(owner, hold);
        }
        last
    }

    /// As [`leave`](Self::leave), if it is the last guard; else nothing.
    pub(crate) fn leave_if_last(&self, owner: &OwnerId, hold: &Arc<Hold>) -> bool {
        let last = hold.leave_if_last();
        if last {
            self.forget(owner, hold);
        }
        last
    }

    fn forget(&self, owner: &OwnerId, hold: &Arc<Hold>) {
        let Some(slot) = self.slots.get(owner).map(|slot| Arc::clone(&slot)) else { return };
        let mut current = slot.lock();
        // After a loss the owner may have acquired anew.
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, hold)) {
            *current = None;
        }
        drop(current);
        drop(slot);
        self.tidy(owner);
    }

    /// Forgets the slot of `owner` if it is empty and nobody uses it.
    fn tidy(&self, owner: &OwnerId) {
        self.slots.remove_if(owner, |_, slot| Arc::strong_count(slot) == 1 && slot.lock().is_none());
    }
}

fn is_held(slot: &Slot) -> bool {
    slot.lock().as_ref().is_some_and(|hold| hold.depth() > 0 && hold.loss().is_none())
}

/// A slot in use: it is forgotten after use if nothing is in it.
#[derive(Debug)]
pub(crate) struct SlotUse<'a> {
    holds: &'a Holds,
    owner: OwnerId,
    slot: Arc<Slot>,
}

impl Deref for SlotUse<'_> {
    type Target = Slot;

    fn deref(&self) -> &Slot {
        &self.slot
    }
}

impl Drop for SlotUse<'_> {
    fn drop(&mut self) {
        // The count must not include this use when it is looked at.
        self.slot = Arc::default();
        self.holds.tidy(&self.owner);
    }
}
