//! A typed cache: the children of one node, decoded, kept up to date, and written by version.

mod entry;
mod error;
mod write;

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use curator_client::{CuratorClient, FailureLog, NodePath, ZPath, debug_line, source};
use derive_where::derive_where;
use futures_util::StreamExt as _;

use self::entry::{Content, entry_path};
pub use self::entry::{EntryEvent, EntryVersion, TypedEntries, TypedEntry};
pub use self::error::EntryError;
pub use self::write::ExpectedVersion;
use crate::cache::{
    CacheError, CacheState, CuratorCache, CuratorCacheBuilder, DecodeNode, Decoded,
};
use crate::changes::Changes;
use crate::codec::{ValueCodec, unquoting};
use crate::task::report::Truncated;

/// The children of one node as entries: names with decoded values, read from a live copy, and
/// written by version.
///
/// After Curator's `CachedModeledFramework` and `VersionedModeledFramework`, for one directory. It
/// is a [`CuratorCache`] of the directory's [children](CuratorCacheBuilder::children_only), whose
/// task decodes them, and a [codec](ValueCodec).
///
/// ```no_run
/// use curator_recipes::client::CuratorClient;
/// use curator_recipes::{EntryEvent, ExpectedVersion, TypedCache};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let text = (|text: &String| text.clone().into_bytes(), |data: &[u8]| String::from_utf8(data.to_vec()));
/// let topics = TypedCache::start(&client, "/topics", text)?;
/// println!("{} topics", topics.ready().await?.iter().count());
/// topics.put("orders", &"eu-1".to_owned(), ExpectedVersion::Absent).await?;
/// topics.caught_up().await?;
/// if let Some(orders) = topics.get("orders")? {
///     topics.put("orders", &format!("{}, eu-2", orders.value()?), orders.version()).await?;
/// }
/// let mut changes = topics.changes();
/// while let Some(change) = changes.next().await {
///     match change {
///         EntryEvent::Created(entry) | EntryEvent::Changed { new: entry, .. } => match entry.value() {
///             Ok(value) => println!("{} is {value}", entry.name()),
///             Err(error) => println!("{error}; it was {:?}", entry.last_valid()),
///         },
///         EntryEvent::Deleted(entry) => println!("{} is deleted", entry.name()),
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
/// [`caught_up`](Self::caught_up) waits for that.
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
    client: CuratorClient,
    cache: CuratorCache,
    codec: Arc<dyn ValueCodec<T>>,
}

debug_line!(TypedCache<T>, |typed| cache: typed.cache);

impl<T: Send + Sync + 'static> TypedCache<T> {
    /// Starts a cache of the children of the node at `path`. Returns immediately, and works before
    /// there is a connection, and before the node exists.
    ///
    /// The codec runs in the cache's task, and must not block. Data for which it panics is invalid.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn start(
        client: &CuratorClient,
        path: impl NodePath,
        codec: impl ValueCodec<T>,
    ) -> Result<Self, CacheError> {
        Self::start_with(CuratorCache::builder(client, path)?, codec)
    }

    /// Like [`start`](Self::start), with options of the cache. Sets
    /// [`children_only`](CuratorCacheBuilder::children_only).
    ///
    /// [`without_data`](CuratorCacheBuilder::without_data) drops the data once it is decoded. Then
    /// [`max_bytes`](CuratorCacheBuilder::max_bytes) limits nothing.
    ///
    /// # Errors
    ///
    /// As for [`CuratorCacheBuilder::start`].
    pub fn start_with(
        options: CuratorCacheBuilder,
        codec: impl ValueCodec<T>,
    ) -> Result<Self, CacheError> {
        let codec: Arc<dyn ValueCodec<T>> = Arc::new(codec);
        let client = options.client().clone();
        let decode = decode_nodes(&client, Arc::clone(&codec));
        let cache = options.children_only().decoding(decode).start()?;
        Ok(Self {
            client,
            cache,
            codec,
        })
    }

    /// Returns the entry called `name`, from memory; `None` if there is none. Sends nothing.
    ///
    /// An entry with invalid data is present; its [value](TypedEntry::value) is the error.
    ///
    /// # Errors
    ///
    /// - [`Unreadable`](EntryError::Unreadable), [`Excluded`](EntryError::Excluded).
    /// - [`NotLoaded`](EntryError::NotLoaded); [`Cache`](EntryError::Cache) if the cache has ended
    ///   before it was loaded.
    /// - [`Client`](EntryError::Client) when the name is not a single valid part of a path.
    pub fn get(&self, name: &str) -> Result<Option<TypedEntry<T>>, EntryError> {
        let entries = self.entries();
        let found = entries.get(name);
        if matches!(found, Err(EntryError::NotLoaded { .. }))
            && entries.snapshot.state() == CacheState::Ended
            && let Some(error) = self.cache.last_error()
        {
            return Err(error.into());
        }
        found
    }

    /// All present entries, and their state. Increments only a few reference counts.
    #[must_use]
    pub fn entries(&self) -> TypedEntries<T> {
        TypedEntries {
            directory: self.path().clone(),
            snapshot: self.cache.snapshot(),
            values: PhantomData,
        }
    }

    /// The changes as a stream for one consumer; there can be any number of streams. It has the
    /// guarantees of [`CacheEvents`](crate::CacheEvents): it begins with an
    /// [`EntryEvent::Created`] for each entry, and reproduces the entries.
    pub fn changes(&self) -> Changes<EntryEvent<T>> {
        let directory = self.path().clone();
        let events = self.cache.events();
        Changes::new(events.map(move |event| EntryEvent::new(event, &directory)))
    }

    /// Waits until the cache is current, and returns its entries: see [`CuratorCache::ready`].
    ///
    /// # Errors
    ///
    /// The error that has ended the cache.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn ready(&self) -> Result<TypedEntries<T>, CacheError> {
        self.cache.ready().await?;
        Ok(self.entries())
    }

    /// Waits until the cache includes every write, by any client, whose reply arrived before this
    /// call, and returns the entries: see [`CuratorCache::caught_up`].
    ///
    /// # Errors
    ///
    /// The error that has ended the cache.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn caught_up(&self) -> Result<TypedEntries<T>, CacheError> {
        self.cache.caught_up().await?;
        Ok(self.entries())
    }

    /// The cache of the nodes: its state, its last error, and its end.
    #[must_use]
    pub fn cache(&self) -> &CuratorCache {
        &self.cache
    }

    /// The path of the directory on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        self.cache.path()
    }

    fn entry_path(&self, name: &str) -> Result<ZPath, EntryError> {
        entry_path(self.path(), name)
    }
}

/// Returns the function that decodes the nodes, and logs which data are invalid.
fn decode_nodes<T: Send + Sync + 'static>(
    client: &CuratorClient,
    codec: Arc<dyn ValueCodec<T>>,
) -> DecodeNode {
    let client = client.name().to_owned();
    let failures = Mutex::new(FailureLog::default());
    Arc::new(move |path, data, last: Option<&Decoded>| {
        let last = last.and_then(|last| last.downcast_ref());
        let content = Content::decoded(&*codec, data, last);
        if let Err(cause) = &content.value {
            // The guard must not be held while a line is logged: a subscriber may call the cache.
            let is_logged = failures
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .failed(format_args!("{path}: {cause}"), source::now());
            if is_logged {
                tracing::warn!(client, path = %Truncated(path), error = unquoting(&**cause).map(tracing::field::display), "typed cache: the data of an entry are invalid, and its last value stays");
            }
        }
        Arc::new(content)
    })
}
