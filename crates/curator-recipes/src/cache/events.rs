//! The changes of a cache, as a stream for each consumer.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_util::stream::{self, StreamExt as _};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use super::snapshot::{CacheState, CachedNode, Snapshot};

/// What has changed in a cache.
///
/// After Curator's `CuratorCacheListener.Type`, and the events of kube-runtime's watcher.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheEvent {
    /// The node has come.
    Created(CachedNode),
    /// The node's data was set.
    Changed {
        /// The node before.
        old: CachedNode,
        /// The node now.
        new: CachedNode,
    },
    /// The node has gone, or may not be read any more. This is how it was before.
    Deleted(CachedNode),
    /// The cache is [current](CacheState::Current): everything is loaded, or the changes of an outage have been reported.
    Ready,
    /// This consumer was too slow, and events were left out. The nodes are now those of the snapshot; later events follow it.
    Resync(Snapshot),
}

/// Two snapshots are equal as events if they have the same nodes.
impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.state == other.state && self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for Snapshot {}

/// The changes of a cache, for one consumer; made by [`CuratorCache::events`](crate::CuratorCache::events).
///
/// A [`Stream`], and [`next`](Self::next) for those who need no more than that. It begins with a [`Created`](CacheEvent::Created) for
/// each node that the cache has, and [`Ready`](CacheEvent::Ready) if it is current. It ends with the cache.
///
/// # Guarantees
///
/// - Replayed from the beginning, or from the last [`Resync`](CacheEvent::Resync), the events give the nodes of the cache.
/// - A parent is created before its children, and deleted after them.
/// - Of one node, no state is reported that is older than one before.
/// - States that follow each other fast are reported as one: the latest. A node that was replaced by another one is deleted and created,
///   even if both have the same version.
/// - A slow consumer stops neither the cache nor other consumers, and takes a bounded amount of memory.
///
/// # Cancel safety
///
/// Nothing is lost when a future of the next item is dropped.
#[must_use = "nothing is yielded before the stream is polled"]
pub struct CacheEvents {
    events: Pin<Box<dyn Stream<Item = CacheEvent> + Send>>,
}

impl CacheEvents {
    /// `events` is `None` when the cache has ended.
    pub(super) fn new(snapshots: watch::Receiver<Snapshot>, events: Option<&broadcast::Sender<CacheEvent>>) -> Self {
        let (snapshot, events) = {
            // While this is borrowed, the cache publishes nothing.
            let snapshot = snapshots.borrow();
            (snapshot.clone(), events.map(broadcast::Sender::subscribe))
        };
        let consumer = Consumer { snapshots, events, backlog: Backlog::of(snapshot) };
        Self { events: Box::pin(stream::unfold(consumer, Consumer::next).fuse()) }
    }

    /// Waits for the next event. Returns `None` once the cache has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<CacheEvent> {
        self.events.next().await
    }
}

impl Stream for CacheEvents {
    type Item = CacheEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<CacheEvent>> {
        self.events.as_mut().poll_next(cx)
    }
}

impl std::fmt::Debug for CacheEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheEvents").finish_non_exhaustive()
    }
}

struct Consumer {
    snapshots: watch::Receiver<Snapshot>,
    events: Option<broadcast::Receiver<CacheEvent>>,
    backlog: Option<Backlog>,
}

/// The nodes with which a stream begins.
struct Backlog {
    snapshot: Snapshot,
    last: Option<CachedNode>,
}

impl Backlog {
    fn of(snapshot: Snapshot) -> Option<Self> {
        Some(Self { snapshot, last: None })
    }
}

impl Consumer {
    async fn next(mut self) -> Option<(CacheEvent, Self)> {
        if let Some(backlog) = &mut self.backlog {
            if let Some(node) = backlog.snapshot.next_after(backlog.last.as_ref()).cloned() {
                backlog.last = Some(node.clone());
                return Some((CacheEvent::Created(node), self));
            }
            let state = backlog.snapshot.state();
            self.backlog = None;
            if state == CacheState::Current {
                return Some((CacheEvent::Ready, self));
            }
        }
        let events = self.events.as_mut()?;
        match events.recv().await {
            Ok(event) => Some((event, self)),
            Err(RecvError::Lagged(_)) => {
                let snapshot = {
                    let snapshot = self.snapshots.borrow();
                    *events = events.resubscribe();
                    snapshot.clone()
                };
                Some((CacheEvent::Resync(snapshot), self))
            }
            Err(RecvError::Closed) => None,
        }
    }
}
