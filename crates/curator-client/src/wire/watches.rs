//! The watches of one connection, and which of them an event fires. No I/O.
//!
//! The server keeps one watch for each path and kind, however often it is requested. A watch is
//! added when the reply to its request arrives: events arrive in order with the replies, so an
//! earlier event is not meant for it.

use std::collections::BTreeMap;

use tokio::sync::{mpsc, oneshot};

use super::reply::Event;
use super::request::WatchKind;
use crate::path::ZPath;
use crate::transport::{TreeEvent, WatchEvent};

/// The watches of one connection.
#[derive(Debug, Default)]
pub(super) struct Watches {
    last_id: u64,
    data: BTreeMap<ZPath, Watched<oneshot::Sender<WatchEvent>>>,
    children: BTreeMap<ZPath, Watched<oneshot::Sender<WatchEvent>>>,
    recursive: BTreeMap<ZPath, Watched<mpsc::UnboundedSender<TreeEvent>>>,
}

/// The watches of one kind on one path.
#[derive(Debug)]
struct Watched<S> {
    /// Requests whose replies have not arrived.
    requested: usize,
    watchers: Vec<(u64, S)>,
    /// Whether the server still has a watch, which it must remove when no watcher is left here.
    is_set: bool,
}

impl<S> Default for Watched<S> {
    fn default() -> Self {
        Self {
            requested: 0,
            watchers: Vec::new(),
            is_set: false,
        }
    }
}

impl<S> Watched<S> {
    fn answered(&mut self, watcher: Option<(u64, S)>) {
        self.requested = self.requested.saturating_sub(1);
        self.is_set |= watcher.is_some();
        self.watchers.extend(watcher);
    }

    fn is_unused(&self) -> bool {
        self.requested == 0 && self.watchers.is_empty()
    }
}

/// An event, and the watcher that it must be sent to.
pub(super) enum Fired {
    OneShot(oneshot::Sender<WatchEvent>, WatchEvent),
    Recursive(mpsc::UnboundedSender<TreeEvent>, TreeEvent),
}

impl Fired {
    /// Does nothing if the watch is being dropped.
    pub(super) fn send(self) {
        match self {
            Self::OneShot(watcher, event) => drop(watcher.send(event).is_ok()),
            Self::Recursive(watcher, event) => drop(watcher.send(event)),
        }
    }
}

/// The kind of a one-shot watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OneShotKind {
    Data,
    Children,
}

impl OneShotKind {
    pub(super) fn on_wire(self) -> WatchKind {
        match self {
            Self::Data => WatchKind::Data,
            Self::Children => WatchKind::Children,
        }
    }

    /// The path on which `event` fires watches of this kind, if it fires any.
    pub(super) fn fired_by(self, event: &Event) -> Option<&ZPath> {
        match (event, self) {
            (Event::Deleted(path), _)
            | (Event::Created(path) | Event::DataChanged(path), Self::Data)
            | (Event::ChildrenChanged(path), Self::Children) => Some(path),
            _ => None,
        }
    }
}

impl Watches {
    /// The number of watches that have not fired.
    pub(super) fn len(&self) -> usize {
        let one_shot: usize = self
            .data
            .values()
            .chain(self.children.values())
            .map(|watched| watched.watchers.len())
            .sum();
        let recursive: usize = self
            .recursive
            .values()
            .map(|watched| watched.watchers.len())
            .sum();
        one_shot + recursive
    }

    /// Records that a request for a watch is being sent.
    pub(super) fn requested(&mut self, path: &ZPath, kind: OneShotKind) {
        self.table(kind).entry(path.clone()).or_default().requested += 1;
    }

    /// Records that the reply to a request has arrived. If the watch `is_set`, returns its id and
    /// its event.
    pub(super) fn answered(
        &mut self,
        path: &ZPath,
        kind: OneShotKind,
        is_set: bool,
    ) -> Option<(u64, oneshot::Receiver<WatchEvent>)> {
        let (sender, event) = oneshot::channel();
        let id = self.next_id();
        self.table(kind)
            .entry(path.clone())
            .or_default()
            .answered(is_set.then_some((id, sender)));
        is_set.then_some((id, event))
    }

    /// Records that the watch `id` is dropped, or, if `id` is `None`, that a reply has set no watch.
    /// Returns whether the server must remove its watch.
    pub(super) fn dropped(&mut self, path: &ZPath, kind: OneShotKind, id: Option<u64>) -> bool {
        dropped(self.table(kind), path, id)
    }

