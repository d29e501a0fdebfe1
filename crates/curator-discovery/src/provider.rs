//! Selects an instance for each request, and skips instances with too many errors.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use curator_recipes::client::{ZPath, source};

use crate::cache::ServiceCache;
use crate::debug::debug_line;
use crate::found::FoundInstance;
use crate::payload::{Payload, RawJson};

/// The strategy of a [`ServiceProvider`].
///
/// Curator's `ProviderStrategy`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProviderStrategy {
    /// Each instance in turn.
    #[default]
    RoundRobin,
    /// A random instance.
    Random,
    /// The same instance while the provider offers it; then another at random.
    Sticky,
}

/// Selects an instance of a service for each request.
///
/// Curator's `ServiceProvider`. It skips instances that are not [in
/// service](FoundInstance::is_in_service), and instances that *rest* after too many errors: see
/// [`rest_after`](Self::rest_after).
///
/// ```no_run
/// # async fn send(_: &curator_discovery::FoundInstance) -> Result<(), std::io::Error> { Ok(()) }
/// # async fn example(orders: curator_discovery::ServiceCache) -> Result<(), curator_discovery::DiscoveryError> {
/// use curator_discovery::{ProviderStrategy, ServiceProvider};
///
/// let provider = ServiceProvider::new(&orders, ProviderStrategy::RoundRobin);
/// orders.ready().await?;
/// if let Some(instance) = provider.instance() {
///     if send(&instance).await.is_err() {
///         provider.note_error(&instance);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct ServiceProvider<P = RawJson> {
    cache: ServiceCache<P>,
    strategy: ProviderStrategy,
    /// The counter of round robin.
    next: AtomicUsize,
    /// The current instance of the sticky strategy.
    sticky: Mutex<Option<ZPath>>,
    rests: Mutex<Rests>,
}

debug_line!(ServiceProvider<P>, |provider| cache: provider.cache, strategy: provider.strategy);

impl<P: Payload> ServiceProvider<P> {
    /// Makes a provider that selects from the instances that `cache` has at each call.
    #[must_use]
    pub fn new(cache: &ServiceCache<P>, strategy: ProviderStrategy) -> Self {
        let cache = cache.clone();
        Self {
            cache,
            strategy,
            next: AtomicUsize::new(0),
            sticky: Mutex::default(),
            rests: Mutex::default(),
        }
    }

    /// After this many [errors](Self::note_error) within `period`, an instance rests for `period`:
    /// the provider skips it. Its errors are forgotten when the rest ends or, if there are too few
    /// for a rest, a `period` after the first error. Defaults to 2 errors and 30 s, like Curator's
    /// `DownInstancePolicy`. If `errors` is 0, no instance ever rests.
    #[must_use]
    pub fn rest_after(self, errors: u32, period: Duration) -> Self {
        Self {
            rests: Mutex::new(Rests::new(errors, period)),
            ..self
        }
    }

    /// An instance for the next request; `None` if no instance is in service, or all of these rest.
    /// Sends no request to the servers.
    #[must_use]
    pub fn instance(&self) -> Option<FoundInstance<P>> {
        let offered = self.instances();
        // `max`, because an empty range would panic.
        let any = || {
            Some(
                offered
                    .get(fastrand::usize(..offered.len().max(1)))?
                    .clone(),
            )
        };
        match self.strategy {
            ProviderStrategy::RoundRobin => {
                Some(offered.get(next_index(&self.next, offered.len())?)?.clone())
            }
            ProviderStrategy::Random => any(),
            ProviderStrategy::Sticky => {
                let mut sticky = self.sticky.lock().unwrap_or_else(PoisonError::into_inner);
                let kept = offered
                    .iter()
                    .find(|instance| sticky.as_ref() == Some(&instance.path));
                let chosen = kept.cloned().or_else(any);
                *sticky = chosen.as_ref().map(|chosen| chosen.path.clone());
                chosen
            }
        }
    }

    /// All instances offered now, ordered by node name.
    #[must_use]
    pub fn instances(&self) -> Vec<FoundInstance<P>> {
        let instances = self.cache.instances();
        let mut rests = self.rests.lock().unwrap_or_else(PoisonError::into_inner);
        rests.forget(source::now());
        instances
            .iter()
            .filter(|instance| instance.is_in_service() && !rests.is_resting(instance))
            .cloned()
            .collect()
    }

