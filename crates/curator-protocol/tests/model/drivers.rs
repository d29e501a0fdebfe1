//! Drivers beside those that ship: some differ, some are wrong on purpose.

use curator_protocol::{
    ContenderIdentity, LockInternalsDriver, ParticipantKind, Queue, ReadLockInternalsDriver,
    StandardLockInternalsDriver, Uuid, Verdict, WriteLockInternalsDriver,
};

/// As the mutex, but with names that do not tell whose they are.
#[derive(Debug)]
pub(crate) struct Anonymous(pub(crate) StandardLockInternalsDriver);

impl LockInternalsDriver for Anonymous {
    fn node_prefix(&self, _id: &Uuid) -> String {
        "_c_anybody-lock-".to_owned()
    }

    fn identity(&self) -> ContenderIdentity {
        ContenderIdentity::Data
    }

    fn sequence(&self, child: &str) -> Option<i32> {
        self.0.sequence(child)
    }

    fn verdict(&self, queue: &Queue, own: usize) -> Verdict {
        self.0.verdict(queue, own)
    }
}

/// As the mutex, but does not rely on the nodes before it being final: others may go on by a second node in their place.
#[derive(Debug)]
pub(crate) struct LooksAgain(pub(crate) StandardLockInternalsDriver);

impl LockInternalsDriver for LooksAgain {
    fn node_prefix(&self, id: &Uuid) -> String {
        self.0.node_prefix(id)
    }

    fn sequence(&self, child: &str) -> Option<i32> {
        self.0.sequence(child)
    }

    fn verdict(&self, queue: &Queue, own: usize) -> Verdict {
        self.0.verdict(queue, own)
    }

    fn may_share_a_number(&self, _children: &[&str]) -> bool {
        true
    }

    fn predecessors_are_final(&self) -> bool {
        false
    }
}

/// Takes the disappearance of the node before it for ownership, whatever else stands before it.
#[derive(Debug)]
pub(crate) struct Impatient(pub(crate) StandardLockInternalsDriver);

impl LockInternalsDriver for Impatient {
    fn node_prefix(&self, id: &Uuid) -> String {
        self.0.node_prefix(id)
    }

    fn sequence(&self, child: &str) -> Option<i32> {
        self.0.sequence(child)
    }

    fn verdict(&self, queue: &Queue, own: usize) -> Verdict {
        let number = |place: usize| queue.get(place).map(|entry| entry.sequence);
        match own.checked_sub(1) {
            Some(before) if number(before).map(|n| n + 1) == number(own) => Verdict::WaitsFor(before),
            _ => Verdict::Owns,
        }
    }
}

/// A writer to whom the disappearance of the node before it is ownership, although a read node may be in its place.
#[derive(Debug)]
pub(crate) struct Overconfident(pub(crate) WriteLockInternalsDriver);

impl LockInternalsDriver for Overconfident {
    fn node_prefix(&self, id: &Uuid) -> String {
        self.0.node_prefix(id)
    }

    fn sequence(&self, child: &str) -> Option<i32> {
        self.0.sequence(child)
    }

    fn kind(&self, child: &str) -> ParticipantKind {
        self.0.kind(child)
    }

    fn may_share_a_number(&self, children: &[&str]) -> bool {
        self.0.may_share_a_number(children)
    }

    fn verdict(&self, queue: &Queue, own: usize) -> Verdict {
        self.0.verdict(queue, own)
    }
}

/// A writer that takes the last number for a good one, and whoever has its own number for its own reader.
#[derive(Debug)]
pub(crate) struct Endless(pub(crate) WriteLockInternalsDriver);

impl LockInternalsDriver for Endless {
    fn node_prefix(&self, id: &Uuid) -> String {
        self.0.node_prefix(id)
    }

    fn sequence(&self, child: &str) -> Option<i32> {
        self.0.sequence(child).map(|number| number.min(i32::MAX - 1))
    }

    fn kind(&self, child: &str) -> ParticipantKind {
        self.0.kind(child)
    }

    fn may_share_a_number(&self, _children: &[&str]) -> bool {
        true
    }

    fn verdict(&self, queue: &Queue, own: usize) -> Verdict {
        self.0.verdict(queue, own)
    }

    fn predecessors_are_final(&self) -> bool {
        false
    }
}

/// Every row of so many readers and writers.
///
/// Contenders first act in the order of their numbers, so it takes all rows to have readers and writers come in any order.
pub(crate) fn rows_of_readers_and_writers(
    length: u32,
) -> impl Iterator<Item = (String, Vec<&'static dyn LockInternalsDriver>)> {
    (0..1_u32 << length).map(move |row| {
        let writes = (0..length).map(|place| row & (1 << place) != 0);
        let name = writes.clone().map(|writes| if writes { 'W' } else { 'R' }).collect();
        let driver = |writes| -> &'static dyn LockInternalsDriver {
            if writes { &WriteLockInternalsDriver } else { &ReadLockInternalsDriver }
        };
        (name, writes.map(driver).collect())
    })
}
