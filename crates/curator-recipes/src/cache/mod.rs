//! Live copies of nodes: a node, its children, or a whole subtree.

mod events;
mod live;
mod naming;
mod publisher;
mod reads;
mod scope;
mod snapshot;
mod task;
mod tree;

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use curator_client::source::watch;
use curator_client::{
    CuratorClient, Error as ClientError, NodePath, ZPath, debug_as_text, debug_line,
};
use tokio::sync::broadcast;

use self::events::Numbered;
pub use self::events::{CacheEvent, CacheEvents};
use self::publisher::StaleCount;
use self::scope::Scope;
pub use self::snapshot::{CacheState, CachedNode, Lookup, Snapshot};
pub(crate) use self::snapshot::{DecodeNode, Decoded};
use self::task::Command;
use crate::changes::Latest;
use crate::engine::meter::CacheMeter;
use crate::task::{RecipeTask, error_of_reads};

type Result<T> = std::result::Result<T, CacheError>;

/// A live copy of a node and its descendants, down to an optional depth.
///
/// Curator's `CuratorCache`, which replaced `NodeCache`, `PathChildrenCache` and `TreeCache`. It
/// creates nothing on the servers. A task on the client's runtime keeps the copy up to date:
/// through outages of any length, lost sessions, and a root that is missing, or deleted and created
/// again.
///
/// ```no_run
/// use curator_recipes::client::CuratorClient;
/// use curator_recipes::{CacheEvent, CuratorCache};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let shards = CuratorCache::builder(&client, "/shards")?.children_only().start()?;
/// println!("{} shards", shards.ready().await?.len());
/// let mut events = shards.events();
/// while let Some(event) = events.next().await {
///     match event {
///         CacheEvent::Created(shard) => println!("{} created", shard.path().name()),
///         CacheEvent::Changed { new, .. } => println!("{} changed", new.path().name()),
///         CacheEvent::Deleted(shard) => println!("{} deleted", shard.path().name()),
///         CacheEvent::Resync(snapshot) => println!("start over with {} nodes", snapshot.len()),
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - *Every change is read* soon after its event has arrived. During the read, the state stays
///   [current](CacheState::Current) although the nodes are behind; the same holds during a full
///   re-read (in a resync, or when the number of unread changes exceeds both 65,536 and the number
///   of cached nodes). [`caught_up`](Self::caught_up) waits for these reads. Fast successive states
///   may be merged, including the creation and immediate deletion of a node.
/// - *Never backwards*: no node is replaced by an older state, even by a server that lags behind.
/// - A node that was deleted and created again is detected, even if both have the same version.
/// - Its memory is [bounded](CuratorCacheBuilder::max_nodes), and so is the memory of slow
///   consumers.
///
/// # Caveats
///
/// The cache is behind the servers by the time that an event and a read take, and during an outage;
/// [`state`](Self::state) reports whether it is current. In a write that depends on cached data,
/// compare versions.
///
/// Nodes that this client cannot read are [`Denied`](Lookup::Denied), and so are all nodes below
/// them, even readable ones, because the cache cannot list them. A changed permission is detected
/// at the next event for the node or a node below it, after a reconnect, or by
/// [`resync_every`](CuratorCacheBuilder::resync_every). Servers since 3.8.4 and 3.9.2 send no
/// events for unreadable nodes. On these servers, an unreadable node that is created later is
/// [`Absent`](Lookup::Absent), and one that is deleted stays `Denied`, until the next read, for
/// example after a reconnect or in a resync.
///
/// All caches of a client share a second session with the ensemble, which the first cache opens: on
/// servers older than 3.9, other watches of the same session would remove the recursive watch.
/// Caches need recursive watches, which ZooKeeper has since 3.6 and ClickHouse Keeper since 25.12;
/// otherwise they end with [`WatchesRefused`](CacheError::WatchesRefused).
///
/// The events of a recursive watch on ClickHouse Keeper name the root in place of the changed node
/// (its issue 115475). The cache compares the events that name its root with its reads of the root.
/// When they contradict each other, it logs a warning, and from then on, over this connection,
/// [reads everything after each event](Self::reads_all_after_events): its requests grow with the
/// number of nodes, even if only one changes. After each full read it pauses for as long as the read
/// took, at most 30 s, and then reads all changes since in one more full read. So it is up to two
/// full reads and a pause behind, although its state is current.
///
/// The comparison needs no additional request, and no event before the first one. So until the
/// first event shows it, the cache is current as on ZooKeeper; from then on, for up to three reads
/// of the root and a full read, it is current without the change. [`caught_up`](Self::caught_up)
/// waits for these reads. If the root itself changes during each read of it, its events can hide
/// others, on any server: then everything is read after every third read of the root, with the same
/// pauses. On ZooKeeper, everything is read once more if an event of the root arrives during the
/// first read of the root.
///
/// Clones are handles to one cache. It ends with [`close`](Self::close), with the client, or when
/// its last handle, receiver and stream is dropped.
#[derive(Clone)]
pub struct CuratorCache {
    commands: Arc<watch::Sender<Command>>,
    caught_up: watch::Receiver<u64>,
    snapshots: watch::Receiver<Snapshot>,
    states: watch::Receiver<CacheState>,
    errors: watch::Receiver<Option<CacheError>>,
    /// Weak, so that the channel closes when the task ends.
    events: broadcast::WeakSender<Numbered>,
    stale_count: Arc<StaleCount>,
    has_wrong_names: Arc<AtomicBool>,
    task: RecipeTask<CacheError>,
}

