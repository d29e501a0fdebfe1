//! Publishes what a cache knows: its nodes, its state and its events, in step.

use std::time::Instant;

use tokio::sync::{broadcast, watch};

use super::error::CacheError;
use super::events::CacheEvent;
use super::snapshot::{CacheState, Snapshot};
use super::tree::Tree;

/// The senders of a cache's task. When it is dropped, the cache has ended.
pub(super) struct Publisher {
    pub(super) snapshots: watch::Sender<Snapshot>,
    pub(super) states: watch::Sender<CacheState>,
    pub(super) events: broadcast::Sender<CacheEvent>,
    pub(super) errors: watch::Sender<Option<CacheError>>,
}

impl Publisher {
    /// Publishes the nodes, and the events that led to them.
    pub(super) fn publish(&self, tree: &mut Tree) {
        // Events are sent while no snapshot can be taken, so that a consumer can begin between two of these.
        self.snapshots.send_modify(|snapshot| {
            snapshot.nodes = tree.nodes.clone();
            for event in tree.events.drain(..) {
                // There may be no consumer.
                let _ = self.events.send(event);
            }
        });
    }

    /// Everything has been read, and changes are followed.
    pub(super) fn current(&self) {
        self.set(|_| CacheState::Current);
        self.errors.send_replace(None);
    }

    /// The connection is broken or in doubt.
    pub(super) fn stale(&self) {
        self.set(|state| match state {
            CacheState::Current => CacheState::Stale { since: Instant::now() },
            state => state,
        });
    }

    fn set(&self, state: impl FnOnce(CacheState) -> CacheState) {
        self.snapshots.send_if_modified(|snapshot| {
            let state = state(snapshot.state);
            let is_new = snapshot.state != state;
            if is_new {
                snapshot.state = state;
                snapshot.is_loaded |= state == CacheState::Current;
                self.states.send_replace(state);
                if state == CacheState::Current {
                    let _ = self.events.send(CacheEvent::Ready);
                }
            }
            is_new
        });
    }

    /// Waits until no handle, receiver or stream of the cache is left.
    pub(super) async fn unused(&self) {
        self.snapshots.closed().await;
        self.states.closed().await;
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        self.set(|_| CacheState::Ended);
    }
}
