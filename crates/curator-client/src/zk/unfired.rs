//! Keeps one-shot watches from making `zookeeper-client` use freed memory.
//!
//! The fault occurs when two events of a node find no watcher while a request that sets a watch on
//! that node is in flight (`docs/upstream.md`). One-shot watches can cause it: a watch on the data
//! or the existence of a node and a watch on its children, both dropped while their events are on
//! the way. So the next watch on that path waits until no such event can arrive any more. If a
//! watch request is already in flight when the second of the two is dropped, the connection is
//! closed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::path::ZPath;

/// What a one-shot watch observes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The data of a node, or whether it exists.
    Data,
    Children,
}

/// The watches of one connection that are requested, or were dropped before they fired.
#[derive(Default)]
pub(super) struct UnfiredWatches {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Contains only paths with watches on children, as these are fewer, or with a dropped request,
    /// whose watch may be set later.
    paths: HashMap<ZPath, OnPath>,
    drops: Drops,
    /// The number of drops before the last answered probe was sent.
    probed: Drops,
}

/// A number of dropped watches.
type Drops = u64;

#[derive(Default)]
struct OnPath {
    /// Watches on children that are set or requested.
    children: usize,
    /// Requests for watches of both kinds whose replies have not been read.
    requested: usize,
    /// The value of `drops` at the last drop of a watch of each kind, or of a request for a watch;
    /// `None` if no event of the watch, or reply to the request, can arrive any more.
    dropped_data: Option<Drops>,
    dropped_children: Option<Drops>,
    dropped_request: Option<Drops>,
}

/// A watch that is requested or set, until it has [ended](Self::end) or is
/// [released](Self::release).
pub(super) struct Unfired {
    /// `None` once the watch has ended or was released.
    all: Option<Arc<UnfiredWatches>>,
    path: ZPath,
    kind: Kind,
    /// Whether it counts in `requested` of its path.
    is_requested: bool,
    is_answered: bool,
}

impl UnfiredWatches {
    /// Adds a watch that is about to be requested. If this returns `Some`, the request must wait
    /// until all removals so far are [confirmed](Self::confirmed).
    pub(super) fn add(self: &Arc<Self>, path: &ZPath, kind: Kind) -> (Unfired, Option<Drops>) {
        let mut state = self.lock();
        if kind == Kind::Children {
            state.paths.entry(path.clone()).or_default().children += 1;
        }
        let drops = state.drops;
        let mut unconfirmed = None;
        let mut is_requested = false;
        if let Some(on_path) = state.paths.get_mut(path) {
            unconfirmed = on_path.are_both_dropped().then_some(drops);
            on_path.requested += 1;
            is_requested = true;
        }
        (
            Unfired {
                all: Some(Arc::clone(self)),
                path: path.clone(),
                kind,
                is_requested,
                is_answered: false,
            },
            unconfirmed,
        )
    }

    /// Records that events of the watches on this path that are among the first `drops` dropped
    /// watches can no longer arrive: two requests were answered since then, the second sent after
    /// the reply to the first. (A watch that is dropped before it is set is removed only after the
    /// first request.)
    pub(super) fn confirmed(&self, path: &ZPath, drops: Drops) {
        let mut state = self.lock();
        if let Some(on_path) = state.paths.get_mut(path)
            && on_path.confirmed(drops)
        {
            state.paths.remove(path);
        }
    }

    /// The number of watches dropped so far. Call this before sending a probe.
    pub(super) fn drops(&self) -> Drops {
        self.lock().drops
    }

