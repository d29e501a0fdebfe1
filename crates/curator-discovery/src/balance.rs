//! Instances for the load balancers of tower and tonic.

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

/// The services that are there, for a load balancer; made by [`ServiceCache::discover`].
///
/// It implements `tower::discover::Discover`, as every stream of [`Change`]s does. The key is the name of the instance's node, which
/// is its id.
///
/// # Guarantees
///
/// - An instance that is drained, removed or unreadable is removed.
/// - One whose contents have changed is inserted again, which replaces it. One that was registered anew with the same contents is
///   not: its connection goes on.
/// - While the cache is stale, [`WhenStale`](crate::WhenStale) says whether all are removed.
///
/// It ends with the cache, and removes none then.
///
/// A tonic channel has a type of its own for changes: [the page on discovery](https://github.com/curator-rs/curator-rs/blob/main/docs/discovery.md#load-balancers)
/// shows how to feed it.
#[must_use = "nothing is yielded before the stream is polled"]
pub struct ServiceDiscover<S> {
    changes: Pin<Box<dyn Stream<Item = Item<S>> + Send>>,
}

/// It never fails.
type Item<S> = Result<Change<String, S>, Infallible>;

impl<P: Payload + PartialEq> ServiceCache<P> {
    /// The services that `make` makes of the instances, for a load balancer. `make` may return `None`, for an instance without an
    /// address, for example: it is then left out.
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
    /// What the balancer has.
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
            // What has happened is not looked at: the instances are compared with those that the balancer has.
            tokio::select! {
                event = self.events.next() => drop(event?),
                changed = self.states.changed() => changed.ok()?,
            }
            // All that are there, so that they cost one comparison. Not under the budget of tokio's task, which would pretend that there
            // are none.
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
