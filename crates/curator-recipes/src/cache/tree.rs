//! Applies the servers' replies to the nodes of a cache. Does no I/O.

#![expect(clippy::disallowed_types, reason = "looks up one path at a time")]

use std::collections::HashMap;
use std::sync::Arc;

use curator_client::{Stat, ZPath};

use super::events::CacheEvent;
use super::scope::{Denied, Scope};
use super::snapshot::{CachedNode, DecodeNode, Nodes, descendants};

/// The nodes of a cache, and the state of its listings.
pub(super) struct Tree {
    pub(super) scope: Arc<Scope>,
    pub(super) nodes: Nodes,
    /// The unreadable nodes among `nodes`.
    pub(super) denied: Denied,
    /// The `pzxid` and the number of children at the last listing of each node, if each child that
    /// it names is in the cache, or remains to be read.
    listed: HashMap<ZPath, (i64, i32)>,
    /// The nodes to be read again after their parent, and the `czxid` of each.
    put_off: HashMap<ZPath, i64>,
    with_data: bool,
    /// Decodes the nodes that users see, once for each state of their data.
    decode: Option<DecodeNode>,
    /// The bytes of data in all nodes.
    pub(super) bytes: usize,
    /// The changes that are not published yet.
    pub(super) events: Vec<CacheEvent>,
}

/// The reply to a read of one node.
pub(super) enum Found {
    Node(Vec<u8>, Stat),
    NoNode,
    Denied,
}

/// Whether the read of a node is followed by a listing of its children, if it has any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Listing {
    /// Only if the cache does not have the node. Events report later changes of its children.
    IfNew,
    /// Also if a child was created or deleted since the last listing.
    IfChanged,
    /// Always, in the same request.
    Now,
}

/// What remains to be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    /// The children of the node that was read.
    List,
    /// The children of the parent: the node is missing, so another node may be in its place, even
    /// if the parent looks unchanged.
    ListParent,
    /// The parent, and then the node again, because the cache does not have this parent. In a read
    /// of all nodes, the parent is listed if it has changed, because another node may be in place
    /// of one that its last listing has named. At most once for a node, because the parent may
    /// never exist.
    ParentFirst,
}

impl Tree {
    pub(super) fn new(scope: &Arc<Scope>, with_data: bool, decode: Option<DecodeNode>) -> Self {
        Self {
            scope: Arc::clone(scope),
            nodes: Nodes::new_sync(),
            denied: Denied::none(),
            listed: HashMap::new(),
            put_off: HashMap::new(),
            with_data,
            decode,
            bytes: 0,
            events: Vec::new(),
        }
    }

    /// The length of a node's data and its number of children, as last read; `None` if the node is
    /// not cached.
    pub(super) fn known_length(&self, path: &ZPath) -> Option<(usize, usize)> {
        let stat = self.nodes.get(path)?.as_ref()?.stat();
        Some((
            usize::try_from(stat.data_length).unwrap_or(0),
            usize::try_from(stat.num_children).unwrap_or(0),
        ))
    }

