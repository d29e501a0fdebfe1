//! Follows the instances of a service, and reports their changes to each consumer.

use std::future::ready;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use curator_recipes::client::{CuratorClient, ZPath};
use curator_recipes::{
    CacheError, CacheEvent, CacheState, CachedNode, Changes, CuratorCache, CuratorCacheBuilder,
    Latest, Snapshot,
};
use derive_where::derive_where;
use futures_util::StreamExt as _;

use crate::debug::debug_line;
use crate::error::DiscoveryError;
use crate::found::{FoundInstance, Instances, ReadLog};
use crate::payload::{Payload, RawJson};

type Result<T> = std::result::Result<T, DiscoveryError>;

/// Which instances a cache returns while it is not up to date: [stale](CacheState::Stale), or
/// [ended](CacheState::Ended).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenStale {
    /// The last known instances: most still work if only ZooKeeper is unreachable. A cache that has
    /// ended (it was closed, it failed, or its client has ended) returns its last instances
    /// forever.
    #[default]
    Keep,
    /// No instances, even while the cache is [loading](CacheState::Loading), because it may have
    /// lost its connection, and after it has ended.
    Empty,
}

/// The instances of a service, kept up to date.
///
/// Curator's `ServiceCache`, on a [`CuratorCache`]; made by
/// [`ServiceDiscovery::start_cache`](crate::ServiceDiscovery::start_cache).
///
/// # Guarantees
///
/// - The guarantees of [`CuratorCache`]: no missed change, never an older state, through outages,
///   lost sessions and a directory that is deleted and recreated.
/// - A node that is replaced, for example after a lost session, does not vanish in between.
/// - A node without read permission, or with invalid data, does not hide other nodes. It is listed
///   as [unreadable](Instances::unreadable).
///
/// # Caveats
///
/// While the client is disconnected, or its reads fail, and after the cache has ended, the
/// instances are not [up to date](Self::state), and [`WhenStale`] decides which are returned.
///
/// The instance of a dead process remains until its session expires. Until then, report its errors
/// with [`ServiceProvider::note_error`](crate::ServiceProvider::note_error).
///
/// Clones are handles to one cache. The cache ends with [`close`](Self::close), with the client, or
/// when the last handle, provider and stream are dropped.
#[derive_where(Clone)]
pub struct ServiceCache<P = RawJson> {
    pub(crate) cache: CuratorCache,
    when_stale: WhenStale,
    /// The last instances, and the number of their snapshot.
    shown: Arc<Mutex<Shown<P>>>,
    log: Arc<ReadLog>,
}

type Shown<P> = (u64, Instances<P>);

debug_line!(ServiceCache<P>, |cache| path: cache.cache.path(), state: cache.cache.state().get(), when_stale: cache.when_stale);

/// Configures and starts a [`ServiceCache`]; made by
/// [`ServiceDiscovery::cache_builder`](crate::ServiceDiscovery::cache_builder).
#[must_use = "nothing happens before `start`"]
pub struct ServiceCacheBuilder<P = RawJson> {
    cache: CuratorCacheBuilder,
    log: ReadLog,
    payload: PhantomData<fn() -> P>,
}

debug_line!(ServiceCacheBuilder<P>, |builder| cache: builder.cache);

impl<P: Payload> ServiceCacheBuilder<P> {
    pub(crate) fn new(client: &CuratorClient, service: ZPath) -> Result<Self> {
        let log = ReadLog::new(client, service.clone());
        Ok(Self {
            cache: CuratorCache::builder(client, service)?.children_only(),
            log,
            payload: PhantomData,
        })
    }

    /// Sets the interval after which everything is read again: see
    /// [`CuratorCacheBuilder::resync_every`]. A change of permissions causes no event; the interval
    /// bounds how long the change goes unnoticed.
    pub fn resync_every(self, interval: Duration) -> Self {
        Self {
            cache: self.cache.resync_every(interval),
            ..self
        }
    }

    /// Sets the maximum number of instances in the cache: see [`CuratorCacheBuilder::max_nodes`].
    pub fn max_instances(self, instances: usize) -> Self {
        Self {
            cache: self.cache.max_nodes(instances),
            ..self
        }
    }

    /// Starts the cache, like
    /// [`ServiceDiscovery::start_cache`](crate::ServiceDiscovery::start_cache).
    ///
    /// # Errors
    ///
    /// See [`CuratorCacheBuilder::start`].
    pub fn start(self) -> Result<ServiceCache<P>> {
        let shown = Arc::new(Mutex::new((0, Instances::new([], CacheState::Loading))));
        let cache = self.cache.start()?;
        Ok(ServiceCache {
            cache,
            when_stale: WhenStale::Keep,
            shown,
            log: Arc::new(self.log),
        })
    }
}

