//! A typed cache: the children of one node, decoded, kept up to date, and written by version.

mod write;

use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use curator_client::{ZPath, debug_line};
use derive_where::derive_where;
use futures_util::StreamExt as _;

pub use self::write::{EntryVersion, ExpectedVersion};
use crate::cache::{
    CacheError, CacheEvent, CachedNode, CuratorCache, CuratorCacheBuilder, Decoded, Lookup,
    Snapshot,
};
use crate::changes::Changes;
use crate::codec::{CodecError, ValueCodec, unquoting};
use crate::error::ValueError;
use crate::task::report::{EventFailures, Truncated};

/// The children of one node as entries: names with decoded values, read from a live copy, and
/// written by version.
///
/// After Curator's `CachedModeledFramework` and `VersionedModeledFramework`, for one directory. It
/// is a [`CuratorCache`] of the directory's [children](CuratorCacheBuilder::children_only), whose
/// task decodes them, and a [codec](ValueCodec).
///
/// ```no_run
/// use curator_recipes::client::CuratorClient;
/// use curator_recipes::{CacheEvent, CuratorCache, ExpectedVersion, TypedCache};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let text = (|text: &String| text.clone().into_bytes(), |data: &[u8]| String::from_utf8(data.to_vec()));
/// let topics = TypedCache::start(CuratorCache::builder(&client, "/topics")?, text)?;
/// println!("{} topics", topics.cache().ready().await?.len());
/// topics.put("orders", &"eu-1".to_owned(), ExpectedVersion::Absent).await?;
/// topics.cache().caught_up().await?;
/// if let Some(orders) = topics.get("orders")?.node() {
///     topics.put("orders", &format!("{}, eu-2", orders.value()?), orders.version()).await?;
/// }
/// let mut changes = topics.changes();
/// while let Some(change) = changes.next().await {
///     match change {
///         CacheEvent::Created(entry) | CacheEvent::Changed { new: entry, .. } => match entry.value() {
///             Ok(value) => println!("{} is {value}", entry.name()),
///             Err(error) => println!("{error}; it was {:?}", entry.last_valid()),
///         },
///         CacheEvent::Deleted(entry) => println!("{} is deleted", entry.name()),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - Those of [`CuratorCache`]: no change is missed, and no entry is replaced by an older state.
/// - *Decoded once*: each state of an entry's data that the cache reads is decoded once, in the
///   cache's task. [`get`](Self::get), [`entries`](Self::entries) and [`changes`](Self::changes)
///   share the value.
/// - *Invalid is not absent*: an entry whose data the codec rejects is present, with the error and
///   its version. Its [last valid value](TypedEntry::last_valid) stays.
/// - *No lost update*: of several [`put`](Self::put) calls with the same expected version, at most
///   one succeeds. A `put` or [`delete`](Self::delete) of a version is never repeated after a lost
///   reply.
///
/// # Caveats
///
/// `get` sends nothing, so it may lag behind: a `put` returns when the servers have confirmed it,
/// and `get` of the same process returns the value once its event and a read have arrived.
/// [`caught_up`](CuratorCache::caught_up) of the [cache](Self::cache) waits for that.
///
/// Servers compare only the version of a node, which restarts when the node is created again: see
/// [`EntryVersion`].
///
/// Entries are persistent nodes. Only the direct children of the directory are entries, and each
/// child is one, also a node of another recipe: exclude it by a
/// [filter](CuratorCacheBuilder::filter).
///
/// The caveats of [`CuratorCache`], such as the servers that it needs.
///
/// Clones are handles to one cache. It ends as a [`CuratorCache`] does.
#[derive_where(Clone)]
pub struct TypedCache<T> {
    cache: CuratorCache,
    codec: Arc<dyn ValueCodec<T>>,
}

debug_line!(TypedCache<T>, |typed| cache: typed.cache);

