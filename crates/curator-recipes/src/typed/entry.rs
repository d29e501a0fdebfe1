//! The entries of a typed cache: decoded nodes, and their versions.

use std::error::Error;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use curator_client::{Stat, ZPath, debug_line};
use derive_where::derive_where;

use super::EntryError;
use crate::cache::{CacheEvent, CachedNode, Lookup, Snapshot};
use crate::codec::ValueCodec;

/// What the data of a node decode to.
pub(super) struct Content<T> {
    pub(super) value: Result<Arc<T>, Arc<dyn Error + Send + Sync>>,
    /// The value before, while the data are invalid.
    before: Option<Arc<T>>,
}

impl<T: 'static> Content<T> {
    /// Decodes the data. `last` is the last content of the same node.
    pub(super) fn decoded(codec: &dyn ValueCodec<T>, data: &[u8], last: Option<&Self>) -> Self {
        // A panic in the task of the cache would end the cache because of one entry.
        let value = catch_unwind(AssertUnwindSafe(|| codec.decode(data)))
            .unwrap_or_else(|_| Err("the codec has panicked".into()));
        let before = match &value {
            Ok(_) => None,
            Err(_) => last.and_then(Self::last_valid).cloned(),
        };
        Self {
            value: value.map(Arc::new).map_err(Into::into),
            before,
        }
    }

    fn last_valid(&self) -> Option<&Arc<T>> {
        self.value.as_ref().ok().or(self.before.as_ref())
    }
}

/// Identifies a state of an entry: the node, by the zxid of its creation, and the number of writes
/// since.
///
/// # Caveats
///
/// ZooKeeper compares only the number of writes, which restarts when an entry is deleted and
/// created again. So [`put`](crate::TypedCache::put) and [`delete`](crate::TypedCache::delete) of a
/// version first read the node from an up-to-date server, and send nothing if it is another one. If
/// other clients delete the node, create it again and write it until it has the same number, all
/// between this read and the write, a `put` replaces a value that it does not know: it then returns
/// [`Overwritten`](EntryError::Overwritten). A `delete` cannot detect that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[expect(
    clippy::exhaustive_structs,
    reason = "identifies a state of a node; callers may store it and write it in full"
)]
pub struct EntryVersion {
    /// The zxid of the node's creation (`czxid`).
    pub czxid: i64,
    /// The number of writes since the creation.
    pub version: i32,
}

impl EntryVersion {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            czxid: stat.czxid,
            version: stat.version,
        }
    }
}

/// An entry of a [`TypedCache`](crate::TypedCache): a node and its decoded data. Clones share them.
///
/// After Curator's `ZNode`.
#[derive_where(Clone)]
pub struct TypedEntry<T> {
    node: CachedNode,
    content: Arc<Content<T>>,
}

debug_line!(TypedEntry<T>, |entry| node: entry.node, is_valid: entry.content.value.is_ok());

impl<T: Send + Sync + 'static> TypedEntry<T> {
    fn new(node: &CachedNode) -> Self {
        let content = node.decoded().cloned();
        let content = content.and_then(|content| content.downcast().ok());
        Self {
            node: node.clone(),
            // The cache decodes each node that it shows.
            content: content.unwrap_or_else(|| {
                Arc::new(Content {
                    value: Err(Arc::from(Box::from("not decoded"))),
                    before: None,
                })
            }),
        }
    }

    /// The value.
    ///
    /// # Errors
    ///
    /// [`Invalid`](EntryError::Invalid) if the codec rejects the data.
    pub fn value(&self) -> Result<&Arc<T>, EntryError> {
        self.content
            .value
            .as_ref()
            .map_err(|cause| EntryError::Invalid {
                path: self.node.path().clone(),
                cause: Arc::clone(cause),
            })
    }

    /// The value, or while the data are invalid, the last valid one that the cache has read of this
    /// node. `None` if it has read none since the node was created or the cache was started.
    #[must_use]
    pub fn last_valid(&self) -> Option<&Arc<T>> {
        self.content.last_valid()
    }

    /// The version of the present data, even if they are invalid.
    #[must_use]
    pub fn version(&self) -> EntryVersion {
        EntryVersion::of(self.node.stat())
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.node.path().name()
    }

    /// The node: its path, data and stat.
    #[must_use]
    pub fn node(&self) -> &CachedNode {
        &self.node
    }
}

