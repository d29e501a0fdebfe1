//! The nodes of a cache at one moment.

use std::any::Any;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use curator_client::{Stat, ZPath, debug_line};
use rpds::RedBlackTreeMapSync;

use super::scope::{Denied, Scope};

/// The nodes of a cache, in the order of their paths: parents before their children. Clones share
/// them. The crate `imbl` is not used, because `deny.toml` does not allow its licence, MPL-2.0.
pub(super) type Nodes = RedBlackTreeMapSync<ZPath, Entry>;

/// A node in a cache; `None` if this client cannot read it.
pub(super) type Entry = Option<CachedNode>;

/// What a typed cache keeps with a node.
pub(crate) type Decoded = Arc<dyn Any + Send + Sync>;

/// Decodes the data of the node at a path. The last argument is what the cache keeps with the last
/// state of the same node.
pub(crate) type DecodeNode = Arc<dyn Fn(&ZPath, &[u8], Option<&Decoded>) -> Decoded + Send + Sync>;

/// A node as a cache has read it. Clones share it.
///
/// Curator's `ChildData`.
#[derive(Clone)]
pub struct CachedNode {
    inner: Arc<Inner>,
}

struct Inner {
    path: ZPath,
    data: Box<[u8]>,
    stat: Stat,
    /// `None` in a cache that is not typed.
    decoded: Option<Decoded>,
}

impl PartialEq for CachedNode {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (&*self.inner, &*other.inner);
        (&one.path, &one.data, &one.stat) == (&other.path, &other.data, &other.stat)
    }
}

impl Eq for CachedNode {}

impl CachedNode {
    pub(super) fn new(path: ZPath, data: Box<[u8]>, stat: Stat, decoded: Option<Decoded>) -> Self {
        Self {
            inner: Arc::new(Inner {
                path,
                data,
                stat,
                decoded,
            }),
        }
    }

    /// The same node with another stat.
    pub(super) fn with_stat(&self, stat: Stat) -> Self {
        let Inner {
            path,
            data,
            decoded,
            ..
        } = &*self.inner;
        Self::new(path.clone(), data.clone(), stat, decoded.clone())
    }

    pub(crate) fn decoded(&self) -> Option<&Decoded> {
        self.inner.decoded.as_ref()
    }

    /// The path on the server, including chroot and namespace. The last part is its
    /// [`name`](ZPath::name).
    #[must_use]
    pub fn path(&self) -> &ZPath {
        &self.inner.path
    }

    /// The data; empty if the cache was started [without
    /// data](super::CuratorCacheBuilder::without_data).
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.inner.data
    }

    /// The stat from the last read of the node. `pzxid`, `cversion` and `num_children` are kept up
    /// to date if the children belong to the cache too.
    #[must_use]
    pub fn stat(&self) -> &Stat {
        &self.inner.stat
    }
}

debug_line!(CachedNode, |node| path: node.inner.path, bytes: node.inner.data.len(), version: node.inner.stat.version);

/// The result of looking up a path in a cache. The node of a [`TypedCache`](crate::TypedCache) is an
/// [entry](crate::TypedEntry).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lookup<N = CachedNode> {
    /// The node.
    Present(N),
    /// There is no such node.
    Absent,
    /// This client cannot read the node, or one of its ancestors.
    Denied,
    /// Not known: the node is not loaded yet, or does not belong to this cache.
    Unknown,
}

impl<N> Lookup<N> {
    /// The node, if it is present.
    #[must_use]
    pub fn node(self) -> Option<N> {
        match self {
            Self::Present(node) => Some(node),
            _ => None,
        }
    }

    pub(crate) fn map<M>(self, node: impl FnOnce(N) -> M) -> Lookup<M> {
        match self {
            Self::Present(present) => Lookup::Present(node(present)),
            Self::Absent => Lookup::Absent,
            Self::Denied => Lookup::Denied,
            Self::Unknown => Lookup::Unknown,
        }
    }
}