impl<T: Send + Sync + 'static> TypedCache<T> {
    /// Starts a cache with these options, of the [children](CuratorCacheBuilder::children_only) of
    /// its root. Returns immediately, and works before there is a connection, and before the root
    /// exists.
    ///
    /// The codec runs in the cache's task, and must not block. Data for which it panics is invalid.
    ///
    /// [`without_data`](CuratorCacheBuilder::without_data) drops the data once it is decoded. Then
    /// [`max_bytes`](CuratorCacheBuilder::max_bytes) limits nothing.
    ///
    /// # Errors
    ///
    /// As for [`CuratorCacheBuilder::start`].
    pub fn start(
        options: CuratorCacheBuilder,
        codec: impl ValueCodec<T>,
    ) -> Result<Self, CacheError> {
        let codec: Arc<dyn ValueCodec<T>> = Arc::new(codec);
        let decoding = Arc::clone(&codec);
        let client = options.client().name().to_owned();
        // That one entry is valid again is not the end of all failures.
        let failures = EventFailures::new();
        let decode = move |path: &ZPath, data: &[u8], last: Option<&Decoded>| -> Decoded {
            let last = last.and_then(|last| last.downcast_ref());
            let content = Content::decoded(&*decoding, data, last);
            if let Err(cause) = &content.value
                && failures.failed(format_args!("{path}: {cause}"), &())
            {
                tracing::warn!(client, path = %Truncated(path), error = unquoting(&**cause).map(tracing::field::display), "typed cache: the data of an entry are invalid, and its last value stays");
            }
            Arc::new(content)
        };
        let cache = options.children_only().decoding(Arc::new(decode)).start()?;
        Ok(Self { cache, codec })
    }

    /// Looks up the entry called `name` in the present ones, as [`CuratorCache::get`] does. Sends
    /// nothing.
    ///
    /// An entry with invalid data is present; its [value](TypedEntry::value) is the error.
    ///
    /// # Errors
    ///
    /// When the name is not a single valid part of a path.
    pub fn get(&self, name: &str) -> Result<Lookup<TypedEntry<T>>, CacheError> {
        let path = self.cache.path().child(name)?;
        Ok(self.cache.get(path)?.map(TypedEntry::new))
    }

    /// The readable entries of a snapshot, ordered by name, including those with invalid data. The
    /// snapshot comes from the [cache](Self::cache) or from [`CacheEvent::Resync`].
    pub fn entries(&self, snapshot: &Snapshot) -> impl Iterator<Item = TypedEntry<T>> {
        snapshot.iter().map(|node| self.entry(node))
    }

    /// The entry of a node of the [cache](Self::cache), for example from a [`Snapshot`]. A node of a
    /// cache that is not typed, or has other values, is an entry without a value.
    #[must_use]
    pub fn entry(&self, node: &CachedNode) -> TypedEntry<T> {
        TypedEntry::new(node.clone())
    }

    /// The changes as a stream for one consumer; there can be any number of streams. It is that of
    /// [`CuratorCache::events`], with decoded nodes: see [`CacheEvents`](crate::CacheEvents).
    pub fn changes(&self) -> Changes<CacheEvent<TypedEntry<T>>> {
        let events = self.cache.events();
        Changes::new(events.map(|event| event.map(TypedEntry::new)))
    }

    /// The cache of the nodes: it waits, and has the state, the snapshots, the path and the end.
    #[must_use]
    pub fn cache(&self) -> &CuratorCache {
        &self.cache
    }
}

/// What the data of a node decode to.
struct Content<T> {
    value: Result<Arc<T>, Arc<dyn std::error::Error + Send + Sync>>,
    /// The value before, while the data are invalid.
    before: Option<Arc<T>>,
}

impl<T: 'static> Content<T> {
    /// Decodes the data. `last` is the last content of the same node.
    fn decoded(codec: &dyn ValueCodec<T>, data: &[u8], last: Option<&Self>) -> Self {
        // A panic in the task of the cache would end the cache because of one entry. The text of an
        // error is logged there.
        let decode = || {
            codec
                .decode(data)
                .inspect_err(|error| drop(error.to_string()))
        };
        let value = catch_unwind(AssertUnwindSafe(decode))
            .unwrap_or_else(|_| Err("the codec has panicked".into()));
        let last = last.filter(|_| value.is_err());
        let before = last.and_then(Self::last_valid).cloned();
        Self {
            value: value.map(Arc::new).map_err(Into::into),
            before,
        }
    }

    fn last_valid(&self) -> Option<&Arc<T>> {
        self.value.as_ref().ok().or(self.before.as_ref())
    }
}

/// An entry of a [`TypedCache`]: a node and its decoded data. Clones share them.
///
/// After Curator's `ZNode`.
#[derive_where(Clone)]
pub struct TypedEntry<T> {
    node: CachedNode,
    /// The type of the content that the node has.
    content: PhantomData<fn() -> T>,
}

debug_line!(TypedEntry<T>, |entry| node: entry.node);

impl<T: Send + Sync + 'static> TypedEntry<T> {
    fn new(node: CachedNode) -> Self {
        let content = PhantomData;
        Self { node, content }
    }

    /// `None` if the node comes from another cache.
    fn content(&self) -> Option<&Content<T>> {
        self.node.decoded()?.downcast_ref()
    }

    /// The value.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ValueError::Invalid) if the codec rejects the data.
    pub fn value(&self) -> Result<&Arc<T>, ValueError> {
        let cause = match self.content().map(|content| content.value.as_ref()) {
            Some(Ok(value)) => return Ok(value),
            Some(Err(cause)) => Arc::clone(cause),
            None => CodecError::from("the node comes from another cache").into(),
        };
        let path = self.node.path().clone();
        Err(ValueError::Invalid { path, cause })
    }

    /// The value, or while the data are invalid, the last valid one that the cache has read of this
    /// node. `None` if it has read none since the node was created or the cache was started.
    #[must_use]
    pub fn last_valid(&self) -> Option<&Arc<T>> {
        self.content()?.last_valid()
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
