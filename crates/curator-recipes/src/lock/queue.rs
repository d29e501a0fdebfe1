//! The children of a lock's directory as an ordered queue of contenders.

use super::driver::LockInternalsDriver;

/// The contenders of one lock, the first in line first.
///
/// Ordered by sequence number, which is the order of the creates; the nodes of one contender that share a number, by name.
/// Children that do not contend for the lock are not in it, so what anybody else puts into the directory blocks nobody.
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

/// The directory's counter is at the end of its 32 bits.
///
/// ZooKeeper gives its last number, [`i32::MAX`], to each node from there on that is created alone; nodes that are created
/// together get negative ones. So the order of the queue is no longer the order of the creates, and nobody can know who owns
/// the lock. The way out is another directory, or to delete this one while nobody contends.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the sequence numbers of the lock's directory are used up or come again, as the node {name:?} shows")]
pub struct SequenceOverflow {
    /// A node with the last number, a negative one, or the same as another's.
    pub name: String,
}

impl Queue {
    /// The queue that a list of children makes.
    ///
    /// # Errors
    ///
    /// [`SequenceOverflow`] if a contender's number is negative or the last that there is, or if several have one number and
    /// the driver does not [allow](LockInternalsDriver::may_share_a_number) that.
    pub fn of<C>(
        children: impl IntoIterator<Item = C>,
        driver: &dyn LockInternalsDriver,
    ) -> Result<Self, SequenceOverflow>
    where
        C: AsRef<str> + Into<String>,
    {
        let queue = Self::in_any_order(children, driver);
        let refused = |entry: &QueueEntry| Err(SequenceOverflow { name: entry.name.clone() });
        if let Some(last) = queue.entries.iter().find(|entry| !(0..i32::MAX).contains(&entry.sequence)) {
            return refused(last);
        }
        for same in queue.entries.chunk_by(|one, other| one.sequence == other.sequence) {
            let [_, .., last] = same else { continue };
            let names: Vec<_> = same.iter().map(|entry| entry.name.as_str()).collect();
            if !driver.may_share_a_number(&names) {
                return refused(last);
            }
        }
        Ok(queue)
    }

    /// As [`of`](Self::of), whether the numbers make an order or not. For leases: they are counted, and none is before
    /// another.
    pub(crate) fn in_any_order<C>(children: impl IntoIterator<Item = C>, driver: &dyn LockInternalsDriver) -> Self
    where
        C: AsRef<str> + Into<String>,
    {
        let numbered = |child: C| Some(QueueEntry { sequence: driver.sequence(child.as_ref())?, name: child.into() });
        let mut entries: Vec<_> = children.into_iter().filter_map(numbered).collect();
        entries.sort_unstable();
        Self { entries }
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
    fn the_order_is_that_of_the_numbers() {
        let queue = queue(&["b-lock-0000000011", "z-lock-0000000009", "zfoo", "c-lock-0000000010"]);
        assert_eq!(names(&queue), ["z-lock-0000000009", "c-lock-0000000010", "b-lock-0000000011"]);
        assert_eq!(queue.position("c-lock-0000000010"), Some(1));
        assert_eq!(queue.position("zfoo"), None);
        assert_eq!(queue.get(2).map(|entry| entry.sequence), Some(11));
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
        for name in ["a-lock-2147483647", "b-lock--2147483648", "b-lock--000000001"] {
            let refused = Queue::of(["a-lock-0000000001", name], &StandardLockInternalsDriver::new()).unwrap_err();
            assert_eq!(refused.name, name);
            assert!(refused.to_string().contains("used up"), "{refused}");
        }
        assert_eq!(queue(&["a-lock-2147483646"]).len(), 1);
    }

    #[test]
    fn two_nodes_with_one_number_are_refused() {
        let children = ["b-lock-0000000010", "z-lock-0000000009", "zfoo", "a-lock-0000000010"];
        let refused = Queue::of(children, &StandardLockInternalsDriver::new()).unwrap_err();
        assert_eq!(refused.name, "b-lock-0000000010");
    }

    /// Each with a number of its own.
    fn contenders() -> impl Strategy<Value = Vec<String>> {
        let numbered = prop::collection::btree_map(0..i32::MAX, "[a-f0-9]{4}", 0..20);
        let name = |(number, id)| format!("_c_{id}-lock-{number:010}");
        numbered.prop_map(move |numbered| numbered.into_iter().map(name).collect::<Vec<_>>()).prop_shuffle()
    }

    fn foreign() -> impl Strategy<Value = String> {
        "[-a-z0-9]{0,12}|lock-[0-9]{11,12}|_c_[a-f]{4}-lease-[0-9]{10}"
            .prop_filter("a contender after all", |name| !name.contains("lock-") || name.len() > 15)
    }

    /// Children with some foreign ones among them, and the same children shuffled.
    fn directory() -> impl Strategy<Value = (Vec<String>, Vec<String>)> {
        let foreigners = prop::collection::vec(foreign(), 0..10);
        (contenders(), foreigners).prop_flat_map(|(contenders, foreigners)| {
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
        fn one_number_from_the_end_spoils_the_queue(
            (_, mut children) in directory(),
            number in prop_oneof![i32::MIN..0, Just(i32::MAX)],
        ) {
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