    /// Applies the reply to a read of the node at `path`, which belongs to the scope and to this
    /// batch.
    pub(super) fn found(
        &mut self,
        path: &ZPath,
        found: Found,
        listing: Listing,
        batch: &[(ZPath, Listing)],
    ) -> Next {
        let known = self.nodes.get(path).cloned();
        let put_off = self.put_off.remove(path);
        let (data, stat) = match found {
            Found::NoNode => {
                self.remove(path);
                let Some(parent) = path.parent() else {
                    return Next::Nothing;
                };
                // After a restore of the ensemble, the child can exist again, with the parent as it
                // was when it was listed.
                self.listed.remove(&parent);
                let may_have_others = self
                    .nodes
                    .get(&parent)
                    .and_then(Option::as_ref)
                    .is_some_and(|parent| parent.stat().num_children > 0);
                return if listing != Listing::IfNew && may_have_others {
                    Next::ListParent
                } else {
                    Next::Nothing
                };
            }
            Found::Denied => {
                // Nothing changes if the node was denied before.
                if known != Some(None) {
                    self.remove(path);
                    // An entry below another unreadable node would stay when that node becomes
                    // readable, and hide the nodes below it.
                    if self.denied.at_or_above(path).is_none() {
                        self.nodes.insert_mut(path.clone(), None);
                        self.denied.insert(path.clone());
                    }
                }
                return Next::Nothing;
            }
            Found::Node(data, stat) => (data, stat),
        };
        let known = known.flatten();
        let old = known
            .as_ref()
            .filter(|known| is_same_node(known.stat(), &stat));
        // The node was put off, and its parent was read since.
        let is_repeated = put_off == Some(stat.czxid);
        if *path != self.scope.root
            && let Some(parent) = path.parent()
        {
            let is_parent_first = match self.nodes.get(&parent) {
                // The parent itself is read again.
                _ if self.put_off.contains_key(&parent) => true,
                // The descendants of an unreadable node do not belong to the cache.
                Some(None) => return Next::Nothing,
                None if self.denied.at_or_above(path).is_some() => return Next::Nothing,
                // The parent was deleted. If it is created again, so are its children.
                None if is_repeated => return Next::Nothing,
                None => true,
                // A parent's `pzxid` is at least the `czxid` of each child. If it is less, the
                // cached parent is outdated, and may have been replaced by a new node that has this
                // child. A parent read in the same request, or after this node, is never outdated,
                // even if its `pzxid` is less: some old servers lose it (ZOOKEEPER-3125).
                Some(Some(cached)) => {
                    let is_older = old.is_none() && cached.stat().pzxid < stat.czxid;
                    is_older && !is_repeated && !batch.iter().any(|(read, _)| *read == parent)
                }
            };
            if is_parent_first {
                self.put_off.insert(path.clone(), stat.czxid);
                return Next::ParentFirst;
            }
        }
        if old.is_none() && known.is_some() {
            self.remove(path);
        }
        match old {
            Some(old) if *old.stat() == stat => {}
            // A child was created or deleted, or the ACL was set.
            Some(old) if has_same_data(old.stat(), &stat) => self.insert(old.with_stat(stat)),
            Some(old) => {
                let new = self.node(path, data, stat, Some(old));
                self.bytes = self.bytes - old.data().len() + new.data().len();
                self.report(
                    path,
                    CacheEvent::Changed {
                        old: old.clone(),
                        new: new.clone(),
                    },
                );
                self.insert(new);
            }
            None => {
                let new = self.node(path, data, stat, None);
                self.bytes += new.data().len();
                self.report(path, CacheEvent::Created(new.clone()));
                self.insert(new);
            }
        }
        let is_listed = self.listed.get(path) == Some(&(stat.pzxid, stat.num_children));
        if !is_listed {
            // After a restore of the ensemble, the node can have the listed state again, while the
            // cache has later changes of its children.
            self.listed.remove(path);
        }
        let is_due = match listing {
            Listing::IfNew => old.is_none(),
            Listing::Now => false,
            Listing::IfChanged => !is_listed,
        };
        if is_due && stat.num_children > 0 && self.scope.goes_below(path) {
            Next::List
        } else {
            Next::Nothing
        }
    }

    /// What to read after a change of the node at `path`.
    ///
    /// Below an unreadable node, the unreadable node is read instead, because it may have become
    /// readable. Until then, its descendants do not belong to the cache, even if they can be read:
    /// their names cannot be listed. A reply that is not applied yet may show the node as readable,
    /// but without the child that the event reports; so its children are listed if one was created
    /// since.
    pub(super) fn after_change(&self, path: ZPath) -> (ZPath, Listing) {
        match self.denied.at_or_above(&path) {
            Some(denied) => (denied.clone(), Listing::IfChanged),
            None => (path, Listing::IfNew),
        }
    }

