//! The children of a lock's directory as an ordered queue of contenders.

use super::driver::LockInternalsDriver;

/// The contenders of one lock, the first in line first.
///
/// Ordered by sequence number, which is the order of the creates. Children that do not contend for the lock are not in
/// it, so what anybody else puts into the directory blocks nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    entries: Vec<QueueEntry>,
}

/// One contender's node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueEntry {
    /// The number that the server has given it. Comes first, as it decides the order.
    pub sequence: i32,
    /// The node's name within the directory.
    pub name: String,
}

/// The directory's counter has passed the end of its 32 bits.
///
/// Numbers from there on are negative, and the order of the queue is no longer the order of the creates, so nobody can
/// know who owns the lock. The way out is another directory, or to delete this one while nobody contends.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the sequence numbers of the lock's directory have overflowed, as the node {name:?} shows")]
pub struct SequenceOverflow {
    /// The node with the negative number.
    pub name: String,
}

impl Queue {
    /// The queue that a list of children makes.
    ///
    /// # Errors
    ///
    /// [`SequenceOverflow`] if a contender's number is negative.
    pub fn of<C>(
        children: impl IntoIterator<Item = C>,
        driver: &dyn LockInternalsDriver,
    ) -> Result<Self, SequenceOverflow>
    where
        C: AsRef<str> + Into<String>,
    {
        let mut entries = Vec::new();
        for child in children {
            match driver.sequence(child.as_ref()) {
                None => {}
                Some(sequence) if sequence < 0 => return Err(SequenceOverflow { name: child.into() }),
                Some(sequence) => entries.push(QueueEntry { sequence, name: child.into() }),
            }
        }
        entries.sort_unstable();
        Ok(Self { entries })
    }

    /// How many contenders there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nobody contends.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The contender at a place; 0 is the first in line.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&QueueEntry> {
        self.entries.get(place)
    }

    /// The place of the node with this name.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.name == name)
    }

    /// The contenders, the first in line first.
    pub fn iter(&self) -> std::slice::Iter<'_, QueueEntry> {
        self.entries.iter()
    }

    /// The queue as it will be when the node at `place` has gone. The same queue if there is no such place.
    #[must_use]
    pub fn without(&self, place: usize) -> Self {
        let others = self.entries.iter().enumerate().filter(|(i, _)| *i != place);
        Self { entries: others.map(|(_, entry)| entry.clone()).collect() }
    }
}

impl<'a> IntoIterator for &'a Queue {
    type Item = &'a QueueEntry;
    type IntoIter = std::slice::Iter<'a, QueueEntry>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::driver::StandardLockInternalsDriver;
    use super::*;

    fn queue(children: &[&str]) -> Queue {
        Queue::of(children.iter().copied(), &StandardLockInternalsDriver::new()).unwrap()
    }

    fn names(queue: &Queue) -> Vec<&str> {
        queue.iter().map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn an_empty_directory_is_an_empty_queue() {
        let empty = queue(&[]);
        assert!(empty.is_empty());
        assert_eq!((empty.len(), empty.get(0), empty.position("lock-0000000000")), (0, None, None));
        assert_eq!(queue(&["-foo", "zfoo", "lock-x"]), empty);
    }

    #[test]
    fn the_order_is_that_of_the_numbers_and_then_of_the_names() {
        let queue = queue(&["b-lock-0000000010", "z-lock-0000000009", "zfoo", "a-lock-0000000010"]);
        assert_eq!(names(&queue), ["z-lock-0000000009", "a-lock-0000000010", "b-lock-0000000010"]);
        assert_eq!(queue.position("a-lock-0000000010"), Some(1));
        assert_eq!(queue.position("zfoo"), None);
        assert_eq!(queue.get(2).map(|entry| entry.sequence), Some(10));
        assert_eq!(queue.get(3), None);
        assert_eq!((&queue).into_iter().count(), queue.len());
    }

    #[test]
    fn without_leaves_the_others_in_order() {
        let all = queue(&["lock-0000000001", "lock-0000000002", "lock-0000000003"]);
        assert_eq!(names(&all.without(0)), ["lock-0000000002", "lock-0000000003"]);
        assert_eq!(names(&all.without(1)), ["lock-0000000001", "lock-0000000003"]);
        assert_eq!(all.without(3), all);
    }

    #[test]
    fn an_overflow_is_refused() {
        let children = ["a-lock-2147483647", "b-lock--2147483648"];
        let refused = Queue::of(children, &StandardLockInternalsDriver::new()).unwrap_err();
        assert_eq!(refused.name, "b-lock--2147483648");
        assert!(refused.to_string().contains("overflowed"), "{refused}");
    }

    fn contender() -> impl Strategy<Value = String> {
        ("[a-f0-9]{4}", 0..=i32::MAX).prop_map(|(id, number)| format!("_c_{id}-lock-{number:010}"))
    }

    fn foreign() -> impl Strategy<Value = String> {
        "[-a-z0-9]{0,12}|lock-[0-9]{11,12}|_c_[a-f]{4}-lease-[0-9]{10}"
            .prop_filter("a contender after all", |name| !name.contains("lock-") || name.len() > 15)
    }

    /// Children with some foreign ones among them, and the same children shuffled.
    fn directory() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
        let contenders = prop::collection::vec(contender(), 0..20);
        let foreigners = prop::collection::vec(foreign(), 0..10);
        (contenders, foreigners).prop_flat_map(|(contenders, foreigners)| {
            let all: Vec<_> = contenders.iter().cloned().chain(foreigners).collect();
            (Just(contenders), Just(all).prop_shuffle())
        })
    }

    proptest! {
        #[test]
        fn foreign_children_and_the_order_of_the_list_change_nothing((contenders, shuffled) in directory()) {
            let driver = StandardLockInternalsDriver::new();
            let (plain, mixed) = (Queue::of(&contenders, &driver), Queue::of(&shuffled, &driver));
            prop_assert_eq!(plain, mixed);
        }

        #[test]
        fn the_numbers_rise_and_every_contender_has_a_place((contenders, shuffled) in directory()) {
            let queue = Queue::of(&shuffled, &StandardLockInternalsDriver::new()).unwrap();
            prop_assert!(queue.iter().is_sorted_by_key(|entry| entry.sequence));
            prop_assert_eq!(queue.len(), contenders.len());
            for name in &contenders {
                let place = queue.position(name).unwrap();
                prop_assert_eq!(&queue.get(place).unwrap().name, name);
            }
        }

        #[test]
        fn one_negative_number_spoils_the_queue((_, mut children) in directory(), number in i32::MIN..0) {
            let name = format!("_c_x-lock-{number:010}");
            children.push(name.clone());
            let refused = Queue::of(&children, &StandardLockInternalsDriver::new());
            prop_assert_eq!(refused, Err(SequenceOverflow { name }));
        }

        #[test]
        fn without_takes_out_exactly_one((contenders, _) in directory(), place in 0..20_usize) {
            let queue = Queue::of(&contenders, &StandardLockInternalsDriver::new()).unwrap();
            let less = queue.without(place);
            let mut back: Vec<_> = less.iter().cloned().collect();
            back.extend(queue.get(place).cloned());
            back.sort();
            prop_assert!(back.iter().eq(queue.iter()));
        }
    }
}
