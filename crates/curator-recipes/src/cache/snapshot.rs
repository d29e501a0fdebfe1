//! The nodes of a cache at one moment.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use curator_client::{Stat, ZPath};
use rpds::RedBlackTreeMapSync;

use super::place::Place;
use super::scope::Scope;
use crate::debug::debug_line;

/// The nodes of a cache; clones share them. The crate `imbl` is not used, because `deny.toml` does not allow its
/// licence, MPL-2.0.
pub(super) type Nodes = RedBlackTreeMapSync<Place, Entry>;

/// A node in a cache.
#[derive(Debug, Clone)]
pub(super) enum Entry {
    Present(CachedNode),
    /// This client may not read it.
    Denied,
}

impl Entry {
    pub(super) fn node(&self) -> Option<&CachedNode> {
        match self {
            Self::Present(node) => Some(node),
            Self::Denied => None,
        }
    }
}

/// A node as a cache has read it. Clones share it.
///
/// Curator's `ChildData`.
#[derive(Clone, PartialEq, Eq)]
pub struct CachedNode {
    inner: Arc<Inner>,
}

#[derive(PartialEq, Eq)]
struct Inner {
    path: ZPath,
    data: Box<[u8]>,
    stat: Stat,
}

impl CachedNode {
    pub(super) fn new(path: ZPath, data: Box<[u8]>, stat: Stat) -> Self {
        Self { inner: Arc::new(Inner { path, data, stat }) }
    }

    /// The same node with another stat.
    pub(super) fn with_stat(&self, stat: Stat) -> Self {
        Self::new(self.inner.path.clone(), self.inner.data.clone(), stat)
    }

    /// The path on the server, including chroot and namespace. The last part is its [`name`](ZPath::name).
    #[must_use]
    pub fn path(&self) -> &ZPath {
        &self.inner.path
    }

    /// The data; empty if the cache was started [without data](super::CuratorCacheBuilder::without_data).
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.inner.data
    }

    /// The stat from the last read of the node. `pzxid`, `cversion` and `num_children` are kept up to date if the
    /// children belong to the cache too.
    #[must_use]
    pub fn stat(&self) -> &Stat {
        &self.inner.stat
    }
}

debug_line!(CachedNode, |node| path: node.inner.path, bytes: node.inner.data.len(), version: node.inner.stat.version);

/// The result of looking up a path in a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lookup {
    /// The node.
    Present(CachedNode),
    /// There is no such node.
    Absent,
    /// This client may not read the node, or one of its ancestors.
    Denied,
    /// Not known: the node is not loaded yet, or does not belong to this cache.
    Unknown,
}

impl Lookup {
    /// The node, if it is present.
    #[must_use]
    pub fn node(self) -> Option<CachedNode> {
        match self {
            Self::Present(node) => Some(node),
            _ => None,
        }
    }
}

/// Whether a cache is up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheState {
    /// Not everything is loaded yet.
    Loading,
    /// Everything is loaded, and changes are followed. The cache can be behind the servers by the time that an event
    /// takes to arrive; see [`caught_up`](crate::CuratorCache::caught_up).
    Current,
    /// The cache was current until `since`: there has been no confirmed connection since then, or the changes since
    /// then are being read.
    Stale {
        /// When the client detected it: at most about a third of the session timeout after the last reply.
        since: Instant,
    },
    /// The cache was closed, has failed, or its client has ended.
    Ended,
}

/// The nodes of a cache at one moment. Taking or cloning one increments a few reference counts, however many nodes
/// there are.
///
/// Each node is a state that the server had, but not all at the same moment: ZooKeeper cannot read a tree atomically.
#[derive(Clone)]
pub struct Snapshot {
    pub(super) nodes: Nodes,
    pub(super) scope: Arc<Scope>,
    pub(super) state: CacheState,
    /// Whether everything was loaded once.
    pub(super) is_loaded: bool,
    /// The number of the last event included.
    pub(super) events: u64,
    /// How often nodes were published.
    pub(super) number: u64,
}

impl Snapshot {
    pub(super) fn empty(scope: &Arc<Scope>) -> Self {
        let (nodes, scope) = (Nodes::new_sync(), Arc::clone(scope));
        Self { nodes, scope, state: CacheState::Loading, is_loaded: false, events: 0, number: 0 }
    }

    /// Looks up a path. To look up a string, use [`CuratorCache::get`](crate::CuratorCache::get).
    #[must_use]
    pub fn get(&self, path: &ZPath) -> Lookup {
        match self.nodes.get(&Place::new(path.clone())) {
            Some(Entry::Present(node)) => return Lookup::Present(node.clone()),
            Some(Entry::Denied) => return Lookup::Denied,
            None => {}
        }
        let is_denied = |node: ZPath| matches!(self.nodes.get(&Place::new(node)), Some(Entry::Denied));
        if path.ancestors().any(is_denied) || is_denied(ZPath::root()) {
            return Lookup::Denied;
        }
        if self.is_loaded && self.scope.contains(path) { Lookup::Absent } else { Lookup::Unknown }
    }

    /// The children of a node, ordered by name. The time depends on the number of children, not of other nodes.
    pub fn children(&self, parent: &ZPath) -> impl Iterator<Item = &CachedNode> {
        children(&self.nodes, parent).filter_map(|(_, entry)| entry.node())
    }

    /// All nodes, parents before their children.
    pub fn iter(&self) -> impl Iterator<Item = &CachedNode> {
        self.nodes.values().filter_map(Entry::node)
    }

    /// The first node after `last`, in the order of [`iter`](Self::iter).
    pub(super) fn next_after(&self, last: Option<&CachedNode>) -> Option<&CachedNode> {
        let start = last.map_or(Bound::Unbounded, |node| Bound::Excluded(Place::new(node.path().clone())));
        self.nodes.range((start, Bound::Unbounded)).find_map(|(_, entry)| entry.node())
    }

    /// The number of nodes, including those that may not be read.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.size()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The children of a node that this client may not read, ordered by name.
    pub fn denied(&self, parent: &ZPath) -> impl Iterator<Item = &ZPath> {
        let denied = children(&self.nodes, parent).filter(|(_, entry)| matches!(entry, Entry::Denied));
        denied.map(|(place, _)| place.path())
    }

    /// Whether the cache was up to date when the snapshot was taken.
    #[must_use]
    pub fn state(&self) -> CacheState {
        self.state
    }

    /// Increases with each change of the nodes: snapshots of one cache with the same number have the same nodes.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }
}

debug_line!(Snapshot, |snapshot| root: snapshot.scope.root, state: snapshot.state, nodes: snapshot.len());

/// The children of a node, ordered by name.
pub(super) fn children<'a>(nodes: &'a Nodes, parent: &ZPath) -> impl Iterator<Item = (&'a Place, &'a Entry)> + use<'a> {
    let parent = parent.clone();
    // The smallest possible name: control characters are not allowed.
    let first = parent.child(" ").map_or_else(|_| Bound::Unbounded, |child| Bound::Included(Place::new(child)));
    let children = nodes.range((first, Bound::Unbounded));
    children.take_while(move |(place, _)| place.is_child_of(&parent))
}