    /// Records the reply to a probe that was sent after `drops` watches had been dropped. With the
    /// previous probe, it confirms removals.
    pub(super) fn probed(&self, drops: Drops) {
        let mut state = self.lock();
        let confirmed = std::mem::replace(&mut state.probed, drops);
        state
            .paths
            .retain(|_, on_path| !on_path.confirmed(confirmed));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OnPath {
    fn are_both_dropped(&self) -> bool {
        self.dropped_data.is_some() && self.dropped_children.is_some()
    }

    /// Whether events of dropped watches may arrive while a request for a watch is in flight.
    fn must_close(&self) -> bool {
        self.are_both_dropped() && (self.requested > 0 || self.dropped_request.is_some())
    }

    /// Forgets the first `drops` dropped watches. Returns whether nothing is left.
    fn confirmed(&mut self, drops: Drops) -> bool {
        for dropped in [
            &mut self.dropped_data,
            &mut self.dropped_children,
            &mut self.dropped_request,
        ] {
            *dropped = dropped.filter(|dropped| *dropped > drops);
        }
        self.is_empty()
    }

    fn is_empty(&self) -> bool {
        let dropped = [
            self.dropped_data,
            self.dropped_children,
            self.dropped_request,
        ];
        self.children == 0 && self.requested == 0 && dropped.iter().all(Option::is_none)
    }
}

impl Unfired {
    /// Records that the watch is set.
    pub(super) fn set(&mut self) {
        self.is_answered = true;
        if let Some(all) = &self.all
            && std::mem::take(&mut self.is_requested)
            && let Some(on_path) = all.lock().paths.get_mut(&self.path)
        {
            on_path.requested -= 1;
        }
    }

    /// Records that the watch has fired, or was not set.
    pub(super) fn end(&mut self) {
        if let Some(all) = self.all.take() {
            self.leave(&mut all.lock(), false);
        }
    }

    /// Drops `what`, which holds the watch or the reply to its request.
    ///
    /// # Errors
    ///
    /// Returns `what` if the connection must be closed, because events of dropped watches may
    /// arrive while a request is in flight.
    pub(super) fn release<T>(&mut self, what: T) -> Result<(), T> {
        let Some(all) = self.all.take() else {
            return Ok(());
        };
        let mut state = all.lock();
        if self.leave(&mut state, true) {
            return Err(what);
        }
        // Dropped under the lock, before another thread can add a request.
        drop(what);
        Ok(())
    }

    /// Removes this watch from its path. Returns whether the connection must be closed.
    fn leave(&mut self, state: &mut State, is_dropped: bool) -> bool {
        let State { paths, drops, .. } = state;
        let is_unanswered = is_dropped && !self.is_answered;
        if is_unanswered {
            paths.entry(self.path.clone()).or_default();
        }
        let Some(on_path) = paths.get_mut(&self.path) else {
            return false;
        };
        if is_dropped {
            *drops += 1;
        }
        let dropped = is_dropped.then_some(*drops);
        if std::mem::take(&mut self.is_requested) {
            on_path.requested -= 1;
        }
        if is_unanswered {
            on_path.dropped_request = dropped;
        }
        match self.kind {
            Kind::Data => on_path.dropped_data = dropped.or(on_path.dropped_data),
            Kind::Children => {
                on_path.children -= 1;
                on_path.dropped_children = dropped.or(on_path.dropped_children);
            }
        }
        let must_close = on_path.must_close();
        if on_path.is_empty() {
            paths.remove(&self.path);
        }
        must_close
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ZPath {
        ZPath::on_server(text).unwrap()
    }

    fn request(all: &Arc<UnfiredWatches>, path: &ZPath, kind: Kind) -> Unfired {
        all.add(path, kind).0
    }

    fn set(all: &Arc<UnfiredWatches>, path: &ZPath, kind: Kind) -> Unfired {
        let mut unfired = request(all, path, kind);
        unfired.set();
        unfired
    }

    /// Returns whether the connection may stay open.
    fn release(mut unfired: Unfired) -> bool {
        unfired.release(()).is_ok()
    }

    fn unconfirmed(all: &Arc<UnfiredWatches>, path: &ZPath) -> Option<Drops> {
        let (mut unfired, unconfirmed) = all.add(path, Kind::Data);
        unfired.end();
        unconfirmed
    }

    #[test]
    fn a_fired_watch_delays_no_other_watch_and_leaves_no_record() {
        let all = Arc::default();
        let a = path("/a");
        let mut children = set(&all, &a, Kind::Children);
        let data = set(&all, &a, Kind::Data);
        children.end();
        assert!(release(children) && release(data));
        assert!(unconfirmed(&all, &a).is_none() && all.lock().paths.is_empty());
    }

    #[test]
    fn a_confirmation_does_not_cover_watches_dropped_after_it_was_requested() {
        let all = Arc::default();
        let a = path("/a");
        let drop_both = || {
            assert!(
                [Kind::Children, Kind::Data]
                    .map(|kind| set(&all, &a, kind))
                    .into_iter()
                    .all(release)
            );
        };
        drop_both();
        let before = unconfirmed(&all, &a).unwrap();
        drop_both();
        all.confirmed(&a, before);
        let after = unconfirmed(&all, &a).unwrap();
        all.confirmed(&a, after);
        assert!(unconfirmed(&all, &a).is_none() && all.lock().paths.is_empty());
    }

    #[test]
    fn the_second_probe_confirms_a_watch_request_dropped_before_the_first() {
        let all = Arc::<UnfiredWatches>::default();
        let a = path("/a");
        assert!(release(request(&all, &a, Kind::Children)));
        all.probed(all.drops());
        assert_eq!(all.lock().paths.len(), 1);
        all.probed(all.drops());
        assert!(all.lock().paths.is_empty());
    }

    /// The watch of the dropped request may still be set.
    #[test]
    fn a_dropped_watch_request_counts_as_a_dropped_watch() {
        let all = Arc::default();
        let a = path("/a");
        let request = request(&all, &a, Kind::Data);
        assert!(release(request));
        let children = set(&all, &a, Kind::Children);
        assert!(!release(children));
        assert!(unconfirmed(&all, &a).is_some());
    }

    #[test]
    fn a_connection_continues_after_the_reply_to_the_watch_request() {
        let all = Arc::default();
        let a = path("/a");
        let [children, data] = [Kind::Children, Kind::Data].map(|kind| set(&all, &a, kind));
        let mut answered = request(&all, &a, Kind::Data);
        let dropped = request(&all, &a, Kind::Data);
        assert!(release(dropped));
        answered.set();
        for _ in 0..2 {
            all.probed(all.drops());
        }
        assert!(release(data) && release(children));
    }
}
