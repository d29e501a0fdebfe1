//! Changes of a service's instances, as a stream for each consumer.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use curator_recipes::client::ZPath;
use curator_recipes::{CacheEvent, CacheEvents, CachedNode};
use futures_core::Stream;
use futures_util::StreamExt;

use super::view;
use crate::found::{FoundInstance, Instances};
use crate::payload::{Payload, RawJson};

/// A change of a service.
///
/// Curator's `ServiceCacheListener` does not report what has changed.
#[non_exhaustive]
pub enum ServiceEvent<P = RawJson> {
    /// An instance was added.
    Inserted(FoundInstance<P>),
    /// The contents of an instance were set.
    Changed {
        /// The instance before.
        old: FoundInstance<P>,
        /// The instance now.
        new: FoundInstance<P>,
    },
    /// The instance was removed, or cannot be parsed any more. These are its last known contents.
    Removed(FoundInstance<P>),
    /// The instances are up to date: the first load is complete, or all changes of an outage were reported.
    Ready,
    /// This consumer was too slow, and events were dropped. Contains the current instances; later events build on them.
    Resync(Instances<P>),
}

impl<P> fmt::Debug for ServiceEvent<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inserted(instance) => f.debug_tuple("Inserted").field(instance).finish(),
            Self::Changed { old, new } => f.debug_struct("Changed").field("old", old).field("new", new).finish(),
            Self::Removed(instance) => f.debug_tuple("Removed").field(instance).finish(),
            Self::Ready => f.write_str("Ready"),
            Self::Resync(instances) => f.debug_tuple("Resync").field(instances).finish(),
        }
    }
}

/// The changes of a service, for one consumer; made by [`ServiceCache::events`](crate::ServiceCache::events).
///
/// A [`Stream`], also with [`next`](Self::next). It starts with an [`Inserted`](ServiceEvent::Inserted) for each known
/// instance, and [`Ready`](ServiceEvent::Ready) if they are up to date. It ends with the cache.
///
/// # Guarantees
///
/// Those of [`CacheEvents`]: applying all events gives the instances. An instance that was registered anew between two
/// reads is removed and inserted, even with the same contents. Nodes that cannot be parsed are left out.
///
/// # Cancel safety
///
/// Dropping the future of `next` loses no event.
#[must_use = "nothing is yielded before the stream is polled"]
pub struct ServiceEvents<P = RawJson> {
    service: ZPath,
    events: CacheEvents,
    payload: PhantomData<fn() -> P>,
}

impl<P: Payload> ServiceEvents<P> {
    pub(super) fn new(service: &ZPath, events: CacheEvents) -> Self {
        Self { service: service.clone(), events, payload: PhantomData }
    }

    /// Waits for the next event. Returns `None` when the cache has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<ServiceEvent<P>> {
        StreamExt::next(self).await
    }

    /// `None` for events of the service's node, and of nodes that cannot be parsed.
    fn translate(&self, event: CacheEvent) -> Option<ServiceEvent<P>> {
        let instance = |node: &CachedNode| if *node.path() == self.service { None } else { view::read(node).ok() };
        Some(match event {
            CacheEvent::Created(node) => ServiceEvent::Inserted(instance(&node)?),
            CacheEvent::Changed { old, new } => match (instance(&old), instance(&new)) {
                (Some(old), Some(new)) => ServiceEvent::Changed { old, new },
                (None, Some(new)) => ServiceEvent::Inserted(new),
                (Some(old), None) => ServiceEvent::Removed(old),
                (None, None) => return None,
            },
            CacheEvent::Deleted(node) => ServiceEvent::Removed(instance(&node)?),
            CacheEvent::Ready => ServiceEvent::Ready,
            CacheEvent::Resync(nodes) => {
                let read = nodes.children(&self.service).map(view::read);
                ServiceEvent::Resync(Instances::new(read, nodes.state()))
            }
            _ => return None,
        })
    }
}

impl<P: Payload> Stream for ServiceEvents<P> {
    type Item = ServiceEvent<P>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ServiceEvent<P>>> {
        loop {
            match self.events.poll_next_unpin(cx) {
                Poll::Ready(Some(event)) => {
                    if let Some(event) = self.translate(event) {
                        return Poll::Ready(Some(event));
                    }
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl<P> fmt::Debug for ServiceEvents<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceEvents").field("service", &self.service).finish_non_exhaustive()
    }
}
