//! Which instances rest after errors.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use curator_recipes::client::ZPath;

use crate::found::FoundInstance;

/// A node, and not another one of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Node {
    path: ZPath,
    czxid: i64,
}

impl Node {
    pub(super) fn of<P>(instance: &FoundInstance<P>) -> Self {
        Self { path: instance.path().clone(), czxid: instance.stat().czxid }
    }

    pub(super) fn is<P>(&self, instance: &FoundInstance<P>) -> bool {
        self.czxid == instance.stat().czxid && self.path == *instance.path()
    }
}

/// The errors of instances.
#[derive(Debug)]
pub(super) struct Rests {
    errors: u32,
    period: Duration,
    noted: HashMap<Node, Noted>,
}

#[derive(Debug, Clone, Copy)]
struct Noted {
    errors: u32,
    /// Of the first error, or of that with which the rest has begun.
    since: Instant,
}

impl Default for Rests {
    fn default() -> Self {
        Self::new(2, Duration::from_secs(30))
    }
}

impl Rests {
    pub(super) fn new(errors: u32, period: Duration) -> Self {
        Self { errors, period, noted: HashMap::new() }
    }

    pub(super) fn note_error(&mut self, node: Node, now: Instant) {
        self.forget(now);
        let noted = self.noted.entry(node).or_insert(Noted { errors: 0, since: now });
        noted.errors = noted.errors.saturating_add(1);
        if noted.errors == self.errors {
            noted.since = now;
        }
    }

    /// As of the last call of `forget`.
    pub(super) fn is_resting<P>(&self, instance: &FoundInstance<P>) -> bool {
        // Most of the time, there are no errors.
        !self.noted.is_empty()
            && self.errors > 0
            && self.noted.get(&Node::of(instance)).is_some_and(|noted| noted.errors >= self.errors)
    }

    /// Ends rests whose time is up. So the errors of instances that are gone take no memory.
    pub(super) fn forget(&mut self, now: Instant) {
        self.noted.retain(|_, noted| now.saturating_duration_since(noted.since) < self.period);
    }
}
