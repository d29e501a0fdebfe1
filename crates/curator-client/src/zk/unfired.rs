//! Delays a watch on a path on which watches of both kinds were dropped before they fired.
//!
//! The client crate uses freed memory when two events of a node find no watcher while a watch is being set on that node
//! (`docs/upstream.md`). One-shot watches can do that: one on the data or the existence of a node and one on its children, both dropped
//! while their events are on the way. So the next watch on that path waits until no such event can come any more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::path::ZPath;

/// What a one-shot watch is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The data of a node, or whether it exists.
    Data,
    Children,
}

/// The watches of one connection that were dropped before they fired.
#[derive(Default)]
pub(super) struct UnfiredWatches {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Only paths with watches on children, as there are fewer of them.
    paths: HashMap<ZPath, OnPath>,
    drops: Drops,
    /// The drops before the last probe was sent.
    probed: Drops,
}

/// How many watches were dropped.
type Drops = u64;

#[derive(Default)]
struct OnPath {
    /// Watches on children that are set or requested.
    children: usize,
    /// When a watch of each kind was last dropped; `None` if no event of it can come any more.
    dropped_data: Option<Drops>,
    dropped_children: Option<Drops>,
}

/// A watch that is requested or set. If this is dropped before the watch has [ended](Self::end), the watch counts as dropped.
pub(super) struct Unfired {
    of: Option<Arc<UnfiredWatches>>,
    path: ZPath,
    kind: Kind,
}

impl UnfiredWatches {
    /// Adds a watch that is about to be requested.
    pub(super) fn add(self: &Arc<Self>, path: &ZPath, kind: Kind) -> Unfired {
        if kind == Kind::Children {
            self.lock().paths.entry(path.clone()).or_default().children += 1;
        }
        Unfired { of: Some(Arc::clone(self)), path: path.clone(), kind }
    }

    /// Whether a watch on this path has to wait until all removals so far are [confirmed](Self::confirmed).
    pub(super) fn unconfirmed(&self, path: &ZPath) -> Option<Drops> {
        let state = self.lock();
        let on_path = state.paths.get(path)?;
        (on_path.dropped_data.is_some() && on_path.dropped_children.is_some()).then_some(state.drops)
    }

    /// No event can come any more of the watches on this path that were dropped before `drops`: two requests were sent since then,
    /// the second after the answer to the first. A watch that is dropped before it is set is removed only after the first one.
    pub(super) fn confirmed(&self, path: &ZPath, drops: Drops) {
        let mut state = self.lock();
        if let Some(on_path) = state.paths.get_mut(path)
            && on_path.confirmed(drops)
        {
            state.paths.remove(path);
        }
    }

    /// How many watches were dropped until now, before a probe is sent.
    pub(super) fn drops(&self) -> Drops {
        self.lock().drops
    }

    /// A probe was answered, before which so many watches had been dropped. With the one before it, it confirms removals.
    pub(super) fn probed(&self, drops: Drops) {
        let mut state = self.lock();
        let confirmed = std::mem::replace(&mut state.probed, drops);
        state.paths.retain(|_, on_path| !on_path.confirmed(confirmed));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OnPath {
    /// Forgets what was dropped before `drops`. Returns whether nothing is left.
    fn confirmed(&mut self, drops: Drops) -> bool {
        for dropped in [&mut self.dropped_data, &mut self.dropped_children] {
            *dropped = dropped.filter(|dropped| *dropped > drops);
        }
        self.children == 0 && self.dropped_data.is_none() && self.dropped_children.is_none()
    }
}

impl Unfired {
    /// The watch has fired, or was not set.
    pub(super) fn end(&mut self) {
        self.leave(false);
    }

    fn leave(&mut self, is_dropped: bool) {
        let Some(all) = self.of.take() else { return };
        let mut state = all.lock();
        let State { paths, drops, .. } = &mut *state;
        let Some(on_path) = paths.get_mut(&self.path) else { return };
        if is_dropped {
            *drops += 1;
        }
        let dropped = is_dropped.then_some(*drops);
        match self.kind {
            Kind::Data => on_path.dropped_data = dropped.or(on_path.dropped_data),
            Kind::Children => {
                on_path.children -= 1;
                on_path.dropped_children = dropped.or(on_path.dropped_children);
            }
        }
        if on_path.confirmed(0) {
            paths.remove(&self.path);
        }
    }
}

impl Drop for Unfired {
    fn drop(&mut self) {
        self.leave(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ZPath {
        ZPath::on_server(text).unwrap()
    }

    #[test]
    fn only_watches_of_both_kinds_that_were_dropped_on_one_path_delay_the_next() {
        let (all, a, b) = (Arc::<UnfiredWatches>::default(), path("/a"), path("/b"));
        let watches = [(&a, Kind::Children), (&a, Kind::Data), (&b, Kind::Data)];
        let [children, data, other] = watches.map(|(path, kind)| all.add(path, kind));
        drop(other);
        drop(data);
        assert_eq!(all.unconfirmed(&a), None);
        drop(children);
        assert_eq!((all.unconfirmed(&a), all.unconfirmed(&b)), (Some(2), None));
    }

    #[test]
    fn a_watch_that_has_fired_delays_none_and_leaves_nothing() {
        let (all, a) = (Arc::<UnfiredWatches>::default(), path("/a"));
        let (mut children, data) = (all.add(&a, Kind::Children), all.add(&a, Kind::Data));
        children.end();
        drop(children);
        drop(data);
        assert!(all.unconfirmed(&a).is_none() && all.lock().paths.is_empty());
    }

    #[test]
    fn what_is_dropped_after_the_first_of_two_requests_is_not_confirmed_by_them() {
        let (all, a) = (Arc::<UnfiredWatches>::default(), path("/a"));
        let both = || drop([Kind::Children, Kind::Data].map(|kind| all.add(&a, kind)));
        both();
        let before = all.unconfirmed(&a).unwrap();
        both();
        all.confirmed(&a, before);
        let after = all.unconfirmed(&a).unwrap();
        all.confirmed(&a, after);
        assert!(all.unconfirmed(&a).is_none() && all.lock().paths.is_empty());
    }

    #[test]
    fn the_second_probe_confirms_what_was_dropped_before_the_first() {
        let (all, a) = (Arc::<UnfiredWatches>::default(), path("/a"));
        drop(all.add(&a, Kind::Children));
        all.probed(all.drops());
        assert_eq!(all.lock().paths.len(), 1);
        all.probed(all.drops());
        assert!(all.lock().paths.is_empty());
    }
}
