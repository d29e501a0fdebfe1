//! The options of a cache.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use curator_client::{CuratorClient, Error as ClientError, NodePath, ZPath};

use super::scope::Scope;
use super::{CacheError, CuratorCache};
use crate::debug::debug_line;
use crate::engine::meter::CacheMeter;

/// Configures and starts a [`CuratorCache`].
///
/// After Curator's `CuratorCacheBuilder` and its options.
#[must_use = "nothing happens before `start`"]
pub struct CuratorCacheBuilder {
    pub(super) client: CuratorClient,
    pub(super) scope: Scope,
    pub(super) with_data: bool,
    pub(super) max_nodes: usize,
    pub(super) max_bytes: usize,
    pub(super) event_capacity: usize,
    pub(super) resync_every: Option<Duration>,
    pub(super) meter: CacheMeter,
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
    pub fn builder(
        client: &CuratorClient,
        path: impl NodePath,
    ) -> Result<CuratorCacheBuilder, CacheError> {
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
    /// [`Denied`](super::Lookup::Denied).
    ///
    /// Curator's `PathChildrenCache`.
    pub fn children_only(mut self) -> Self {
        self.scope.shows_root = false;
        self.max_depth(1)
    }

    /// Excludes the nodes for which `belongs` returns `false`, and everything below them. It is
    /// called with server paths of nodes below the root, often more than once for a node, and must
    /// always return the same value for a path. It runs in the cache's task and must not block; a
    /// panic there ends the cache. It also runs in `get` of the cache and of a
    /// [`Snapshot`](super::Snapshot), on the caller's thread; a panic there unwinds into the
    /// caller.
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

    /// Sets the most nodes that the cache may have. If there are more, it ends with
    /// [`CacheError::TooLarge`]. While it reads changes, it may have twice as many, because it may
    /// find the new nodes of a moved subtree before it removes the old ones. Defaults to 1,000,000.
    pub fn max_nodes(mut self, nodes: usize) -> Self {
        self.max_nodes = nodes;
        self
    }

    /// Sets the most bytes of data that the cache may have; twice as many while it reads changes.
    /// If there are more, it ends with [`CacheError::TooLarge`]. The cache checks this after each
    /// reply, and one reply may have 290 nodes of unknown length. Defaults to 1 GiB. Paths and
    /// stats need additional memory, about 400 bytes for each node, as does the data of events that
    /// consumers have not taken.
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets how many events a consumer may be behind before it gets
    /// [`Resync`](super::CacheEvent::Resync). From 1 to 1,048,576, rounded up to a power of two.
    /// Defaults to 1,024. An event stays in memory until every consumer has taken it, or this many
    /// later ones have followed.
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
    pub fn start(self) -> Result<CuratorCache, CacheError> {
        if !(1..=MAX_EVENTS).contains(&self.event_capacity) {
            return Err(invalid(
                "event capacity",
                self.event_capacity,
                "1 to 1048576",
            ));
        }
        if let Some(interval) = self
            .resync_every
            .filter(|interval| *interval < Duration::from_millis(1))
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