    /// The nodes that are known to exist.
    pub(super) fn paths(&self) -> impl Iterator<Item = &ZPath> {
        self.nodes.keys()
    }

    /// How the root is read in a read of all nodes: the first time, its children are always listed.
    pub(super) fn root_listing(&self) -> Listing {
        if self.nodes.is_empty() && self.scope.max_depth > 0 {
            Listing::Now
        } else {
            Listing::IfChanged
        }
    }

    pub(super) fn root(&self) -> &ZPath {
        &self.scope.root
    }

    /// The root, if it is hidden and readable. An unreadable root is always shown, because no child
    /// can be read.
    fn hidden_root(&self) -> Option<&CachedNode> {
        if self.scope.shows_root {
            return None;
        }
        self.nodes.get(&self.scope.root)?.as_ref()
    }

    /// The nodes that users see.
    pub(super) fn shown(&self) -> Nodes {
        match self.hidden_root() {
            Some(root) => self.nodes.remove(root.path()),
            None => self.nodes.clone(),
        }
    }

    /// The number of the nodes that users see, and of the bytes of their data.
    pub(super) fn shown_size(&self) -> (usize, usize) {
        match self.hidden_root() {
            Some(root) => (self.nodes.size() - 1, self.bytes - root.data().len()),
            None => (self.nodes.size(), self.bytes),
        }
    }

    fn report(&mut self, path: &ZPath, event: CacheEvent) {
        if self.scope.shows(path) {
            self.events.push(event);
        }
    }

    /// The node to keep in the cache. `old` is its last state.
    fn node(
        &self,
        path: &ZPath,
        data: Vec<u8>,
        stat: Stat,
        old: Option<&CachedNode>,
    ) -> CachedNode {
        let decode = self.decode.as_ref().filter(|_| self.scope.shows(path));
        let last = old.and_then(CachedNode::decoded);
        let decoded = decode.map(|decode| decode(path, &data, last));
        let kept = if self.with_data {
            data.into()
        } else {
            Box::default()
        };
        CachedNode::new(path.clone(), kept, stat, decoded)
    }

    fn insert(&mut self, node: CachedNode) {
        self.denied.remove(node.path());
        self.nodes.insert_mut(node.path().clone(), Some(node));
    }

    /// Applies a listing of the children of `path`, made in the same request as a read of the node.
    /// Returns the children that the cache does not have.
    pub(super) fn listed(&mut self, path: &ZPath, names: &[String]) -> Vec<ZPath> {
        let Some(Some(node)) = self.nodes.get(path) else {
            return Vec::new();
        };
        self.listed
            .insert(path.clone(), (node.stat().pzxid, node.stat().num_children));
        names
            .iter()
            // A server sends no invalid name.
            .filter_map(|name| path.child(name).ok())
            .filter(|child| !self.nodes.contains_key(child) && self.scope.contains(child))
            .collect()
    }

    /// Removes a node and its descendants, children first.
    fn remove(&mut self, path: &ZPath) {
        let below: Vec<_> = descendants(&self.nodes, path).cloned().collect();
        for path in below.iter().rev().chain([path]) {
            if let Some(node) = self.nodes.get(path).cloned().flatten() {
                self.bytes -= node.data().len();
                self.report(path, CacheEvent::Deleted(node));
            }
            self.listed.remove(path);
            self.denied.remove(path);
            self.nodes.remove_mut(path);
        }
    }
}

/// Whether two stats are of one node. Compares the times too, because an ensemble that was restored
/// from a backup uses transaction ids again.
fn is_same_node(one: &Stat, other: &Stat) -> bool {
    (one.czxid, one.ctime) == (other.czxid, other.ctime)
}

/// Whether two stats of one node are of the same data.
fn has_same_data(one: &Stat, other: &Stat) -> bool {
    (one.mzxid, one.mtime) == (other.mzxid, other.mtime)
}

#[cfg(test)]
pub(super) mod tests;