/// The entries of a [`TypedCache`](crate::TypedCache) at one moment. Clones share them.
#[derive_where(Clone)]
pub struct TypedEntries<T> {
    pub(super) directory: ZPath,
    pub(super) snapshot: Snapshot,
    pub(super) values: PhantomData<fn() -> T>,
}

debug_line!(TypedEntries<T>, |entries| snapshot: entries.snapshot);

impl<T: Send + Sync + 'static> TypedEntries<T> {
    /// The entry called `name`; `None` if there is none.
    ///
    /// # Errors
    ///
    /// As for [`TypedCache::get`](crate::TypedCache::get).
    pub fn get(&self, name: &str) -> Result<Option<TypedEntry<T>>, EntryError> {
        let path = entry_path(&self.directory, name)?;
        match self.snapshot.get(&path) {
            Lookup::Present(node) => Ok(Some(TypedEntry::new(&node))),
            Lookup::Absent => Ok(None),
            Lookup::Denied => Err(EntryError::Unreadable { path }),
            Lookup::Unknown if self.snapshot.shows(&path) => Err(EntryError::NotLoaded { path }),
            Lookup::Unknown => Err(EntryError::Excluded { path }),
        }
    }

    /// All readable entries, ordered by name, including those with invalid data.
    pub fn iter(&self) -> impl Iterator<Item = TypedEntry<T>> {
        self.snapshot.iter().map(TypedEntry::new)
    }

    /// The nodes: their state, their number, and those that cannot be read.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }
}

pub(super) fn entry_path(directory: &ZPath, name: &str) -> Result<ZPath, EntryError> {
    Ok(directory.child(name)?)
}

/// A change in a [`TypedCache`](crate::TypedCache); as [`CacheEvent`](crate::CacheEvent).
///
/// After Curator's `ModeledCacheListener.Type`.
#[derive_where(Debug, Clone)]
#[non_exhaustive]
pub enum EntryEvent<T> {
    /// The entry was created, or is present when the stream starts. Its data may be invalid.
    Created(TypedEntry<T>),
    /// The data of the entry were set. They may be invalid.
    Changed {
        /// The entry before.
        old: TypedEntry<T>,
        /// The entry now.
        new: TypedEntry<T>,
    },
    /// The entry was deleted, or this client may no longer read it. Contains the last known state.
    Deleted(TypedEntry<T>),
    /// The cache is [current](crate::CacheState::Current).
    Ready,
    /// This consumer was too slow, and events were dropped. Later events follow these entries.
    Resync(TypedEntries<T>),
}

impl<T: Send + Sync + 'static> EntryEvent<T> {
    pub(super) fn new(event: CacheEvent, directory: &ZPath) -> Self {
        match event {
            CacheEvent::Created(node) => Self::Created(TypedEntry::new(&node)),
            CacheEvent::Changed { old, new } => Self::Changed {
                old: TypedEntry::new(&old),
                new: TypedEntry::new(&new),
            },
            CacheEvent::Deleted(node) => Self::Deleted(TypedEntry::new(&node)),
            CacheEvent::Ready => Self::Ready,
            CacheEvent::Resync(snapshot) => Self::Resync(TypedEntries {
                directory: directory.clone(),
                snapshot,
                values: PhantomData,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_valid_value_stays_while_data_are_invalid_or_the_codec_panics() {
        let codec = (
            |number: &u8| vec![*number],
            |data: &[u8]| match data {
                [number] => Ok(*number),
                [] => panic!("no data"),
                _ => Err("too long"),
            },
        );
        let decode = |data: &[u8], last: Option<&Content<u8>>| Content::decoded(&codec, data, last);
        let last_valid = |content: &Content<u8>| content.last_valid().map(|value| **value);
        let never = decode(b"12", None);
        assert!(never.value.is_err() && last_valid(&never).is_none());
        let valid = decode(b"1", Some(&never));
        assert_eq!(valid.value.as_deref().ok(), Some(&b'1'));
        let mut last = valid;
        for (data, error) in [
            (b"12".as_slice(), "too long"),
            (b"", "the codec has panicked"),
        ] {
            last = decode(data, Some(&last));
            assert_eq!(last.value.as_ref().unwrap_err().to_string(), error);
            assert_eq!(last_valid(&last), Some(b'1'));
        }
        let again = decode(b"2", Some(&last));
        assert_eq!((last_valid(&again), again.before), (Some(b'2'), None));
    }
}