    /// Records that a request for a recursive watch is being sent.
    pub(super) fn recursive_requested(&mut self, path: &ZPath) {
        self.recursive.entry(path.clone()).or_default().requested += 1;
    }

    /// See [`answered`](Self::answered).
    pub(super) fn recursive_answered(
        &mut self,
        path: &ZPath,
        is_set: bool,
    ) -> Option<(u64, mpsc::UnboundedReceiver<TreeEvent>)> {
        let (sender, events) = mpsc::unbounded_channel();
        let id = self.next_id();
        self.recursive
            .entry(path.clone())
            .or_default()
            .answered(is_set.then_some((id, sender)));
        is_set.then_some((id, events))
    }

    /// See [`dropped`](Self::dropped).
    pub(super) fn recursive_dropped(&mut self, path: &ZPath, id: Option<u64>) -> bool {
        dropped(&mut self.recursive, path, id)
    }

    /// Fires the watches that report `event`. Returns what the caller must send to their watchers
    /// after it has released its lock: sending may run a watcher inline.
    #[must_use]
    pub(super) fn fire(&mut self, event: &Event) -> Vec<Fired> {
        let mut fired = Vec::new();
        let (path, one_shot, tree_event): (_, _, fn(ZPath) -> TreeEvent) = match event {
            Event::Created(path) => (path, WatchEvent::Created, TreeEvent::Created),
            Event::Deleted(path) => (path, WatchEvent::Deleted, TreeEvent::Deleted),
            Event::DataChanged(path) => (path, WatchEvent::DataChanged, TreeEvent::DataChanged),
            Event::ChildrenChanged(path) => {
                fire(
                    &mut self.children,
                    path,
                    WatchEvent::ChildrenChanged,
                    &mut fired,
                );
                return fired;
            }
            Event::Session(_) => return fired,
        };
        fire(&mut self.data, path, one_shot, &mut fired);
        if one_shot == WatchEvent::Deleted {
            fire(&mut self.children, path, one_shot, &mut fired);
        }
        for (_, events) in
            covering(self.recursive.iter(), path).flat_map(|watched| &watched.watchers)
        {
            fired.push(Fired::Recursive(events.clone(), tree_event(path.clone())));
        }
        fired
    }

    fn table(
        &mut self,
        kind: OneShotKind,
    ) -> &mut BTreeMap<ZPath, Watched<oneshot::Sender<WatchEvent>>> {
        match kind {
            OneShotKind::Data => &mut self.data,
            OneShotKind::Children => &mut self.children,
        }
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }
}

fn dropped<S>(table: &mut BTreeMap<ZPath, Watched<S>>, path: &ZPath, id: Option<u64>) -> bool {
    let Some(watched) = table.get_mut(path) else {
        return false;
    };
    watched.watchers.retain(|(watcher, _)| Some(*watcher) != id);
    if !watched.is_unused() {
        return false;
    }
    table.remove(path).is_some_and(|watched| watched.is_set)
}

/// Fires the one-shot watches of `table` on `path`. The server has already removed its watch.
fn fire(
    table: &mut BTreeMap<ZPath, Watched<oneshot::Sender<WatchEvent>>>,
    path: &ZPath,
    event: WatchEvent,
    fired: &mut Vec<Fired>,
) {
    let Some(watched) = table.get_mut(path) else {
        return;
    };
    watched.is_set = false;
    fired.extend(
        watched
            .watchers
            .drain(..)
            .map(|(_, watcher)| Fired::OneShot(watcher, event)),
    );
    if watched.is_unused() {
        table.remove(path);
    }
}

