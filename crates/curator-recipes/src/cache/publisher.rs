//! Publishes the nodes, the state and the events of a cache, consistent with each other, and counts
//! the cache in the metric of caches that are not current.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use curator_client::source;
use curator_client::source::watch;
use tokio::sync::broadcast;

use super::CacheError;
use super::events::{CacheEvent, Numbered};
use super::snapshot::{CacheState, Snapshot};
use super::tree::Tree;
use crate::engine::meter::CacheMeter;

/// The senders of a cache's task. Dropping them ends the cache.
pub(super) struct Publisher {
    pub(super) snapshots: watch::Sender<Snapshot>,
    /// A copy of the state of the snapshot, for readers that wait for changes of the state alone.
    pub(super) states: watch::Sender<CacheState>,
    pub(super) events: broadcast::Sender<Numbered>,
    pub(super) errors: watch::Sender<Option<CacheError>>,
    pub(super) stale_count: Arc<StaleCount>,
}

impl Publisher {
    /// Publishes the nodes, and the events that led to them.
    pub(super) fn publish(&self, tree: &mut Tree) {
        let mut number = 0;
        self.snapshots.send_modify(|snapshot| {
            snapshot.nodes = tree.shown();
            snapshot.denied = tree.denied.clone();
            snapshot.number += 1;
            number = snapshot.events;
            snapshot.events += tree.events.len() as u64;
        });
        for event in tree.events.drain(..) {
            number += 1;
            self.send(number, event);
        }
    }

    /// Call this without holding a lock, because it wakes consumers.
    fn send(&self, number: u64, event: CacheEvent) {
        // There may be no consumer.
        let _ = self.events.send(Numbered { number, event });
    }

    /// Records that everything has been read, and changes are followed.
    pub(super) fn current(&self) {
        self.errors.send_if_modified(|error| error.take().is_some());
        self.set(|_| CacheState::Current);
    }

    /// Records that the connection is broken or unconfirmed, or that reads fail.
    pub(super) fn stale(&self) {
        self.set(|state| match state {
            CacheState::Current => CacheState::Stale {
                since: source::now(),
            },
            state => state,
        });
    }

    /// Sets the state of the snapshot, and its copy under the same lock, before it wakes the
    /// readers of either.
    fn set(&self, state: impl FnOnce(CacheState) -> CacheState) {
        let mut published = None;
        self.snapshots.send_if_modified(|snapshot| {
            let before = snapshot.state;
            snapshot.state = state(before);
            if snapshot.state != before {
                self.measure(before, snapshot.state);
                if snapshot.state == CacheState::Current {
                    snapshot.is_loaded = true;
                    snapshot.events += 1;
                }
                self.states.send_if_modified(|copy| {
                    *copy = snapshot.state;
                    false
                });
                published = Some((snapshot.state, snapshot.events));
            }
            false
        });
        let Some((state, number)) = published else {
            return;
        };
        self.states.send_modify(|_| {});
        self.snapshots.send_modify(|_| {});
        if state == CacheState::Current {
            self.send(number, CacheEvent::Ready);
        }
    }

    fn measure(&self, before: CacheState, now: CacheState) {
        match (before, now) {
            (CacheState::Current, CacheState::Stale { .. }) => self.stale_count.count(),
            (CacheState::Stale { since }, CacheState::Current) => {
                self.stale_count.end(Some(source::elapsed(since)));
            }
            (_, CacheState::Ended) if !self.is_closed() => self.stale_count.count(),
            (CacheState::Loading | CacheState::Stale { .. }, _) => self.stale_count.end(None),
            _ => {}
        }
    }

    /// Whether the cache was closed by its users or with its client, not ended by an error.
    fn is_closed(&self) -> bool {
        self.errors
            .borrow()
            .as_ref()
            .is_some_and(CacheError::is_closed)
    }

    /// Waits until the last handle, receiver and stream of the cache is dropped.
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

/// Whether a cache counts as not current. The handles of a cache share it with its task: a cache
/// that an error has ended counts until it is closed, or its last handle is dropped.
#[derive(Debug)]
pub(super) struct StaleCount {
    meter: CacheMeter,
    is_counted: AtomicBool,
}

impl StaleCount {
    /// Counts a cache that is loading.
    pub(super) fn begin(meter: CacheMeter) -> Self {
        meter.stale_begins();
        Self {
            meter,
            is_counted: AtomicBool::new(true),
        }
    }

    /// Counts the cache, which is not current.
    pub(super) fn count(&self) {
        if !self.is_counted.swap(true, Ordering::AcqRel) {
            self.meter.stale_begins();
        }
    }

    /// Stops counting the cache, which is current again after it was stale for this long, or is no
    /// longer used.
    pub(super) fn end(&self, after: Option<Duration>) {
        if self.is_counted.swap(false, Ordering::AcqRel) {
            self.meter.stale_ends(after);
        }
    }
}

impl Drop for StaleCount {
    fn drop(&mut self) {
        self.end(None);
    }
}