/// Whether a cache is up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheState {
    /// Not everything is loaded yet. A cache that loses its connection meanwhile stays in this
    /// state.
    Loading,
    /// Everything is loaded, and changes are followed. The cache lags behind the servers by the
    /// delay of the events; see [`caught_up`](crate::CuratorCache::caught_up).
    Current,
    /// The cache may lack changes: there is no confirmed connection, or reads fail, or the cache is
    /// reading the changes that it missed.
    Stale {
        /// When the client noticed that the cache was no longer current. It notices a lost
        /// connection about a third of the session timeout after the last reply, at the latest.
        since: Instant,
    },
    /// The cache was closed, has failed, or its client has ended.
    Ended,
}

/// The nodes of a cache at one moment. Taking or cloning one increments a few reference counts,
/// however many nodes there are.
///
/// Each node is as it was on the servers at some moment, but these moments differ: ZooKeeper cannot
/// read a tree atomically.
#[derive(Clone)]
pub struct Snapshot {
    pub(super) nodes: Nodes,
    /// The unreadable nodes among `nodes`, to look up their descendants.
    pub(super) denied: Denied,
    pub(super) scope: Arc<Scope>,
    pub(super) state: CacheState,
    /// Whether everything has been loaded at least once.
    pub(super) is_loaded: bool,
    /// The number of the last event included.
    pub(super) events: u64,
    /// How many times the cache had published its nodes.
    pub(super) number: u64,
}

impl Snapshot {
    pub(super) fn empty(scope: &Arc<Scope>) -> Self {
        Self {
            nodes: Nodes::new_sync(),
            denied: Denied::none(),
            scope: Arc::clone(scope),
            state: CacheState::Loading,
            is_loaded: false,
            events: 0,
            number: 0,
        }
    }

    /// Looks up a path. To look up a string, use [`CuratorCache::get`](crate::CuratorCache::get).
    #[must_use]
    pub fn get(&self, path: &ZPath) -> Lookup {
        if let Some(Some(node)) = self.nodes.get(path) {
            return Lookup::Present(node.clone());
        }
        if self.denied.at_or_above(path).is_some() {
            return Lookup::Denied;
        }
        if self.is_loaded && self.scope.shows(path) {
            Lookup::Absent
        } else {
            Lookup::Unknown
        }
    }

    /// The readable children of a node, ordered by name. Takes O(log n) time for each child, where
    /// n is the number of nodes in the snapshot.
    pub fn children(&self, parent: &ZPath) -> impl Iterator<Item = &CachedNode> {
        children(&self.nodes, parent).filter_map(|(_, entry)| entry.as_ref())
    }

    /// All readable nodes, parents before their children.
    pub fn iter(&self) -> impl Iterator<Item = &CachedNode> {
        self.nodes.values().filter_map(Entry::as_ref)
    }

    /// The first node after `last`, in the order of [`iter`](Self::iter).
    pub(super) fn next_after(&self, last: Option<&CachedNode>) -> Option<&CachedNode> {
        let start = last.map_or(Bound::Unbounded, |node| {
            Bound::Excluded(node.path().clone())
        });
        self.nodes
            .range((start, Bound::Unbounded))
            .find_map(|(_, entry)| entry.as_ref())
    }

    /// The number of nodes, including the unreadable ones.
    #[must_use]
    pub fn len(&self) -> usize {
        // A hidden root is among the nodes only if it cannot be read.
        let is_root_hidden = !self.scope.shows_root && self.nodes.contains_key(&self.scope.root);
        self.nodes.size() - usize::from(is_root_hidden)
    }

    /// Whether there is no node, not even an unreadable one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The children of `parent` that this client cannot read, ordered by name.
    pub fn denied(&self, parent: &ZPath) -> impl Iterator<Item = &ZPath> {
        children(&self.nodes, parent)
            .filter(|(_, entry)| entry.is_none())
            .map(|(path, _)| path)
    }