/// The recursive watches that report an event at `path`, the deepest first. Each watch is compared
/// once with the path, and nothing is copied: there are few watches, but a faulty server can send a
/// path of a million parts.
fn covering<'a, S: 'a>(
    watches: impl DoubleEndedIterator<Item = (&'a ZPath, &'a Watched<S>)>,
    path: &ZPath,
) -> impl Iterator<Item = &'a Watched<S>> {
    // The table is sorted, so a path follows its ancestors.
    watches
        .rev()
        .filter(|(watched, _)| path.is_at_or_below(watched))
        .map(|(_, watched)| watched)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn path(text: &str) -> ZPath {
        ZPath::on_server(text).unwrap()
    }

    fn set(
        watches: &mut Watches,
        path: &ZPath,
        kind: OneShotKind,
    ) -> (u64, oneshot::Receiver<WatchEvent>) {
        watches.requested(path, kind);
        watches.answered(path, kind, true).unwrap()
    }

    #[test]
    fn a_delete_fires_the_watches_of_both_kinds_once_and_leaves_nothing() {
        let mut watches = Watches::default();
        let a = path("/a");
        let (_, mut data) = set(&mut watches, &a, OneShotKind::Data);
        let (_, mut again) = set(&mut watches, &a, OneShotKind::Data);
        let (_, mut children) = set(&mut watches, &a, OneShotKind::Children);
        assert_eq!(watches.len(), 3);
        assert!(watches.fire(&Event::ChildrenChanged(path("/b"))).is_empty());
        watches
            .fire(&Event::Deleted(a))
            .into_iter()
            .for_each(Fired::send);
        for event in [&mut data, &mut again, &mut children] {
            assert_eq!(event.try_recv(), Ok(WatchEvent::Deleted));
        }
        assert!(watches.len() == 0 && watches.data.is_empty() && watches.children.is_empty());
    }

    #[test]
    fn the_server_removes_a_watch_only_when_the_last_watcher_is_dropped_and_none_is_requested() {
        let mut watches = Watches::default();
        let a = path("/a");
        let (first, _event) = set(&mut watches, &a, OneShotKind::Data);
        let (second, _event) = set(&mut watches, &a, OneShotKind::Data);
        assert!(!watches.dropped(&a, OneShotKind::Data, Some(first)));
        watches.requested(&a, OneShotKind::Data);
        assert!(!watches.dropped(&a, OneShotKind::Data, Some(second)));
        // The node was deleted: this request sets no watch, but an earlier watch may still be set.
        assert_eq!(
            watches.answered(&a, OneShotKind::Data, false).map(drop),
            None
        );
        assert!(watches.dropped(&a, OneShotKind::Data, None));
        assert!(watches.data.is_empty());
    }

    fn watch_recursively(
        watches: &mut Watches,
        path: &ZPath,
    ) -> mpsc::UnboundedReceiver<TreeEvent> {
        watches.recursive_requested(path);
        watches.recursive_answered(path, true).unwrap().1
    }

    #[test]
    fn an_event_fires_the_recursive_watches_of_its_node_and_its_ancestors_the_deepest_first() {
        let mut watches = Watches::default();
        let watched = [
            "/", "/a", "/a-", "/a/b", "/a/b/c", "/a/b/c/d", "/a/b0", "/b",
        ]
        .map(path);
        let mut events = watched
            .each_ref()
            .map(|path| watch_recursively(&mut watches, path));
        let mut receivers = Vec::new();
        for fired in watches.fire(&Event::Created(path("/a/b/c"))) {
            fired.send();
            receivers.extend(
                events
                    .iter_mut()
                    .zip(&watched)
                    .find_map(|(events, path)| events.try_recv().ok().map(|_| path)),
            );
        }
        assert_eq!(
            receivers,
            ["/a/b/c", "/a/b", "/a", "/"]
                .map(path)
                .iter()
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn each_recursive_watch_is_compared_once_with_an_event() {
        let mut watches = Watches::default();
        let deep = path(&"/a".repeat(10_000));
        let watched = ["/", "/a/a", "/a/b"].map(path);
        let _events = watched
            .each_ref()
            .map(|path| watch_recursively(&mut watches, path));
        let compared = Cell::new(0);
        let counted = watches
            .recursive
            .iter()
            .inspect(|_| compared.set(compared.get() + 1));
        assert_eq!((covering(counted, &deep).count(), compared.get()), (2, 3));
    }

    /// If each ancestor were copied, these events would take minutes.
    #[tokio::test]
    async fn an_event_of_two_million_ancestors_does_not_occupy_the_thread() {
        let (fired_tx, fired_rx) = oneshot::channel();
        // On a separate thread, so that the test fails, and does not hang, if the thread is stuck.
        std::thread::spawn(move || {
            let mut watches = Watches::default();
            let deep = path(&"/a".repeat(2_000_000));
            let without_watches = watches.fire(&Event::Created(deep.clone())).len();
            let _events = watch_recursively(&mut watches, &path("/a"));
            fired_tx
                .send([without_watches, watches.fire(&Event::Created(deep)).len()])
                .unwrap();
        });
        assert_eq!(curator_test::soon(fired_rx).await, Ok([0, 1]));
    }
}