debug_line!(CuratorCache, |cache| path: cache.path(), state: cache.snapshots.borrow().state);

impl CuratorCache {
    /// Waits until the cache is [current](CacheState::Current), and returns its nodes. Returns
    /// immediately if it is.
    ///
    /// # Errors
    ///
    /// The error that has ended the cache, and no other: the wait continues through outages; see
    /// [`last_error`](Self::last_error).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn ready(&self) -> Result<Snapshot> {
        self.task
            .until(&self.snapshots, |snapshot| {
                (snapshot.state == CacheState::Current).then(|| snapshot.clone())
            })
            .await
    }

    /// Looks up a path in the present nodes. Calls the filter, if there is one. Sends nothing.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn get(&self, path: impl NodePath) -> Result<Lookup> {
        let path = self.task.client.resolve(path)?;
        // The snapshot is a copy, so the filter is called outside the lock.
        Ok(self.snapshot().get(&path))
    }

    /// The present children of a node, ordered by name. Sends nothing.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn children(&self, path: impl NodePath) -> Result<Vec<CachedNode>> {
        let path = self.task.client.resolve(path)?;
        Ok(self.snapshot().children(&path).cloned().collect())
    }

    /// All present nodes. Increments only a few reference counts.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshots.borrow().clone()
    }

    /// The state of the cache and its changes. When the cache has ended, the state is
    /// [`Ended`](CacheState::Ended), and no longer changes. In a forked child it no longer changes
    /// either.
    #[must_use]
    pub fn state(&self) -> Latest<CacheState> {
        Latest::new(&self.states)
    }

    /// The nodes and their state, and its changes, until the cache has ended.
    #[must_use]
    pub fn snapshots(&self) -> Latest<Snapshot> {
        Latest::new(&self.snapshots)
    }

    /// Returns the changes as a stream for one consumer; there can be any number of streams. In a
    /// forked child, the stream reports no more changes, and does not end.
    pub fn events(&self) -> CacheEvents {
        if self.task.has_forked() {
            return CacheEvents::new(futures_util::stream::pending());
        }
        events::events(self.snapshots.clone(), self.events.upgrade().as_ref())
    }

    /// Waits until the cache includes every write, by any client, whose reply arrived before this
    /// call. Returns the nodes.
    ///
    /// Takes two round trips, or one if nothing has changed, and more if there are new directories.
    /// The first request is a transaction that changes nothing: a `sync` is not enough, because a
    /// deposed leader still replies to it. If the cache is not current, the call waits until it is.
    ///
    /// # Errors
    ///
    /// The error that has ended the cache.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn caught_up(&self) -> Result<Snapshot> {
        let mut number = 0;
        self.task.command(&self.commands, |command| {
            command.catch_up += 1;
            number = command.catch_up;
        });
        self.task
            .until(&self.caught_up, |done| (*done >= number).then_some(()))
            .await?;
        Ok(self.snapshot())
    }

    /// The last error since the cache was current, or why it has ended. `None` while it is current,
    /// and until an attempt to connect or to read has failed. After a panic, only
    /// [`ready`](Self::ready) and [`caught_up`](Self::caught_up) return it.
    #[must_use]
    pub fn last_error(&self) -> Option<CacheError> {
        self.errors.borrow().clone()
    }

    /// Whether the cache reads all its nodes after each event, because events of the server have
    /// named the root in place of the changed nodes, as those of ClickHouse Keeper do (see the
    /// caveats). `false` after each reconnect, until an event shows it again.
    #[must_use]
    pub fn reads_all_after_events(&self) -> bool {
        self.has_wrong_names.load(Ordering::Acquire)
    }

    /// Ends the cache for all handles, and waits until its watch is removed from the server, but at
    /// most for the client's close timeout. A second call is harmless. The cached nodes stay
    /// readable.
    ///
    /// # Errors
    ///
    /// The error that has ended the cache before this call, unless the cache or its client was
    /// closed.
    ///
    /// # Cancel safety
    ///
    /// Closing continues when the future is dropped.
    pub async fn close(&self) -> Result<()> {
        self.task
            .command(&self.commands, |command| command.is_closed = true);
        let end = self.task.ended().await;
        self.stale_count.end(None);
        if end.is_closed() { Ok(()) } else { Err(end) }
    }

    pub(crate) fn client(&self) -> &CuratorClient {
        &self.task.client
    }

    /// The path of the root on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        &self.task.path
    }
}

