//! Parses the instances of a cache from its nodes.

use std::collections::BTreeMap;

use curator_recipes::client::{Stat, ZPath};
use curator_recipes::{CachedNode, Snapshot};

use crate::found::{FoundInstance, Instances, Read, UnreadableInstance};
use crate::payload::Payload;

/// The instances of a service, parsed when they are read. No task does this in advance.
pub(super) struct View<P> {
    service: ZPath,
    nodes: BTreeMap<ZPath, Read<P>>,
    /// The last result, and its snapshot's number.
    shown: Option<(u64, Instances<P>)>,
}

impl<P: Payload> View<P> {
    pub(super) fn new(service: &ZPath) -> Self {
        Self { service: service.clone(), nodes: BTreeMap::new(), shown: None }
    }

    /// Uses snapshots, not events: a node that is replaced in one transaction is in every snapshot.
    pub(super) fn instances(&mut self, snapshot: &Snapshot) -> Instances<P> {
        let state = snapshot.state();
        if let Some((number, shown)) = &self.shown
            && *number == snapshot.number()
        {
            return Instances { state, ..shown.clone() };
        }
        self.read_all(snapshot);
        let shown = Instances::new(self.nodes.values().cloned(), state);
        self.shown = Some((snapshot.number(), shown.clone()));
        shown
    }

    fn read_all(&mut self, snapshot: &Snapshot) {
        let mut before = std::mem::take(&mut self.nodes);
        let mut keep = |path: &ZPath, stat, read: &dyn Fn() -> Read<P>| {
            let known = before.remove(path).filter(|known| is_of(known, stat));
            let read = known.unwrap_or_else(|| logged(read()));
            self.nodes.insert(path.clone(), read);
        };
        for node in snapshot.children(&self.service) {
            keep(node.path(), Some(node.stat()), &|| read(node));
        }
        for path in snapshot.denied(&self.service) {
            keep(path, None, &|| Err(Box::new(UnreadableInstance::denied(path.clone()))));
        }
    }
}

/// Parses a node.
pub(super) fn read<P: Payload>(node: &CachedNode) -> Read<P> {
    FoundInstance::read(node.path(), node.data(), *node.stat())
}

fn logged<P>(read: Read<P>) -> Read<P> {
    if let Err(unreadable) = &read {
        let UnreadableInstance { path, cause, .. } = &**unreadable;
        tracing::warn!(%path, %cause, "service discovery: a node is no instance that can be read; it is left out");
    }
    read
}

/// Whether this result is of the node with this stat. A node without read permission has no stat.
fn is_of<P>(read: &Read<P>, stat: Option<&Stat>) -> bool {
    let of = match read {
        Ok(instance) => Some(instance.stat()),
        Err(unreadable) => unreadable.stat.as_ref(),
    };
    of == stat
}
