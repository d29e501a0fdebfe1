//! The owners of a lock in this process: the hold of each, and, for a reentrant lock, which of an
//! owner's futures may acquire it.

#![expect(
    clippy::disallowed_types,
    reason = "looks up one owner at a time, and sorts what it lists"
)]

use std::hash::BuildHasherDefault;
use std::mem;
use std::sync::Arc;

use dashmap::DashMap;
use futures_util::future::{BoxFuture, FutureExt as _};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tracing::Instrument as _;

use crate::engine::hold::{Hold, HoldUser};
use crate::engine::log::AcquireLog;
use crate::engine::release::LockNodes;
use crate::error::Result;
use crate::owner::{OwnerHasher, OwnerId};
use crate::wait::Wait;

type ByOwner<V> = DashMap<OwnerId, V, BuildHasherDefault<OwnerHasher>>;

/// A map with two shards of 128 bytes each. By default there are four for each core, but a process
/// can have thousands of locks, each with few owners.
fn by_owner<V>() -> ByOwner<V> {
    DashMap::with_hasher_and_shard_amount(BuildHasherDefault::default(), 2)
}

/// The holds of one lock, by owner.
#[derive(Debug)]
pub(crate) struct Holds {
    holds: ByOwner<Arc<Hold>>,
}

impl Default for Holds {
    fn default() -> Self {
        Self { holds: by_owner() }
    }
}

impl Holds {
    /// Enters the hold of `owner`. Returns `None` if the owner has no hold, or has lost it.
    pub(crate) fn enter(&self, owner: &OwnerId, user: HoldUser) -> Option<Arc<Hold>> {
        self.get(owner).filter(|hold| hold.enter(user))
    }

    /// Records that the owner of `hold` now holds the lock, and returns its first share.
    pub(crate) fn insert(self: &Arc<Self>, hold: Hold) -> Share {
        let hold = Arc::new(hold);
        self.holds.insert(hold.owner().clone(), Arc::clone(&hold));
        Share::new(self, hold)
    }

    /// Whether `owner` holds the lock now.
    pub(crate) fn is_held_by(&self, owner: &OwnerId) -> bool {
        self.get(owner).is_some_and(|hold| hold.is_held())
    }

    /// Whether any owner in this process holds the lock now.
    pub(crate) fn is_held(&self) -> bool {
        #[expect(clippy::disallowed_methods, reason = "sorted")]
        let mut holds: Vec<_> = self.holds.iter().map(|hold| Arc::clone(&hold)).collect();
        // The order has effects: the search ends at the first hold that is still held, and each
        // loss that it finds before wakes other futures.
        holds.sort_unstable_by(|one, other| one.path().cmp(other.path()));
        holds.iter().any(|hold| hold.is_held())
    }

    /// Returns a clone, so that the map is unlocked when the hold is used: recording a loss can
    /// wake other futures.
    fn get(&self, owner: &OwnerId) -> Option<Arc<Hold>> {
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
    pub(crate) fn internal(holds: &Arc<Holds>, hold: Arc<Hold>) -> Self {
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

    /// Releases this share. If it was the last, returns the deletion of the nodes: see
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

    /// Releases this share. If it was the last, returns the nodes; dropping them deletes them.
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

/// The gates of a reentrant lock, one for each owner that acquires it now.
///
/// Futures joined in one task are one owner: the second waits at the gate and then re-enters,
/// whereas two contenders of one owner would wait for each other in the queue.
#[derive(Debug)]
pub(crate) struct Gates {
    gates: ByOwner<Gate>,
}

impl Default for Gates {
    fn default() -> Self {
        Self { gates: by_owner() }
    }
}

#[derive(Debug, Default)]
struct Gate {
    mutex: Arc<AsyncMutex<()>>,
    /// How many of the owner's futures are waiting at the gate, or have passed it.
    contending: usize,
}

/// A future at the gate of its owner. While it has passed, others wait.
#[derive(Debug)]
#[must_use = "other futures of the owner pass when this is dropped"]
pub(crate) struct Passed<'a> {
    gates: &'a Gates,
    owner: &'a OwnerId,
    passed: Option<OwnedMutexGuard<()>>,
}

impl Gates {
    /// Waits while another future of `owner` has passed the gate.
    pub(crate) async fn pass<'a>(&'a self, owner: &'a OwnerId) -> Passed<'a> {
        let (mut arrived, mutex) = self.arrive(owner);
        arrived.passed = Some(mutex.lock_owned().await);
        arrived
    }

    /// Like [`pass`](Self::pass), but returns `None` instead of waiting.
    pub(crate) fn try_pass<'a>(&'a self, owner: &'a OwnerId) -> Option<Passed<'a>> {
        let (mut arrived, mutex) = self.arrive(owner);
        arrived.passed = Some(mutex.try_lock_owned().ok()?);
        Some(arrived)
    }

    /// Like [`pass`](Self::pass), and logs if another future has passed the gate. Returns `None` if
    /// the acquire must not wait.
    pub(crate) async fn pass_logged<'a>(
        &'a self,
        owner: &'a OwnerId,
        wait: Wait,
        log: &AcquireLog<'_>,
    ) -> Option<Passed<'a>> {
        let passed = self.try_pass(owner);
        if passed.is_some() {
            return passed;
        }
        log.waits_for_its_owner();
        match wait {
            Wait::No => None,
            Wait::Until(_) => Some(self.pass(owner).await),
        }
    }

    fn arrive<'a>(&'a self, owner: &'a OwnerId) -> (Passed<'a>, Arc<AsyncMutex<()>>) {
        let mut gate = self.gates.entry(owner.clone()).or_default();
        gate.contending += 1;
        let arrived = Passed {
            gates: self,
            owner,
            passed: None,
        };
        (arrived, Arc::clone(&gate.mutex))
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        // Every task that acquires the lock is an owner, so the map must not keep all of them.
        self.gates.gates.remove_if_mut(self.owner, |_, gate| {
            gate.contending -= 1;
            gate.contending == 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_no_longer_contends_is_forgotten() {
        let gates = Gates::default();
        let owner = OwnerId::new();
        let first = gates.try_pass(&owner).unwrap();
        assert!(gates.try_pass(&owner).is_none());
        assert_eq!(gates.gates.len(), 1, "the first future still contends");
        drop(first);
        assert!(gates.gates.is_empty(), "{gates:?}");
    }
}