/// An error of a [`CuratorCache`].
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// An error of the client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The cache was closed.
    #[error("the cache of {path} is closed")]
    Closed {
        /// The root of the cache.
        path: ZPath,
    },
    /// There is more to cache than the options allow. The cache has ended: start another one with a
    /// higher limit, a filter, or fewer levels.
    #[error("the cache of {path} has ended: it found more than {limit} {what}")]
    TooLarge {
        /// The root of the cache.
        path: ZPath,
        /// The exceeded limit: `nodes`, or `bytes` of data.
        what: &'static str,
        /// The value of the limit.
        limit: usize,
    },
    /// The server has no recursive watches: it is older than ZooKeeper 3.6 or ClickHouse Keeper
    /// 25.12, is a RaftKeeper, or has the watch manager `WatchManagerOptimized`. A
    /// [`Config`](crate::Config), [`SharedValue`](crate::SharedValue),
    /// [`SharedCount`](crate::SharedCount) or [`PersistentNode`](crate::PersistentNode) needs none; a
    /// [`GroupMember`](crate::GroupMember) has a cache of its members.
    #[error(
        "the cache of {path} has ended, because it needs recursive watches, unlike `Config`, `SharedValue`, `SharedCount` \
         and `PersistentNode`: {cause}"
    )]
    WatchesRefused {
        /// The root of the cache.
        path: ZPath,
        /// The server's error, which names the server and what it lacks.
        cause: ClientError,
    },
    /// The task of the cache has panicked, in the filter or because of a bug. The cache has ended.
    #[error("the cache of {path} has panicked: {message}")]
    Panicked {
        /// The root of the cache.
        path: ZPath,
        /// The message of the panic.
        message: String,
    },
}

debug_as_text!(CacheError);

error_of_reads!(CacheError, error in Self::Client(error), closed: Self::Closed { .. } | Self::Client(ClientError::Closed));

/// Configures and starts a [`CuratorCache`].
///
/// After Curator's `CuratorCacheBuilder` and its options.
#[must_use = "nothing happens before `start`"]
pub struct CuratorCacheBuilder {
    client: CuratorClient,
    scope: Scope,
    with_data: bool,
    decode: Option<DecodeNode>,
    max_nodes: usize,
    max_bytes: usize,
    event_capacity: usize,
    resync_every: Option<Duration>,
    meter: CacheMeter,
}

debug_line!(CuratorCacheBuilder, |builder| path: builder.scope.root);

/// The limit of `event_capacity`. The ring buffer for the events is allocated in full when the
/// cache starts.
const MAX_EVENTS: usize = 1 << 20;

impl CuratorCache {
    /// Configures a cache of the node at `path` and everything below it. Nothing is sent before
    /// [`start`](CuratorCacheBuilder::start).
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn builder(client: &CuratorClient, path: impl NodePath) -> Result<CuratorCacheBuilder> {
        Ok(CuratorCacheBuilder::new(client, client.resolve(path)?))
    }
}

impl CuratorCacheBuilder {
    pub(crate) fn new(client: &CuratorClient, root: ZPath) -> Self {
        Self {
            client: client.clone(),
            scope: Scope {
                root,
                max_depth: usize::MAX,
                shows_root: true,
                filter: None,
            },
            with_data: true,
            decode: None,
            max_nodes: 1_000_000,
            max_bytes: 1 << 30,
            event_capacity: 1_024,
            resync_every: None,
            meter: CacheMeter::unnamed(),
        }
    }

