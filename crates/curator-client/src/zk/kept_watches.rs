//! Keeps dropped watches for a server without `removeWatches`.
//!
//! `zookeeper-client` sends `removeWatches` when the last watcher of a kind on a path is dropped. A
//! server without this operation may end the session then. So a watcher that is dropped before it has
//! fired is kept until it fires or the connection ends: one of each kind for each path, because the
//! server also has one.

use std::collections::HashMap;

use futures_util::future::BoxFuture;
use zookeeper_client::WatchedEvent;

use super::unfired::Kind;
use crate::path::ZPath;

/// The event of a watch that was dropped.
pub(super) type Event = BoxFuture<'static, WatchedEvent>;

/// The dropped watches of one connection that may not have fired.
#[derive(Default)]
pub(super) struct KeptWatches {
    watches: HashMap<(ZPath, Kind), Event>,
    /// The number of watches at which those that have fired are dropped.
    sweep_at: usize,
}

/// The smallest number of watches at which those that have fired are dropped.
const FIRST_SWEEP: usize = 64;

impl KeptWatches {
    /// Keeps a watch. Returns watches that the caller must drop, after it has released its locks:
    /// another watcher of the same kind on the path is kept, or they have fired, so that
    /// `zookeeper-client` sends nothing when they are dropped. `has_fired` polls a watch.
    #[must_use]
    pub(super) fn keep(
        &mut self,
        path: &ZPath,
        kind: Kind,
        event: Event,
        mut has_fired: impl FnMut(&mut Event) -> bool,
    ) -> Vec<Event> {
        let mut unneeded: Vec<_> = self
            .watches
            .insert((path.clone(), kind), event)
            .into_iter()
            .collect();
        if self.watches.len() >= self.sweep_at.max(FIRST_SWEEP) {
            unneeded.extend(
                self.watches
                    .extract_if(|_, event| has_fired(event))
                    .map(|(_, event)| event),
            );
            // Half of the next sweep's watches are new, so that a sweep costs each of them little.
            self.sweep_at = self.watches.len() * 2;
        }
        unneeded
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn one_watch_of_each_kind_is_kept_for_a_path_and_fired_ones_are_dropped() {
        let mut kept = KeptWatches::default();
        let mut keep = |name: usize, has_fired: bool| {
            let path = ZPath::on_server(&format!("/{name}")).unwrap();
            kept.keep(&path, Kind::Data, std::future::pending().boxed(), |_| {
                has_fired
            })
            .len()
        };
        assert_eq!((keep(0, true), keep(0, true)), (0, 1));
        assert!((1..FIRST_SWEEP - 1).all(|name| keep(name, true) == 0));
        // No watch has fired, so the next sweep comes at twice the number.
        assert_eq!(keep(FIRST_SWEEP - 1, false), 0);
        assert!((FIRST_SWEEP..2 * FIRST_SWEEP - 1).all(|name| keep(name, true) == 0));
        assert_eq!(keep(2 * FIRST_SWEEP - 1, true), 2 * FIRST_SWEEP);
    }
}
