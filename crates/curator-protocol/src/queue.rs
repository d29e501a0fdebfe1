//! The children of a lock's directory as an ordered queue of contenders.

/// The contenders of one lock, in order.
///
/// Sorted by sequence number, so in the order of the creates. Nodes of one contender that share a
/// number are sorted by name. Children that do not contend for the lock are left out, so they block
/// no contender.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    pub(crate) entries: Vec<QueueEntry>,
}

/// One contender's node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct QueueEntry {
    /// The number that the server assigned. It is the first field because it decides the order.
    pub sequence: i32,
    /// The node's name within the directory.
    pub name: String,
}

/// A directory's sequence numbers are used up, or repeat.
///
/// When the directory's 32-bit counter is exhausted, ZooKeeper assigns its last number,
/// [`i32::MAX`], to each node that is created alone, and negative numbers to nodes that are created
/// together. Then the order of the queue is no longer the order of the creates, and the owner is
/// undefined. Use another directory, or delete this one while there are no contenders.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error(
    "the sequence numbers of the lock's directory are used up or repeat, as the node {name:?} shows"
)]
#[non_exhaustive]
pub struct SequenceOverflow {
    /// A node with the last number, a negative number, or the same number as another node.
    pub name: String,
}

impl Queue {
    /// The number of contenders.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no contenders.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The contender at `place`. Place 0 is the first in the queue.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<&QueueEntry> {
        self.entries.get(place)
    }

    /// The place of the node with this name.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.name == name)
    }

    /// The contenders, in the order of the queue.
    pub fn iter(&self) -> std::slice::Iter<'_, QueueEntry> {
        self.entries.iter()
    }

    /// A copy of the queue without the node at `place`, or of the whole queue if there is no such
    /// place.
    #[must_use]
    pub fn without(&self, place: usize) -> Self {
        let others = self.entries.iter().enumerate().filter(|(i, _)| *i != place);
        Self {
            entries: others.map(|(_, entry)| entry.clone()).collect(),
        }
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
