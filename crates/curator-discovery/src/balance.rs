//! Feeds instances to the load balancers of tower and tonic.

use std::collections::BTreeMap;
use std::convert::Infallible;

use curator_recipes::{CacheState, Changes, Latest, Snapshot};
use futures_util::{StreamExt as _, stream};
pub use tower::discover::Change;

use crate::cache::ServiceCache;
use crate::found::{FoundInstance, Instances};
use crate::payload::Payload;

/// A service's instances as a stream for a load balancer; made by [`ServiceCache::discover`].
///
/// Implements `tower::discover::Discover`, as every stream of [`Change`]s does. The key is the name
/// of the instance's node, which is its id.
///
/// # Guarantees
///
/// - An instance is removed when it is no longer [in service](FoundInstance::is_in_service), when
///   its node is deleted, and when it cannot be read any more.
/// - An instance whose contents have changed is inserted again, which replaces it. An instance that
///   was registered again with the same contents is not inserted again, and keeps its connection.
/// - While the cache is stale, and when it ends, [`WhenStale`](crate::WhenStale) decides whether
///   all instances are removed.
///
/// The stream ends when the cache ends.
///
/// Tonic's channels use another type for changes: see
/// `docs/discovery.md` in the repository.
pub type ServiceDiscover<S> = Changes<Result<Change<String, S>, Infallible>>;

impl<P: Payload + PartialEq> ServiceCache<P> {
    /// A stream for a load balancer. `make` turns each instance into a service; if it returns
    /// `None`, for example for an instance without an address, the instance is left out.
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
    pub fn discover<S, F>(&self, mut make: F) -> ServiceDiscover<S>
    where
        S: Send + 'static,
        F: FnMut(&FoundInstance<P>) -> Option<S> + Send + 'static,
    {
        let cache = self.clone();
        let mut offered = BTreeMap::new();
        let mut snapshots = self.cache.snapshots();
        snapshots.mark_changed();
        let keeps_stale = self.keeps_stale();
        Changes::new(
            stream::unfold(
                Some(snapshots),
                move |snapshots: Option<Latest<Snapshot>>| async move {
                    let mut snapshots = snapshots?;
                    snapshots.changed().await.ok()?;
                    let has_ended = matches!(snapshots.get_and_update().state(), CacheState::Ended);
                    // A cache that keeps its last instances does not change them when it ends.
                    if has_ended && keeps_stale {
                        None
                    } else {
                        let next = if has_ended { None } else { Some(snapshots) };
                        Some(((), next))
                    }
                },
            )
            .flat_map(move |()| stream::iter(compare(&mut offered, &cache.instances(), &mut make)))
            .map(Ok),
        )
    }
}

/// Replaces `offered`, the instances in the balancer, by the usable ones, and returns the changes.
fn compare<P: Payload + PartialEq, S>(
    offered: &mut BTreeMap<String, FoundInstance<P>>,
    instances: &Instances<P>,
    make: &mut impl FnMut(&FoundInstance<P>) -> Option<S>,
) -> Vec<Change<String, S>> {
    let mut changes = Vec::new();
    let usable: BTreeMap<_, _> = instances
        .iter()
        .filter(|instance| instance.is_in_service())
        .map(|instance| (instance.path.name().to_owned(), instance))
        .collect();
    offered.retain(|key, _| {
        let stays = usable.contains_key(key);
        if !stays {
            changes.push(Change::Remove(key.clone()));
        }
        stays
    });
    for (key, instance) in usable {
        if offered
            .get(&key)
            .is_some_and(|offered| **offered == **instance)
        {
            continue;
        }
        if let Some(service) = make(instance) {
            offered.insert(key.clone(), instance.clone());
            changes.push(Change::Insert(key, service));
        } else if offered.remove(&key).is_some() {
            changes.push(Change::Remove(key));
        }
    }
    changes
}
