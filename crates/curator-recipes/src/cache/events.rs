//! The changes of a cache, as one stream for each consumer.

use curator_client::process::Process;
use curator_client::source::watch;
use futures_util::stream;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::scope::Denied;
use super::snapshot::{CacheState, CachedNode, Nodes, Snapshot};
use crate::changes::Changes;

/// A change in a cache.
///
/// After Curator's `CuratorCacheListener.Type`, and the events of kube-runtime's watcher. The nodes
/// of a [`TypedCache`](crate::TypedCache) are [entries](crate::TypedEntry).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheEvent<N = CachedNode> {
    /// The node was created, or is in the cache when the stream starts.
    Created(N),
    /// The node's data was set.
    Changed {
        /// The node before.
        old: N,
        /// The node now.
        new: N,
    },
    /// The node was deleted, or this client may no longer read it. Contains the last known node.
    Deleted(N),
    /// The cache is [current](CacheState::Current): everything is loaded, or the changes of an
    /// outage have been reported.
    Ready,
    /// This consumer was too slow, and events were dropped. The snapshot contains the present
    /// nodes; later events follow it, first [`Ready`](Self::Ready) if it is current.
    Resync(Snapshot),
}

impl<N> CacheEvent<N> {
    pub(crate) fn map<M>(self, node: impl Fn(N) -> M) -> CacheEvent<M> {
        match self {
            Self::Created(new) => CacheEvent::Created(node(new)),
            Self::Changed { old, new } => CacheEvent::Changed {
                old: node(old),
                new: node(new),
            },
            Self::Deleted(old) => CacheEvent::Deleted(node(old)),
            Self::Ready => CacheEvent::Ready,
            Self::Resync(snapshot) => CacheEvent::Resync(snapshot),
        }
    }
}

/// The changes of a cache, for one consumer; made by
/// [`CuratorCache::events`](crate::CuratorCache::events).
///
/// A [`Stream`](futures_core::Stream); [`next`](Changes::next) works without importing the trait.
/// It begins with a [`Created`](CacheEvent::Created) for each node in the cache, and
/// [`Ready`](CacheEvent::Ready) if the cache is current. It ends with the cache.
///
/// # Guarantees
///
/// - Applied from the beginning, or from the last [`Resync`](CacheEvent::Resync), the events
///   reproduce the nodes of the cache: their paths, data, `czxid` and `mzxid`. The rest of a stat
///   can change without an event, so the stat of `old` may differ from the one reported before.
/// - A parent is reported as created before its children, and as deleted after them.
/// - A node's states are reported in order: never an older one after a newer one.
/// - Fast successive states are merged into the latest one. A node that was deleted and created
///   again is reported as deleted and created, even if both have the same version.
/// - A slow consumer blocks neither the cache nor other consumers, and uses a bounded amount of
///   memory.
///
/// # Cancel safety
///
/// No event is lost when the future of [`next`](Changes::next) is dropped.
pub type CacheEvents = Changes<CacheEvent>;

/// Returns the stream of a new consumer. `events` is `None` when the cache has ended.
pub(super) fn events(
    snapshots: watch::Receiver<Snapshot>,
    events: Option<&broadcast::Sender<Numbered>>,
) -> CacheEvents {
    // Subscribe before taking the snapshot; events that the snapshot includes are skipped.
    let events = events.map(broadcast::Sender::subscribe);
    let snapshot = snapshots.borrow().clone();
    let consumer = Consumer {
        process: Process::current(),
        snapshots,
        events,
        snapshot,
        next: Next::Node(None),
    };
    Changes::new(stream::unfold(consumer, Consumer::next))
}

/// An event and its number, which shows a consumer whether a snapshot includes the event.
#[derive(Debug, Clone)]
pub(super) struct Numbered {
    pub(super) number: u64,
    pub(super) event: CacheEvent,
}

struct Consumer {
    process: Process,
    snapshots: watch::Receiver<Snapshot>,
    events: Option<broadcast::Receiver<Numbered>>,
    /// The snapshot that the consumer started or resynchronized from. Later events follow it.
    snapshot: Snapshot,
    next: Next,
}

/// The next step of a consumer.
enum Next {
    /// The node of the snapshot after this one; `None` for the first node.
    Node(Option<CachedNode>),
    /// `Ready`, if the snapshot is current.
    Ready,
    Event,
}

impl Consumer {
    async fn next(mut self) -> Option<(CacheEvent, Self)> {
        if self.process.has_forked() {
            return std::future::pending().await;
        }
        if let Next::Node(last) = &self.next {
            if let Some(node) = self.snapshot.next_after(last.as_ref()).cloned() {
                self.next = Next::Node(Some(node.clone()));
                return Some((CacheEvent::Created(node), self));
            }
            self.next = Next::Ready;
        }
        if matches!(self.next, Next::Ready) {
            self.next = Next::Event;
            // From here on, only the state and the event number of the snapshot are needed.
            self.snapshot.nodes = Nodes::new_sync();
            self.snapshot.denied = Denied::none();
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
