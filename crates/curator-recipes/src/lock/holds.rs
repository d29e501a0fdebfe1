//! Maps each owner in this process to its hold of a lock.

#![expect(
    clippy::disallowed_types,
    reason = "looks up one owner at a time, and sorts what it lists"
)]

use std::hash::BuildHasherDefault;
use std::mem;
use std::sync::Arc;

use dashmap::DashMap;
use futures_util::future::{BoxFuture, FutureExt as _};
use tracing::Instrument as _;

use crate::engine::hold::{Hold, HoldUser};
use crate::engine::release::LockNodes;
use crate::error::Result;
use crate::owner::{OwnerHasher, OwnerId};

/// The holds of one lock, by owner.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    holds: DashMap<OwnerId, Arc<Hold>, BuildHasherDefault<OwnerHasher>>,
}

impl Holds {
    /// Enters the hold of `owner`. Returns `None` if the owner has no hold, or has lost it.
    pub(crate) fn enter(&self, owner: &OwnerId, user: HoldUser) -> Option<Arc<Hold>> {
        self.of(owner).filter(|hold| hold.enter(user))
    }

    /// Records that the owner of `hold` now holds the lock, and returns its first share.
    pub(crate) fn insert(self: &Arc<Self>, hold: Hold) -> Share {
        let hold = Arc::new(hold);
        self.holds.insert(hold.owner().clone(), Arc::clone(&hold));
        Share::new(self, hold)
    }

    /// Whether `owner` holds the lock now.
    pub(crate) fn is_held_by(&self, owner: &OwnerId) -> bool {
        self.of(owner).is_some_and(|hold| hold.is_held())
    }

    /// Whether any owner in this process holds the lock now.
    pub(crate) fn is_held(&self) -> bool {
        #[expect(clippy::disallowed_methods, reason = "sorted")]
        let mut holds: Vec<_> = self.holds.iter().map(|hold| Arc::clone(&hold)).collect();
        // The first one that is held ends the search, and a loss that is found on the way wakes
        // other futures.
        holds.sort_unstable_by(|one, other| one.path().cmp(other.path()));
        holds.iter().any(|hold| hold.is_held())
    }

    /// Returns a clone, so that the map is unlocked when the hold is used: recording a loss can
    /// wake other futures.
    fn of(&self, owner: &OwnerId) -> Option<Arc<Hold>> {
        self.holds.get(owner).map(|hold| Arc::clone(&hold))
    }

    fn forget(&self, hold: &Arc<Hold>) {
        // After a loss, the owner may have acquired the lock again.
        self.holds
            .remove_if(hold.owner(), |_, current| Arc::ptr_eq(current, hold));
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
                .release(self.hold.loss())
                .instrument(self.hold.span().clone())
                .boxed(),
        )
    }

    /// Gives up this share. If it was the last, returns the nodes; dropping them deletes them.
    fn leave(&mut self) -> Option<LockNodes> {
        if mem::replace(&mut self.has_left, true) {
            return None;
        }
        let nodes = self.hold.leave(self.user)?;
        self.holds.forget(&self.hold);
        Some(nodes)
    }

    /// Like [`leave`](Self::leave) if this is the last share; otherwise does nothing.
    pub(crate) fn leave_if_last(&mut self) -> Option<LockNodes> {
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
