//! The changes of a cache, as a stream for each consumer.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_util::stream::{self, StreamExt as _};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use super::snapshot::{CacheState, CachedNode, Nodes, Snapshot};

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
    /// This consumer was too slow, and events were left out. The nodes are now those of the snapshot; later events follow it, first
    /// [`Ready`](Self::Ready) if it is current.
    Resync(Snapshot),
}

/// Two snapshots are equal if they have the same nodes and the same state.
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
    pub(super) fn new(snapshots: watch::Receiver<Snapshot>, events: Option<&broadcast::Sender<Numbered>>) -> Self {
        // Before the snapshot, whose events are left out.
        let events = events.map(broadcast::Sender::subscribe);
        let snapshot = snapshots.borrow().clone();
        let consumer = Consumer { snapshots, events, snapshot, next: Next::Node(None) };
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

/// An event and its number, by which a consumer knows whether a snapshot has it.
#[derive(Debug, Clone)]
pub(super) struct Numbered {
    pub(super) number: u64,
    pub(super) event: CacheEvent,
}

struct Consumer {
    snapshots: watch::Receiver<Snapshot>,
    events: Option<broadcast::Receiver<Numbered>>,
    /// Where the consumer has begun, or begun again. Later events follow it.
    snapshot: Snapshot,
    next: Next,
}

/// What a consumer gets next.
enum Next {
    /// The first node of the snapshot, or the one after this.
    Node(Option<CachedNode>),
    /// Whether the snapshot is current.
    Ready,
    Event,
}

impl Consumer {
    async fn next(mut self) -> Option<(CacheEvent, Self)> {
        if let Next::Node(last) = &self.next {
            if let Some(node) = self.snapshot.next_after(last.as_ref()).cloned() {
                self.next = Next::Node(Some(node.clone()));
                return Some((CacheEvent::Created(node), self));
            }
            self.next = Next::Ready;
        }
        if matches!(self.next, Next::Ready) {
            self.next = Next::Event;
            // Its number alone is needed from now on.
            self.snapshot.nodes = Nodes::new_sync();
            if self.snapshot.state == CacheState::Current {
                return Some((CacheEvent::Ready, self));
            }
        }
        loop {
            let events = self.events.as_mut()?;
            match events.recv().await {
                Ok(Numbered { number, .. }) if number <= self.snapshot.events => {}
                Ok(Numbered { event, .. }) => return Some((event, self)),
                Err(RecvError::Lagged(_)) => {
                    *events = events.resubscribe();
                    self.snapshot = self.snapshots.borrow().clone();
                    self.next = Next::Ready;
                    return Some((CacheEvent::Resync(self.snapshot.clone()), self));
                }
                Err(RecvError::Closed) => return None,
            }
        }
    }
}
