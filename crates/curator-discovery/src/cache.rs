//! The instances of a service, followed.

mod events;
mod view;

use std::sync::{Arc, Mutex, PoisonError};

use curator_recipes::client::{CuratorClient, ZPath};
use curator_recipes::{CacheError, CacheState, CuratorCache, Snapshot};
use tokio::sync::watch;

pub use self::events::{ServiceEvent, ServiceEvents};
use self::view::View;
use crate::debug::debug_line;
use crate::error::DiscoveryError;
use crate::found::Instances;
use crate::payload::{Payload, RawJson};

type Result<T> = std::result::Result<T, DiscoveryError>;

/// Which instances a cache has while it is [stale](CacheState::Stale). Once it has ended, it keeps those that were known last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhenStale {
    /// Those that were known last: most of them still work if ZooKeeper alone is away.
    #[default]
    Keep,
    /// None.
    Empty,
}

/// The instances of a service, kept up to date.
///
/// Curator's `ServiceCache`, on a [`CuratorCache`]; made by [`ServiceDiscovery::start_cache`](crate::ServiceDiscovery::start_cache).
///
/// # Guarantees
///
/// - Those of [`CuratorCache`]: nothing missed, never backwards, through outages, lost sessions and a directory that is deleted and
///   made again.
/// - A node that is replaced, as after a lost session, does not vanish in between.
/// - A node that may not be read, or whose data is no instance, hides no other; it is among the [unreadable](Instances::unreadable).
///
/// # Caveats
///
/// While the client is cut off, the instances are [stale](Self::state), and [`WhenStale`] says which there are.
///
/// A process that has died is an instance until its session ends on the servers. [`ServiceProvider::note_error`](crate::ServiceProvider::note_error)
/// is for the time until then.
///
/// Clones are handles to one cache. It ends with [`close`](Self::close), with the client, or when no handle, provider or stream of it is
/// left.
pub struct ServiceCache<P = RawJson> {
    pub(crate) cache: CuratorCache,
    when_stale: WhenStale,
    view: Arc<Mutex<View<P>>>,
}

debug_line!(ServiceCache, |cache| path: cache.cache.path(), state: *cache.cache.state().borrow(), when_stale: cache.when_stale);

impl<P> Clone for ServiceCache<P> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), when_stale: self.when_stale, view: Arc::clone(&self.view) }
    }
}

impl<P: Payload> ServiceCache<P> {
    pub(crate) fn start(client: &CuratorClient, service: ZPath) -> Result<Self> {
        let cache = CuratorCache::builder(client, service)?.max_depth(1).start()?;
        let view = View::new(cache.path());
        Ok(Self { cache, when_stale: WhenStale::Keep, view: Arc::new(Mutex::new(view)) })
    }

    /// A handle to the same cache that has these instances while it is [stale](CacheState::Stale). Defaults to
    /// [`WhenStale::Keep`].
    #[must_use]
    pub fn when_stale(self, when_stale: WhenStale) -> Self {
        Self { when_stale, ..self }
    }

    /// The name of the service.
    #[must_use]
    pub fn name(&self) -> &str {
        self.cache.path().name()
    }

    /// The instances now. Sends nothing, and costs a reference count if nothing has changed since the last call.
    #[must_use]
    pub fn instances(&self) -> Instances<P> {
        self.instances_of(&self.cache.snapshot())
    }

    fn instances_of(&self, snapshot: &Snapshot) -> Instances<P> {
        let state = snapshot.state();
        if self.when_stale == WhenStale::Empty && matches!(state, CacheState::Stale { .. }) {
            return Instances::empty(state);
        }
        self.view.lock().unwrap_or_else(PoisonError::into_inner).instances(snapshot)
    }

    /// Waits until the instances are up to date, and returns them. Returns at once if they are.
    ///
    /// # Errors
    ///
    /// Those of [`CuratorCache::ready`]: the wait goes on through outages.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn ready(&self) -> Result<Instances<P>> {
        Ok(self.instances_of(&self.cache.ready().await?))
    }

    /// Waits until everything is known that was written before this call. See [`CuratorCache::caught_up`].
    ///
    /// # Errors
    ///
    /// The same.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn caught_up(&self) -> Result<Instances<P>> {
        Ok(self.instances_of(&self.cache.caught_up().await?))
    }

    /// Whether the instances are up to date, since when they are not, and the changes of that. See [`CuratorCache::state`].
    #[must_use]
    pub fn state(&self) -> watch::Receiver<CacheState> {
        self.cache.state()
    }

    /// Why the instances are not up to date; `None` while they are. See [`CuratorCache::last_error`].
    #[must_use]
    pub fn last_error(&self) -> Option<CacheError> {
        self.cache.last_error()
    }

    /// The instances that come, change and go on the servers, for one consumer; any number of them may be open. [`WhenStale`] does not
    /// concern it.
    pub fn events(&self) -> ServiceEvents<P> {
        ServiceEvents::new(self.cache.path(), self.cache.events())
    }

    /// Ends the cache for all handles. What is known stays readable. Closing again is harmless.
    ///
    /// # Errors
    ///
    /// Those of [`CuratorCache::close`].
    ///
    /// # Cancel safety
    ///
    /// Closing continues when the future is dropped.
    pub async fn close(&self) -> Result<()> {
        Ok(self.cache.close().await?)
    }
}
