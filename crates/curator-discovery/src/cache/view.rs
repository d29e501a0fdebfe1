//! The instances of a cache, as far as its events were read.

use std::collections::BTreeMap;

use curator_recipes::client::ZPath;
use curator_recipes::{CacheEvent, CacheEvents, CacheState, CachedNode, Snapshot};
use futures_util::FutureExt as _;
use tokio::task::unconstrained;

use crate::found::{FoundInstance, Instances, Read, UnreadableInstance};
use crate::payload::Payload;

/// The instances of a service. They are brought up to date when they are looked at, and not before: no task does that.
pub(super) struct View<P> {
    service: ZPath,
    events: CacheEvents,
    nodes: BTreeMap<ZPath, Read<P>>,
    /// Those that were shown last, if nothing has changed since.
    shown: Option<Instances<P>>,
}

impl<P: Payload> View<P> {
    pub(super) fn new(service: &ZPath, events: CacheEvents) -> Self {
        Self { service: service.clone(), events, nodes: BTreeMap::new(), shown: None }
    }

    pub(super) fn instances(&mut self, state: CacheState) -> Instances<P> {
        // All events that are there. Not under tokio's budget for a task, which would pretend that there are none.
        while let Some(Some(event)) = unconstrained(self.events.next()).now_or_never() {
            self.apply(event);
        }
        let nodes = &self.nodes;
        let shown = self.shown.get_or_insert_with(|| Instances::new(nodes.values().cloned(), state));
        Instances { state, ..shown.clone() }
    }

    fn apply(&mut self, event: CacheEvent) {
        match event {
            CacheEvent::Created(node) | CacheEvent::Changed { new: node, .. } => self.set(&node),
            CacheEvent::Deleted(node) => {
                self.nodes.remove(node.path());
                self.shown = None;
            }
            CacheEvent::Resync(snapshot) => self.start_over(&snapshot),
            _ => {}
        }
    }

    fn set(&mut self, node: &CachedNode) {
        if *node.path() == self.service {
            return;
        }
        let read = read(node);
        if let Err(unreadable) = &read {
            let UnreadableInstance { path, cause, .. } = &**unreadable;
            tracing::warn!(%path, %cause, "service discovery: a node is no instance that can be read; it is left out");
        }
        self.nodes.insert(node.path().clone(), read);
        self.shown = None;
    }

    fn start_over(&mut self, snapshot: &Snapshot) {
        let mut before = std::mem::take(&mut self.nodes);
        self.shown = None;
        for node in snapshot.children(&self.service.clone()) {
            match before.remove(node.path()) {
                Some(read) if is_of(&read, node) => drop(self.nodes.insert(node.path().clone(), read)),
                _ => self.set(node),
            }
        }
    }
}

/// Reads a node.
pub(super) fn read<P: Payload>(node: &CachedNode) -> Read<P> {
    FoundInstance::read(node.path(), node.data(), *node.stat())
}

/// Whether this is what the node says.
fn is_of<P>(read: &Read<P>, node: &CachedNode) -> bool {
    let stat = match read {
        Ok(instance) => instance.stat(),
        Err(unreadable) => &unreadable.stat,
    };
    stat == node.stat()
}
