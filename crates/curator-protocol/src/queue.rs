//! The children of a lock's directory as an ordered queue of contenders.

/// The contenders of one lock, the first in line first.
///
/// Ordered by sequence number, which is the order of the creates; the nodes of one contender that share a number, by name.
/// Children that do not contend for the lock are not in it, so what anybody else puts into the directory blocks nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    pub(crate) entries: Vec<QueueEntry>,
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
mod tests;
