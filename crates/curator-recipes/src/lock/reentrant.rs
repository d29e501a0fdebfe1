//! Re-entry: admits one acquiring future of an owner at a time.

#![expect(clippy::disallowed_types, reason = "looks up one owner at a time")]

use std::hash::BuildHasherDefault;
use std::sync::Arc;

use dashmap::DashMap;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::engine::log::AcquireLog;
use crate::owner::{OwnerHasher, OwnerId};
use crate::wait::Wait;

/// The gates of a reentrant lock, one for each owner that acquires it now.
///
/// Futures joined in one task are one owner: the second waits at the gate and then re-enters,
/// whereas two contenders of one owner would wait for each other in the queue.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    gates: DashMap<OwnerId, Gate, BuildHasherDefault<OwnerHasher>>,
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

    /// Like [`pass`](Self::pass), and logs if another future has passed the gate. Returns `None`
    /// if the acquire may not wait.
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