    /// Notes that a request to this instance has failed. The error counts for this registration:
    /// when the instance is registered again, the count starts at 0.
    pub fn note_error(&self, instance: &FoundInstance<P>) {
        self.rests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .note_error(Node::from_instance(instance), source::now());
    }
}

/// The next index of round robin, below `count`; `None` if `count` is 0.
fn next_index(next: &AtomicUsize, count: usize) -> Option<usize> {
    // The counter wraps around.
    next.fetch_add(1, Ordering::Relaxed).checked_rem(count)
}

/// One registration of an instance: a recreated node is another registration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    path: ZPath,
    czxid: i64,
}

impl Node {
    fn from_instance<P>(instance: &FoundInstance<P>) -> Self {
        Self {
            path: instance.path.clone(),
            czxid: instance.stat.czxid,
        }
    }
}

/// The errors and the rests of instances.
#[derive(Debug)]
struct Rests {
    /// The number of errors after which an instance rests.
    errors: u32,
    period: Duration,
    noted: BTreeMap<Node, Noted>,
}

#[derive(Debug, Clone, Copy)]
struct Noted {
    errors: u32,
    /// When the first error occurred, or the error that began the rest.
    since: Instant,
}

impl Default for Rests {
    fn default() -> Self {
        Self::new(2, Duration::from_secs(30))
    }
}

impl Rests {
    fn new(errors: u32, period: Duration) -> Self {
        Self {
            errors,
            period,
            noted: BTreeMap::new(),
        }
    }

    fn note_error(&mut self, node: Node, now: Instant) {
        self.forget(now);
        let noted = self.noted.entry(node).or_insert(Noted {
            errors: 0,
            since: now,
        });
        noted.errors = noted.errors.saturating_add(1);
        if noted.errors == self.errors {
            noted.since = now;
        }
    }

    /// Whether the instance rests, as of the last call of `forget`.
    fn is_resting<P>(&self, instance: &FoundInstance<P>) -> bool {
        // Fast path: usually there are no errors.
        !self.noted.is_empty()
            && self.errors > 0
            && self
                .noted
                .get(&Node::from_instance(instance))
                .is_some_and(|noted| noted.errors >= self.errors)
    }

    /// Ends rests and drops errors that are older than the period. This also frees the memory of
    /// deleted instances.
    fn forget(&mut self, now: Instant) {
        self.noted
            .retain(|_, noted| now.saturating_duration_since(noted.since) < self.period);
    }
}

#[cfg(test)]
mod tests {
    use curator_recipes::client::Stat;

    use super::*;

    #[test]
    fn round_robin_continues_after_its_counter_overflows() {
        let next = AtomicUsize::new(usize::MAX - 1);
        let turns: Vec<_> = (0..5).map(|_| next_index(&next, 3)).collect();
        assert_eq!(turns, [2, 0, 0, 1, 2].map(Some));
        assert_eq!(next_index(&next, 0), None);
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn registered(czxid: i64) -> FoundInstance {
        let mut stat = Stat::default();
        stat.czxid = czxid;
        let path = ZPath::on_server("/services/orders/a").unwrap();
        FoundInstance::read(&path, br#"{"name":"orders","id":"a"}"#, stat).unwrap()
    }

    #[test]
    fn an_instance_rests_for_the_period_after_two_errors_within_it() {
        let mut rests = Rests::default();
        let start = Instant::now();
        let failing = registered(1);
        let mut is_resting_at = |second: u32, fails: bool| {
            let now = start + second * SECOND;
            rests.forget(now);
            if fails {
                rests.note_error(Node::from_instance(&failing), now);
            }
            (
                rests.is_resting(&failing),
                rests.is_resting(&registered(2)),
                rests.noted.len(),
            )
        };
        assert_eq!(is_resting_at(0, true), (false, false, 1));
        // The first error is forgotten.
        assert_eq!(is_resting_at(30, true), (false, false, 1));
        assert_eq!(is_resting_at(59, true), (true, false, 1));
        // A late error does not extend the rest.
        assert_eq!(is_resting_at(70, true), (true, false, 1));
        assert_eq!(is_resting_at(88, false), (true, false, 1));
        assert_eq!(is_resting_at(89, false), (false, false, 0));
    }

    #[test]
    fn with_an_error_limit_of_zero_no_instance_rests() {
        let mut rests = Rests::new(0, SECOND);
        let failing = registered(1);
        rests.note_error(Node::from_instance(&failing), Instant::now());
        assert!(!rests.is_resting(&failing));
    }
}
