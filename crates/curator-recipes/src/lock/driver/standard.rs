//! The driver of the locks that have one owner at a time.

use std::borrow::Cow;

use super::{ContenderId, LockInternalsDriver, Verdict, protected_prefix, sequence_after};
use crate::lock::queue::Queue;

/// The exclusive lock: the first in the queue owns it, every other waits for the one before.
///
/// Curator's class of the same name; its nodes are called `_c_<uuid>-<lock name><sequence>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StandardLockInternalsDriver {
    lock_name: Cow<'static, str>,
}

impl StandardLockInternalsDriver {
    /// Curator's lock name for a mutex.
    pub const LOCK_NAME: &'static str = "lock-";

    /// The driver of Curator's `InterProcessMutex`.
    #[must_use]
    pub const fn new() -> Self {
        Self { lock_name: Cow::Borrowed(Self::LOCK_NAME) }
    }

    /// A driver for nodes with another lock name. That of kazoo's `Lock` is `__lock__`: a mutex with it and kazoo's lock on
    /// the same path exclude each other.
    #[must_use]
    pub fn with_lock_name(lock_name: impl Into<Cow<'static, str>>) -> Self {
        Self { lock_name: lock_name.into() }
    }
}

impl Default for StandardLockInternalsDriver {
    fn default() -> Self {
        Self::new()
    }
}

impl LockInternalsDriver for StandardLockInternalsDriver {
    fn node_prefix(&self, id: &ContenderId) -> String {
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
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::super::ContenderIdentity;
    use super::super::tests::check_guarantees;
    use super::*;

    #[test]
    fn names_are_curators() {
        let id = ContenderId::from_uuid(Uuid::from_u128(1));
        let mutex = StandardLockInternalsDriver::default();
        assert_eq!(mutex.node_prefix(&id), "_c_00000000-0000-0000-0000-000000000001-lock-");
        assert_eq!(mutex.identity(), ContenderIdentity::Name);
        assert!(mutex.predecessors_are_final());
        let lease = StandardLockInternalsDriver::with_lock_name("lease-");
        assert_eq!(lease.node_prefix(&id), "_c_00000000-0000-0000-0000-000000000001-lease-");
        assert_eq!(lease.sequence("_c_00000000-0000-0000-0000-000000000001-lease-0000000003"), Some(3));
    }

    #[test]
    fn sequences_are_what_the_server_writes_and_nothing_else() {
        let cases = [
            ("lock-0000000000", Some(0)),
            ("_c_00000000-0000-0000-0000-000000000001-lock-0000000012", Some(12)),
            ("_c_lock-0000000001-lock-0000000012", Some(12)),
            ("any-lock-0000000012", Some(12)),
            ("lock-2147483647", Some(i32::MAX)),
            // After an overflow.
            ("lock--2147483648", Some(i32::MIN)),
            ("_c_x-lock--000000001", Some(-1)),
            // Foreign.
            ("", None),
            ("-foo", None),
            ("zfoo", None),
            ("lock-", None),
            ("lock--", None),
            ("_c_x-lock-abc", None),
            ("_c_x-lock-12", None),
            ("lock-00000000010", None),
            ("lock-+000000001", None),
            ("lock- 000000001", None),
            ("lock--00000000001", None),
            ("lock--1", None),
            ("lock-2147483648", None),
            ("lock-9999999999", None),
            ("lock--2147483649", None),
            ("lock-0000000001-", None),
            ("lock-0000000001lock-", None),
            ("lease-0000000001", None),
            ("LOCK-0000000001", None),
            ("lock-٠٠٠٠٠٠٠٠٠١", None),
            ("zámek-lock-日本", None),
        ];
        let driver = StandardLockInternalsDriver::new();
        for (child, expected) in cases {
            assert_eq!(driver.sequence(child), expected, "{child:?}");
        }
    }

    proptest! {
        #[test]
        fn every_number_that_the_server_writes_is_read(number: i32, before in ".{0,40}") {
            let driver = StandardLockInternalsDriver::new();
            prop_assert_eq!(driver.sequence(&format!("{before}lock-{number:010}")), Some(number));
        }

        #[test]
        fn no_name_is_too_strange(child in "\\PC{0,60}") {
            let driver = StandardLockInternalsDriver::new();
            if let Some(number) = driver.sequence(&child) {
                let suffix = format!("lock-{number:010}");
                prop_assert!(child.ends_with(&suffix));
            }
        }

        #[test]
        fn the_standard_driver_gives_its_guarantees(
            numbers in prop::collection::btree_set(0..1000_i32, 0..8),
            gone in prop::collection::vec(any::<bool>(), 8),
        ) {
            let children: Vec<_> = numbers.iter().map(|n| format!("_c_x-lock-{n:010}")).collect();
            check_guarantees(&StandardLockInternalsDriver::new(), &children, &gone);
        }
    }
}