    /// Whether the cache was up to date when the snapshot was taken.
    #[must_use]
    pub fn state(&self) -> CacheState {
        self.state
    }

    /// A number that increases each time that the cache publishes its nodes. Snapshots of one cache
    /// with the same number have the same nodes.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// Two snapshots are equal if they have the same state, the same readable nodes, and equally many
/// unreadable nodes.
impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.state == other.state && self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Snapshot {}

debug_line!(Snapshot, |snapshot| root: snapshot.scope.root, state: snapshot.state, nodes: snapshot.len());

/// The children of a node, ordered by name.
pub(super) fn children<'a>(
    nodes: &'a Nodes,
    parent: &ZPath,
) -> impl Iterator<Item = (&'a ZPath, &'a Entry)> + use<'a> {
    let directory = directory(parent);
    let mut below = nodes.range((first_below(parent), Bound::Unbounded));
    std::iter::from_fn(move || {
        loop {
            let (path, entry) = below.next()?;
            let Some((child, _)) = path.as_str().strip_prefix(&directory)?.split_once('/') else {
                return Some((path, entry));
            };
            // Skips what is below this child: '0' is the character after '/'.
            let next = ZPath::on_server(&format!("{directory}{child}0")).ok()?;
            below = nodes.range((Bound::Included(next), Bound::Unbounded));
        }
    })
}

/// The nodes below a node, parents before their children.
pub(super) fn descendants<'a>(
    nodes: &'a Nodes,
    of: &ZPath,
) -> impl Iterator<Item = &'a ZPath> + use<'a> {
    let directory = directory(of);
    nodes
        .range((first_below(of), Bound::Unbounded))
        .map(|(path, _)| path)
        .take_while(move |path| path.as_str().starts_with(&directory))
}

/// The prefix of the paths of all descendants.
fn directory(path: &ZPath) -> String {
    format!("{}/", if path.is_root() { "" } else { path.as_str() })
}

/// The first possible path below a node: names have no control characters, so none sorts before a
/// space.
fn first_below(path: &ZPath) -> Bound<ZPath> {
    path.child(" ").map_or(Bound::Unbounded, Bound::Included)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The order by parent, then by name: siblings are adjacent.
    fn siblings_together(path: &ZPath) -> (Option<ZPath>, String) {
        (path.parent(), path.name().to_owned())
    }

    fn is_below(path: &ZPath, above: &ZPath) -> bool {
        path != above && path.strip_prefix(above).is_some()
    }

    proptest! {
        #[test]
        fn the_order_of_paths_yields_the_children_by_name_and_all_descendants(
            additions in vec((any::<prop::sample::Index>(), "[ !\\-.0ab~é]{1,2}"), 0..25),
        ) {
            let mut paths = vec![ZPath::root()];
            for (parent, name) in additions {
                // The names "." and ".." are not valid.
                paths.extend(parent.get(&paths).child(&name));
            }
            let nodes: Nodes = paths.iter().map(|path| (path.clone(), None)).collect();
            paths.sort_by_key(siblings_together);
            paths.dedup();
            for parent in &paths {
                let expected: Vec<_> = paths.iter().filter(|path| path.parent().as_ref() == Some(parent)).collect();
                let found: Vec<_> = children(&nodes, parent).map(|(path, _)| path).collect();
                prop_assert_eq!(found, expected, "children of {}", parent);
                let mut expected: Vec<_> = paths.iter().filter(|path| is_below(path, parent)).collect();
                expected.sort();
                let found: Vec<_> = descendants(&nodes, parent).collect();
                prop_assert_eq!(&found, &expected, "descendants of {}", parent);
                for (at, path) in found.iter().enumerate() {
                    prop_assert!(!found[at..].iter().any(|later| is_below(path, later)), "{} before its parent", path);
                }
            }
        }
    }
}