impl<P: Payload> ServiceCache<P> {
    /// A handle to the same cache with this setting for instances that are not up to date. Defaults
    /// to [`WhenStale::Keep`].
    #[must_use]
    pub fn when_stale(self, when_stale: WhenStale) -> Self {
        Self { when_stale, ..self }
    }

    /// The name of the service.
    #[must_use]
    pub fn name(&self) -> &str {
        self.cache.path().name()
    }

    /// The current instances. Sends no request. If nothing has changed since the last call, this
    /// only clones an `Arc`.
    #[must_use]
    pub fn instances(&self) -> Instances<P> {
        self.instances_of(&self.cache.snapshot())
    }

    /// Whether this handle returns instances that are not up to date.
    #[cfg(feature = "tower")]
    pub(crate) fn keeps_stale(&self) -> bool {
        self.when_stale == WhenStale::Keep
    }

    fn instances_of(&self, snapshot: &Snapshot) -> Instances<P> {
        let state = snapshot.state();
        // A cache that loses its connection before it has read everything stays in the state
        // `Loading`.
        if self.when_stale == WhenStale::Empty && state != CacheState::Current {
            return Instances::new([], state);
        }
        // Uses snapshots instead of events, because a node that is replaced in one transaction is
        // in every snapshot.
        let (number, before) = self.shown().clone();
        if number == snapshot.number() {
            return Instances { state, ..before };
        }
        // Not under the lock: the log subscriber and the payload are user code, which may call the
        // cache.
        let instances =
            Instances::from_snapshot(self.cache.path(), snapshot, Some(&before), &self.log);
        let mut newest = (snapshot.number(), instances.clone());
        let mut shown = self.shown();
        // Another handle may have a newer snapshot.
        if shown.0 < newest.0 {
            // The earlier instances are dropped after the lock is released.
            std::mem::swap(&mut *shown, &mut newest);
        }
        instances
    }

    fn shown(&self) -> MutexGuard<'_, Shown<P>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the instances are up to date, and returns them. Returns immediately if they are.
    ///
    /// # Errors
    ///
    /// See [`CuratorCache::ready`]. Outages do not end the wait.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn ready(&self) -> Result<Instances<P>> {
        Ok(self.instances_of(&self.cache.ready().await?))
    }

    /// Waits until the cache has everything that was written before this call. See
    /// [`CuratorCache::caught_up`].
    ///
    /// # Errors
    ///
    /// See `ready`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn caught_up(&self) -> Result<Instances<P>> {
        Ok(self.instances_of(&self.cache.caught_up().await?))
    }

    /// The state of the cache, and its changes: whether the instances are up to date, or since when
    /// they are not. See [`CuratorCache::state`].
    #[must_use]
    pub fn state(&self) -> Latest<CacheState> {
        self.cache.state()
    }

    /// Why the instances are not up to date; `None` while they are. See
    /// [`CuratorCache::last_error`].
    #[must_use]
    pub fn last_error(&self) -> Option<CacheError> {
        self.cache.last_error()
    }

    /// The changes of the instances on the servers, for one consumer. Any number of streams can be
    /// open. [`WhenStale`] has no effect on them.
    pub fn events(&self) -> ServiceEvents<P> {
        events(&self.cache, &self.log)
    }

    /// Ends the cache for all handles. The known instances stay readable, unless
    /// [`WhenStale::Empty`] hides them. A second call has no effect.
    ///
    /// # Errors
    ///
    /// See [`CuratorCache::close`].
    ///
    /// # Cancel safety
    ///
    /// Closing continues when the future is dropped.
    pub async fn close(&self) -> Result<()> {
        Ok(self.cache.close().await?)
    }
}

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
/// The guarantees of [`CacheEvents`](curator_recipes::CacheEvents): applying all events reproduces
/// the instances. An instance that was registered again between two reads is reported as removed
/// and inserted, even with the same contents. Nodes that cannot be parsed are left out.
///
/// # Cancel safety
///
/// Dropping the future of `next` loses no event.
pub type ServiceEvents<P = RawJson> = Changes<ServiceEvent<P>>;

fn events<P: Payload>(cache: &CuratorCache, log: &Arc<ReadLog>) -> ServiceEvents<P> {
    let service = cache.path().clone();
    let log = log.clone();
    Changes::new(
        cache
            .events()
            .filter_map(move |event| ready(translate(&service, event, &log))),
    )
}

/// Returns `None` for events of nodes that cannot be parsed.
fn translate<P: Payload>(
    service: &ZPath,
    event: CacheEvent,
    log: &ReadLog,
) -> Option<ServiceEvent<P>> {
    let instance = |node: &CachedNode| FoundInstance::from_node(node).ok();
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
            ServiceEvent::Resync(Instances::from_snapshot(service, &nodes, None, log))
        }
        _ => return None,
    })
}
