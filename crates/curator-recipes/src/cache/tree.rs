//! Applies what the servers answer to the nodes of a cache. Does no I/O.

use std::collections::HashMap;
use std::sync::Arc;

use curator_client::{Stat, ZPath};

use super::events::CacheEvent;
use super::place::Place;
use super::scope::Scope;
use super::snapshot::{CachedNode, Entry, Nodes, children};

/// The nodes of a cache, and what its listings were made of.
pub(super) struct Tree {
    pub(super) scope: Arc<Scope>,
    pub(super) nodes: Nodes,
    /// The `pzxid` at the last listing of each node that was listed.
    listed: HashMap<ZPath, i64>,
    with_data: bool,
    /// The bytes of data in all nodes.
    pub(super) bytes: usize,
    /// What has changed since it was last taken out.
    pub(super) events: Vec<CacheEvent>,
}

/// The answer to a read of one node.
pub(super) enum Found {
    Node(Vec<u8>, Stat),
    NoNode,
    Denied,
}

/// When the children of a node that is read have to be listed, if there are any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Listing {
    /// If the cache does not have the node: of the children that come and go later, there are events.
    IfNew,
    /// Also if a child came or went since the last listing.
    IfChanged,
    /// In the same request.
    Now,
}

/// What remains to be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Nothing,
    /// The children of the node that was read.
    List,
    /// The parent, and then the node again: the cache does not have this parent.
    ParentFirst,
}

impl Tree {
    pub(super) fn new(scope: &Arc<Scope>, with_data: bool) -> Self {
        let (scope, nodes) = (Arc::clone(scope), Nodes::new_sync());
        Self { scope, nodes, listed: HashMap::new(), with_data, bytes: 0, events: Vec::new() }
    }

    /// How long the data of a node were when it was last read; `None` if it is not cached.
    pub(super) fn known_length(&self, path: &ZPath) -> Option<(usize, usize)> {
        let stat = self.nodes.get(&Place::new(path.clone()))?.node()?.stat();
        Some((usize::try_from(stat.data_length).unwrap_or(0), usize::try_from(stat.num_children).unwrap_or(0)))
    }

    /// Applies the answer to a read of the node at `path`, which belongs to the scope and to this batch.
    pub(super) fn found(&mut self, path: &ZPath, found: Found, listing: Listing, batch: &[(ZPath, Listing)]) -> Next {
        let known = self.nodes.get(&Place::new(path.clone())).cloned();
        let (data, stat) = match found {
            Found::NoNode => {
                self.remove(path);
                return Next::Nothing;
            }
            Found::Denied => {
                if !matches!(known, Some(Entry::Denied)) {
                    self.remove(path);
                    self.nodes.insert_mut(Place::new(path.clone()), Entry::Denied);
                }
                return Next::Nothing;
            }
            Found::Node(data, stat) => (data, stat),
        };
        let known = known.as_ref().and_then(Entry::node);
        let old = known.filter(|known| known.stat().czxid == stat.czxid);
        if *path != self.scope.root {
            let parent = path.parent().map(Place::new);
            match parent.as_ref().and_then(|parent| self.nodes.get(parent)) {
                None => return Next::ParentFirst,
                // What is below a node that may not be read does not belong to the cache.
                Some(Entry::Denied) => return Next::Nothing,
                // A parent that is older than the node may be another one than that which has the node: its `pzxid` is no less than the
                // `czxid` of any child. In one request, both are of the same moment, whatever the `pzxid`: some old servers lose it
                // (ZOOKEEPER-3125).
                Some(Entry::Present(parent))
                    if old.is_none()
                        && parent.stat().pzxid < stat.czxid
                        && !batch.iter().any(|(read, _)| read == parent.path()) =>
                {
                    return Next::ParentFirst;
                }
                Some(Entry::Present(_)) => {}
            }
        }
        if old.is_none() && known.is_some() {
            self.remove(path);
        }
        match old {
            Some(old) if *old.stat() == stat => {}
            // A child came or went, or the ACL was set.
            Some(old) if old.stat().mzxid == stat.mzxid => self.insert(old.with_stat(stat)),
            Some(old) => {
                let new = CachedNode::new(path.clone(), self.kept(data), stat);
                self.bytes = self.bytes - old.data().len() + new.data().len();
                self.events.push(CacheEvent::Changed { old: old.clone(), new: new.clone() });
                self.insert(new);
            }
            None => {
                let new = CachedNode::new(path.clone(), self.kept(data), stat);
                self.bytes += new.data().len();
                self.events.push(CacheEvent::Created(new.clone()));
                self.insert(new);
            }
        }
        let is_due = match listing {
            Listing::IfNew => old.is_none(),
            Listing::Now => false,
            Listing::IfChanged => self.listed.get(path).is_none_or(|pzxid| *pzxid != stat.pzxid),
        };
        if is_due && stat.num_children > 0 && self.scope.goes_below(path) { Next::List } else { Next::Nothing }
    }

    fn kept(&self, data: Vec<u8>) -> Box<[u8]> {
        if self.with_data { data.into() } else { Box::default() }
    }

    fn insert(&mut self, node: CachedNode) {
        self.nodes.insert_mut(Place::new(node.path().clone()), Entry::Present(node));
    }

    /// Applies a list of the children of `path`, which was made in one request with a read of the node. Returns the children that the
    /// cache does not have.
    pub(super) fn listed(&mut self, path: &ZPath, names: &[String]) -> Vec<ZPath> {
        let Some(Entry::Present(node)) = self.nodes.get(&Place::new(path.clone())) else { return Vec::new() };
        self.listed.insert(path.clone(), node.stat().pzxid);
        // A server sends no invalid name.
        let children = names.iter().filter_map(|name| path.child(name).ok());
        children
            .filter(|child| !self.nodes.contains_key(&Place::new(child.clone())) && self.scope.contains(child))
            .collect()
    }

    /// All directories are to be listed again.
    pub(super) fn forget_listings(&mut self) {
        self.listed.clear();
    }

    /// Removes a node with everything below it, children first.
    fn remove(&mut self, path: &ZPath) {
        let mut below = vec![Place::new(path.clone())];
        let mut next = 0;
        while let Some(place) = below.get(next) {
            let found: Vec<_> = children(&self.nodes, place.path()).map(|(child, _)| child.clone()).collect();
            below.extend(found);
            next += 1;
        }
        for place in below.into_iter().rev() {
            if let Some(Entry::Present(node)) = self.nodes.get(&place) {
                self.bytes -= node.data().len();
                self.events.push(CacheEvent::Deleted(node.clone()));
            }
            self.listed.remove(place.path());
            self.nodes.remove_mut(&place);
        }
    }
}

#[cfg(test)]
mod tests;
