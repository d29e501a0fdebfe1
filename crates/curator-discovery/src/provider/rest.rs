//! Counts the errors of instances: an instance with too many errors rests, so the provider skips
//! it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use curator_recipes::client::ZPath;

use crate::found::FoundInstance;

/// One registration of an instance: a recreated node is another registration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node {
    path: ZPath,
    czxid: i64,
}

impl Node {
    pub(super) fn of<P>(instance: &FoundInstance<P>) -> Self {
        Self {
            path: instance.path.clone(),
            czxid: instance.stat.czxid,
        }
    }
}

/// The errors and the rests of instances.
#[derive(Debug)]
pub(super) struct Rests {
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
    pub(super) fn new(errors: u32, period: Duration) -> Self {
        Self {
            errors,
            period,
            noted: BTreeMap::new(),
        }
    }

    pub(super) fn note_error(&mut self, node: Node, now: Instant) {
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
    pub(super) fn is_resting<P>(&self, instance: &FoundInstance<P>) -> bool {
        // Fast path: usually there are no errors.
        !self.noted.is_empty()
            && self.errors > 0
            && self
                .noted
                .get(&Node::of(instance))
                .is_some_and(|noted| noted.errors >= self.errors)
    }

    /// Ends rests and drops errors that are older than the period. So deleted instances use no
    /// memory.
    pub(super) fn forget(&mut self, now: Instant) {
        self.noted
            .retain(|_, noted| now.saturating_duration_since(noted.since) < self.period);
    }
}

#[cfg(test)]
mod tests {
    use curator_recipes::client::Stat;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn registered(czxid: i64) -> FoundInstance {
        let mut stat = Stat::default();
        stat.czxid = czxid;
        let path = ZPath::on_server("/services/orders/a").unwrap();
        FoundInstance::read(&path, br#"{"name":"orders","id":"a"}"#, stat).unwrap()
    }

    #[test]
    fn an_instance_rests_for_the_period_after_two_errors_within_it() {
        let (mut rests, start, failing) = (Rests::default(), Instant::now(), registered(1));
        let mut is_resting_at = |second: u32, fails: bool| {
            let now = start + second * SECOND;
            rests.forget(now);
            if fails {
                rests.note_error(Node::of(&failing), now);
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
        let (mut rests, failing) = (Rests::new(0, SECOND), registered(1));
        rests.note_error(Node::of(&failing), Instant::now());
        assert!(!rests.is_resting(&failing));
    }
}
