//! The driver of locks with one owner at a time.

use std::borrow::Cow;

use uuid::Uuid;

use super::{LockInternalsDriver, Verdict, protected_prefix, sequence_after};
use crate::queue::Queue;

/// The exclusive lock: owned by the first in the queue; every other contender waits for the
/// contender before it.
///
/// Modelled on Curator's class of the same name; the nodes are called `_c_<uuid>-<lock
/// name><sequence>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StandardLockInternalsDriver {
    lock_name: Cow<'static, str>,
}

impl StandardLockInternalsDriver {
    /// Curator's lock name for a mutex.
    pub const LOCK_NAME: &'static str = "lock-";

    /// The driver of the leases of Curator's `InterProcessSemaphoreV2`.
    pub const LEASES: Self = Self {
        lock_name: Cow::Borrowed("lease-"),
    };

    /// The driver of Curator's `InterProcessMutex`.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            lock_name: Cow::Borrowed(Self::LOCK_NAME),
        }
    }

    /// A driver with another lock name. kazoo's `Lock` uses `__lock__`, and so does
    /// `InterProcessMutex::compatible_with_kazoo` in `curator-recipes`.
    #[must_use]
    pub fn with_lock_name(lock_name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            lock_name: lock_name.into(),
        }
    }
}

impl Default for StandardLockInternalsDriver {
    fn default() -> Self {
        Self::new()
    }
}

impl LockInternalsDriver for StandardLockInternalsDriver {
    fn node_prefix(&self, id: &Uuid) -> String {
        protected_prefix(id, &self.lock_name)
    }

    fn sequence(&self, child: &str) -> Option<i32> {
        sequence_after(child, &self.lock_name)
    }

    fn verdict(&self, _queue: &Queue, own: usize) -> Verdict {
        match own.checked_sub(1) {
            None => Verdict::Owns,
            Some(before) => Verdict::WaitsFor(before),
        }
    }
}

#[cfg(test)]
mod tests;
