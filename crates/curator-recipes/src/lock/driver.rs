//! What a lock's node is called, and when it owns the lock.
//!
//! Pure: names in, a verdict out. What every lock over one queue has in common is the
//! [contest](super::contest); what sets them apart is a [`LockInternalsDriver`].

use std::borrow::Cow;
use std::fmt;

use uuid::Uuid;

use super::queue::Queue;

/// The identity of one contender: a fresh one for each attempt to enqueue.
///
/// It is part of the node's name (Curator's "protected" nodes), so the node can be found when the answer to its create
/// was lost. It is never used in two sessions: that is how one lock comes to have two holders (Curator issue 1121).
///
/// Its text is 36 lowercase characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContenderId(Uuid);

impl ContenderId {
    /// An identity that nobody else has.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a default that differs each time would surprise")]
    pub fn new() -> Self {
        Self(Uuid::new_v4())
    }

    /// The identity with this number.
    #[must_use]
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl fmt::Display for ContenderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}

/// Where a node says whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContenderIdentity {
    /// In its name, as in Curator.
    Name,
    /// At the start of its data: for layouts whose names have no unique part.
    ///
    /// Such names can come again when the directory is deleted and made anew, by somebody who has deleted the waiting
    /// nodes before: a list alone cannot tell. Names with an id in them have no such doubt.
    Data,
}

/// Whether a contender owns the lock, and if not, whom it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It owns the lock.
    Owns,
    /// It does not. This is the place in the queue of the nearest node that blocks it; always before its own place.
    WaitsFor(usize),
}

/// What sets one kind of lock apart from another: the names of its nodes, and when one of them owns the lock.
///
/// The idea is Curator's class of the same name.
///
/// # Guarantees that an implementation gives
///
/// The contest rests on these. For a node at any place in any queue:
///
/// - *Only what is before it matters.* Nodes behind it do not change its verdict.
/// - *It waits for what blocks it.* While both it and the node that it waits for are there, it does not own the lock,
///   whichever others come or go. Otherwise it would sleep through its turn.
/// - *What it owns, it keeps.* A deletion before it never takes the lock away.
///
/// That is why there is no driver for "the first n own it": a node behind n holders has to wait for *any* of them. The
/// semaphores are built on a mutex instead, as in Curator's `InterProcessSemaphoreV2`.
pub trait LockInternalsDriver: fmt::Debug + Send + Sync + 'static {
    /// The name of a contender's node, up to where the server appends the sequence number.
    fn node_prefix(&self, id: &ContenderId) -> String;

    /// Where the contender's id stands. If it is not in the name, the shell writes it at the start of the data.
    fn identity(&self) -> ContenderIdentity {
        ContenderIdentity::Name
    }

    /// The sequence number in a child's name; `None` if the child does not contend for this lock.
    ///
    /// Negative if the parent's counter has overflowed.
    fn sequence(&self, child: &str) -> Option<i32>;

    /// Whether the node at place `own` owns the lock.
    fn verdict(&self, queue: &Queue, own: usize) -> Verdict;

    /// Whether no node that matters to a waiter can still appear before it.
    ///
    /// If so, a waiter that has seen the last node before it go owns the lock, without a second look. If not (a writer,
    /// before which a read lock that was a write lock can appear), it always looks again.
    fn predecessors_are_final(&self) -> bool {
        true
    }
}

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

    /// A driver for nodes with another lock name.
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

/// Curator's name for a contender's node, without the sequence number: `_c_<uuid>-<lock name>`.
#[must_use]
pub fn protected_prefix(id: &ContenderId, lock_name: &str) -> String {
    format!("_c_{id}-{lock_name}")
}

/// The number that the server has appended after the *last* occurrence of `lock_name`, which is what Curator sorts by.
///
/// `None` unless what stands there is exactly as the server writes it: ten digits, or, once the counter has overflowed,
/// a minus sign and digits. A child that anybody else has put there must not take part, let alone be first.
#[must_use]
pub fn sequence_after(child: &str, lock_name: &str) -> Option<i32> {
    let (_, text) = child.rsplit_once(lock_name)?;
    let number: i32 = text.parse().ok()?;
    (format!("{number:010}") == text).then_some(number)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Checks the guarantees of [`LockInternalsDriver`] for one queue, at every place in it.
    ///
    /// `gone` says which nodes disappear after the verdict.
    pub(crate) fn check_guarantees(driver: &dyn LockInternalsDriver, children: &[String], gone: &[bool]) {
        let queue = Queue::of(children.iter().cloned(), driver).unwrap();
        for (own, entry) in queue.iter().enumerate() {
            let verdict = driver.verdict(&queue, own);
            let only_before = queue.iter().take(own + 1).map(|entry| entry.name.clone());
            let only_before = Queue::of(only_before, driver).unwrap();
            assert_eq!(driver.verdict(&only_before, own), verdict, "nodes behind {own} matter in {queue:?}");

            let blocker = match verdict {
                Verdict::Owns => own,
                Verdict::WaitsFor(blocker) => {
                    assert!(blocker < own, "{own} waits for {blocker} in {queue:?}");
                    blocker
                }
            };
            let stay = |&(i, _): &(usize, _)| i == own || i == blocker || !gone.get(i).copied().unwrap_or(false);
            let later = queue.iter().enumerate().filter(stay).map(|(_, entry)| entry.name.clone());
            let later = Queue::of(later, driver).unwrap();
            let later_verdict = driver.verdict(&later, later.position(&entry.name).unwrap());
            assert_eq!(
                matches!(later_verdict, Verdict::Owns),
                matches!(verdict, Verdict::Owns),
                "{own} in {queue:?}, then in {later:?}"
            );
        }
    }

    #[test]
    fn ids_are_36_lowercase_characters() {
        let id = ContenderId::new();
        let text = id.to_string();
        assert_eq!(text.len(), 36);
        assert_eq!(text, text.to_lowercase());
        assert_ne!(id, ContenderId::new());
        let fixed = ContenderId::from_uuid(Uuid::from_u128(0xAB));
        assert_eq!(fixed.to_string(), "00000000-0000-0000-0000-0000000000ab");
    }

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