    /// Sets how many levels below the root the cache includes: 0 for the node alone, 1 for the node
    /// and its children, and so on. No limit by default.
    ///
    /// The server sends the events of deeper nodes too, which the cache ignores. To follow a single
    /// node with many descendants, use [`Config`](crate::Config).
    pub fn max_depth(mut self, levels: usize) -> Self {
        self.scope.max_depth = levels;
        self
    }

    /// Includes only the children of the root: like [`max_depth(1)`](Self::max_depth), without the
    /// root itself. The root is read for the names of its children, but lookups, snapshots and
    /// events leave it out. If this client cannot read the root, lookups return
    /// [`Denied`](Lookup::Denied).
    ///
    /// Curator's `PathChildrenCache`.
    pub fn children_only(mut self) -> Self {
        self.scope.shows_root = false;
        self.max_depth(1)
    }

    /// Excludes the nodes for which `belongs` returns `false`, and everything below them. It is
    /// called with server paths of nodes below the root, often more than once for a node, and must
    /// always return the same value for a path. It runs in the cache's task and must not block; a
    /// panic there ends the cache. It also runs in `get` of the cache and of a [`Snapshot`], on the
    /// caller's thread; a panic there unwinds into the caller.
    pub fn filter(mut self, belongs: impl Fn(&ZPath) -> bool + Send + Sync + 'static) -> Self {
        self.scope.filter = Some(Arc::new(belongs));
        self
    }

    /// Keeps only stats, no data. The data is still read, because ZooKeeper reads stats in batches
    /// only together with data.
    pub fn without_data(mut self) -> Self {
        self.with_data = false;
        self
    }

    /// Keeps what `decode` returns with each node that users see. It runs in the cache's task, once
    /// for each state of a node's data.
    pub(crate) fn decoding(mut self, decode: DecodeNode) -> Self {
        self.decode = Some(decode);
        self
    }

    pub(crate) fn client(&self) -> &CuratorClient {
        &self.client
    }

    /// Sets the maximum number of nodes in the cache. If there are more, the cache ends with
    /// [`CacheError::TooLarge`]. While it reads changes, it may have twice as many, because it may
    /// find the new nodes of a moved subtree before it removes the old ones. Defaults to 1,000,000.
    pub fn max_nodes(mut self, nodes: usize) -> Self {
        self.max_nodes = nodes;
        self
    }

    /// Sets the maximum number of bytes of data in the cache; while it reads changes, it may have
    /// twice as many. If there are more, the cache ends with [`CacheError::TooLarge`]. It checks
    /// this after each reply, and one reply may have 290 nodes of unknown length. Defaults to 1
    /// GiB. Paths and stats need additional memory, about 400 bytes for each node, as does the data
    /// of events that consumers have not taken.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets how many events a consumer may be behind before it gets [`Resync`](CacheEvent::Resync).
    /// From 1 to 1,048,576, rounded up to a power of two. Defaults to 1,024. An event stays in
    /// memory until every consumer has taken it, or this many later ones have followed.
    pub fn event_capacity(mut self, events: usize) -> Self {
        self.event_capacity = events;
        self
    }

    /// Sets the interval after which everything is read again, at least a millisecond. By default,
    /// there is no such interval, because the servers send an event for each change, except when
    /// permissions change and, on most servers, for nodes that this client cannot read: see the
    /// caveats of [`CuratorCache`].
    pub fn resync_every(mut self, interval: Duration) -> Self {
        self.resync_every = Some(interval);
        self
    }

    /// Sets the label `cache` of the metrics `curator_cache_*`. Defaults to none.
    #[cfg(feature = "metrics")]
    pub fn metrics_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.meter = CacheMeter::named(name.into());
        self
    }

    /// Starts the cache: its task reads the nodes in the background, and follows their changes.
    /// Returns immediately, and works before there is a connection, and before the root exists.
    ///
    /// # Errors
    ///
    /// [`InvalidOption`](ClientError::InvalidOption).
    pub fn start(self) -> Result<CuratorCache> {
        if !(1..=MAX_EVENTS).contains(&self.event_capacity) {
            return Err(invalid(
                "event capacity",
                self.event_capacity,
                "1 to 1048576",
            ));
        }
        if let Some(interval) = self.resync_every
            && interval < Duration::from_millis(1)
        {
            return Err(invalid(
                "resync interval",
                format!("{interval:?}"),
                "at least 1 ms",
            ));
        }
        Ok(CuratorCache::started(self))
    }
}

fn invalid(option: &'static str, value: impl Display, expected: &'static str) -> CacheError {
    ClientError::InvalidOption {
        option,
        value: value.to_string(),
        expected,
    }
    .into()
}
