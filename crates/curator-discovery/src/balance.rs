//! Feeds instances to the load balancers of tower and tonic.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use curator_recipes::{CacheEvents, CacheState};
use futures_core::Stream;
use futures_util::stream;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::watch;
use tokio::task::unconstrained;
pub use tower::discover::Change;

use crate::cache::ServiceCache;
use crate::found::FoundInstance;
use crate::payload::Payload;

/// A service's instances as a stream for a load balancer; made by [`ServiceCache::discover`].
///
/// Implements `tower::discover::Discover`, as every stream of [`Change`]s does. The key is the name of the instance's
/// node, which is its id.
///
/// # Guarantees
///
/// - An instance that is drained, removed or unreadable is removed.
/// - An instance whose contents have changed is inserted again, which replaces it. One that was registered anew with
///   the same contents is not, and keeps its connection.
/// - While the cache is stale, [`WhenStale`](crate::WhenStale) decides whether all instances are removed.
///
/// The stream ends with the cache, without removals.
///
/// Tonic's channels use another type for changes: see [the page on
/// discovery](https://github.com/curator-rs/curator-rs/blob/main/docs/discovery.md#load-balancers).
#[must_use = "nothing is yielded before the stream is polled"]
pub struct ServiceDiscover<S> {
    changes: Pin<Box<dyn Stream<Item = Item<S>> + Send>>,
}

/// The stream never fails.
type Item<S> = Result<Change<String, S>, Infallible>;

impl<P: Payload + PartialEq> ServiceCache<P> {
    /// A stream for a load balancer. `make` turns each instance into a service; an instance for which it returns
    /// `None`, for example without an address, is left out.
    ///
    /// ```no_run
    /// # async fn example(orders: curator_discovery::ServiceCache) {
    /// let mut changes = orders.discover(|instance| {
    ///     let (address, port) = (instance.address.as_ref()?, instance.port?);
    ///     Some(format!("http://{address}:{port}"))
    /// });
    /// # let _ = changes;
    /// # }
    /// ```
    pub fn discover<S, F>(&self, make: F) -> ServiceDiscover<S>
    where
        S: Send + 'static,
        F: FnMut(&FoundInstance<P>) -> Option<S> + Send + 'static,
    {
        let (events, states) = (self.cache.events(), self.state());
        let feed =
            Feed { cache: self.clone(), events, states, make, offered: BTreeMap::new(), changes: VecDeque::new() };
        ServiceDiscover { changes: Box::pin(stream::unfold(feed, Feed::next).map(Ok)) }
    }
}

impl<S> Stream for ServiceDiscover<S> {
    type Item = Item<S>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item<S>>> {
        self.changes.as_mut().poll_next(cx)
    }
}

impl<S> fmt::Debug for ServiceDiscover<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceDiscover").finish_non_exhaustive()
    }
}

struct Feed<P, S, F> {
    cache: ServiceCache<P>,
    events: CacheEvents,
    states: watch::Receiver<CacheState>,
    make: F,
    /// The instances in the balancer.
    offered: BTreeMap<String, FoundInstance<P>>,
    changes: VecDeque<Change<String, S>>,
}

impl<P, S, F> Feed<P, S, F>
where
    P: Payload + PartialEq,
    F: FnMut(&FoundInstance<P>) -> Option<S>,
{
    async fn next(mut self) -> Option<(Change<String, S>, Self)> {
        loop {
            if let Some(change) = self.changes.pop_front() {
                return Some((change, self));
            }
            // The event only wakes this: the instances are compared with those in the balancer.
            tokio::select! {
                event = self.events.next() => drop(event?),
                changed = self.states.changed() => changed.ok()?,
            }
            // Drains all events, for one comparison. `unconstrained`, because tokio's task budget would otherwise make
            // the stream seem empty.
            while let Some(event) = unconstrained(self.events.next()).now_or_never() {
                event?;
            }
            self.compare();
        }
    }

    fn compare(&mut self) {
        let instances = self.cache.instances();
        let usable = instances.iter().filter(|instance| instance.enabled);
        let usable: BTreeMap<_, _> = usable.map(|instance| (instance.path().name().to_owned(), instance)).collect();
        let (offered, changes) = (&mut self.offered, &mut self.changes);
        offered.retain(|key, _| {
            let stays = usable.contains_key(key);
            if !stays {
                changes.push_back(Change::Remove(key.clone()));
            }
            stays
        });
        for (key, instance) in usable {
            if offered.get(&key).is_some_and(|offered| **offered == **instance) {
                continue;
            }
            if let Some(service) = (self.make)(instance) {
                offered.insert(key.clone(), instance.clone());
                changes.push_back(Change::Insert(key, service));
            } else if offered.remove(&key).is_some() {
                changes.push_back(Change::Remove(key));
            }
        }
    }
}
