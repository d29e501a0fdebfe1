//! Changes of a service's instances, as a stream for each consumer.

use std::future::ready;
use std::sync::Arc;

use curator_recipes::client::ZPath;
use curator_recipes::{CacheEvent, CachedNode, Changes, CuratorCache};
use derive_where::derive_where;
use futures_util::StreamExt as _;

use crate::found::{FoundInstance, Instances};
use crate::payload::{Payload, RawJson};
use crate::read_log::ReadLog;

/// A change of a service.
///
/// Curator's `ServiceCacheListener` does not report what has changed.
#[derive_where(Debug)]
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
    /// The instances are up to date: the first load is complete, or all changes of an outage were
    /// reported.
    Ready,
    /// This consumer was too slow, and events were dropped. Contains the current instances; later
    /// events build on them.
    Resync(Instances<P>),
}

/// The changes of a service, for one consumer; made by
/// [`ServiceCache::events`](crate::ServiceCache::events).
///
/// Implements [`Stream`](futures_core::Stream); [`next`](Changes::next) works without importing the
/// trait. The stream starts with an [`Inserted`](ServiceEvent::Inserted) for each known instance,
/// and [`Ready`](ServiceEvent::Ready) if they are up to date. It ends with the cache.
///
/// # Guarantees
///
/// Those of [`CacheEvents`](curator_recipes::CacheEvents): applying all events gives the instances.
/// An instance that was registered again between two reads is reported as removed and inserted,
/// even with the same contents. Nodes that cannot be parsed are left out.
///
/// # Cancel safety
///
/// Dropping the future of `next` loses no event.
pub type ServiceEvents<P = RawJson> = Changes<ServiceEvent<P>>;

pub(super) fn events<P: Payload>(cache: &CuratorCache, log: &Arc<ReadLog>) -> ServiceEvents<P> {
    let (service, log) = (cache.path().clone(), log.clone());
    Changes::new(
        cache
            .events()
            .filter_map(move |event| ready(translate(&service, event, &log))),
    )
}

/// `None` for events of nodes that cannot be parsed.
fn translate<P: Payload>(
    service: &ZPath,
    event: CacheEvent,
    log: &ReadLog,
) -> Option<ServiceEvent<P>> {
    let instance = |node: &CachedNode| FoundInstance::of(node).ok();
    Some(match event {
        CacheEvent::Created(node) => ServiceEvent::Inserted(instance(&node)?),
        CacheEvent::Changed { old, new } => match (instance(&old), instance(&new)) {
            (Some(old), Some(new)) => ServiceEvent::Changed { old, new },
            (None, Some(new)) => ServiceEvent::Inserted(new),
            (old, None) => ServiceEvent::Removed(old?),
        },
        CacheEvent::Deleted(node) => ServiceEvent::Removed(instance(&node)?),
        CacheEvent::Ready => ServiceEvent::Ready,
        CacheEvent::Resync(nodes) => {
            ServiceEvent::Resync(Instances::of(service, &nodes, None, log))
        }
        _ => return None,
    })
}
