//! The instances that come, change and go, as a stream for each consumer.

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

/// What has changed in a service.
///
/// Curator's `ServiceCacheListener` does not say what has changed.
#[non_exhaustive]
pub enum ServiceEvent<P = RawJson> {
    /// The instance has come.
    Inserted(FoundInstance<P>),
    /// The contents of the instance were set.
    Changed {
        /// The instance before.
        old: FoundInstance<P>,
        /// The instance now.
        new: FoundInstance<P>,
    },
    /// The instance has gone, or cannot be read any more. This is how it was before.
    Removed(FoundInstance<P>),
    /// The instances are known: all are loaded, or the changes of an outage have been reported.
    Ready,
    /// This consumer was too slow, and events were left out. These are the instances; later events follow them.
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
/// A [`Stream`], and [`next`](Self::next). It begins with an [`Inserted`](ServiceEvent::Inserted) for each instance that is known, and
/// [`Ready`](ServiceEvent::Ready) if that is up to date. It ends with the cache.
///
/// # Guarantees
///
/// Those of [`CacheEvents`]: replayed, the events give the instances. One that was registered anew between two reads is removed and
/// inserted, even with the same contents. Nodes that cannot be read do not occur.
///
/// # Cancel safety
///
/// Nothing is lost when a future of the next item is dropped.
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

    /// Waits for the next event. Returns `None` once the cache has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<ServiceEvent<P>> {
        StreamExt::next(self).await
    }

    /// `None` for an event of the service's node, or of what cannot be read.
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
