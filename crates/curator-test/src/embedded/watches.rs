//! Who is notified of which change.

use std::collections::{BTreeMap, BTreeSet};

use super::{codec::EventKind, connection::ConnectionId, tree::path};

/// How long a watch lasts and how far it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// For one event.
    Standard,
    /// Until it is removed.
    Persistent,
    /// Until it is removed, also for all nodes below.
    PersistentRecursive,
}

/// What `checkWatches` and `removeWatches` are about, as in ZooKeeper's `Watcher.WatcherType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatcherKind {
    Children,
    Data,
    Any,
    Persistent,
    PersistentRecursive,
}

/// All watches of a server. They belong to connections, and end with them.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    /// On nodes: their existence and their data.
    pub(crate) data: Table,
    pub(crate) children: Table,
}

/// Watches of one sort, indexed both ways.
#[derive(Debug, Default)]
pub(crate) struct Table {
    by_path: BTreeMap<String, BTreeMap<ConnectionId, BTreeSet<Mode>>>,
    by_connection: BTreeMap<ConnectionId, BTreeSet<String>>,
}

impl WatcherKind {
    pub(crate) fn of_number(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Children),
            2 => Some(Self::Data),
            3 => Some(Self::Any),
            4 => Some(Self::Persistent),
            5 => Some(Self::PersistentRecursive),
            _ => None,
        }
    }
}

impl Watches {
    /// What `addWatch` does.
    pub(crate) fn add(&mut self, path: &str, connection: ConnectionId, mode: Mode) {
        self.data.add(path, connection, mode);
        if mode != Mode::PersistentRecursive {
            self.children.add(path, connection, mode);
        }
    }

    /// Whether there is such a watch.
    pub(crate) fn contains(&self, path: &str, connection: ConnectionId, kind: WatcherKind) -> bool {
        match kind {
            WatcherKind::Children => self.children.has(path, connection, Some(Mode::Standard)),
            WatcherKind::Data => self.data.has(path, connection, Some(Mode::Standard)),
            WatcherKind::Persistent => self.data.has(path, connection, Some(Mode::Persistent)),
            WatcherKind::PersistentRecursive => self.data.has(path, connection, Some(Mode::PersistentRecursive)),
            WatcherKind::Any => self.children.has(path, connection, None) || self.data.has(path, connection, None),
        }
    }

    /// Returns whether there was such a watch.
    pub(crate) fn remove(&mut self, path: &str, connection: ConnectionId, kind: WatcherKind) -> bool {
        match kind {
            WatcherKind::Children => self.children.remove(path, connection, Some(Mode::Standard)),
            WatcherKind::Data => self.data.remove(path, connection, Some(Mode::Standard)),
            WatcherKind::PersistentRecursive => self.data.remove(path, connection, Some(Mode::PersistentRecursive)),
            WatcherKind::Persistent | WatcherKind::Any => {
                let mode = (kind == WatcherKind::Persistent).then_some(Mode::Persistent);
                let children = self.children.remove(path, connection, mode);
                self.data.remove(path, connection, mode) || children
            }
        }
    }

    /// Removes the watches of a connection.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.data.forget(connection);
        self.children.forget(connection);
    }

    /// The connections to notify of an event, each once. Their one-shot watches are used up.
    pub(crate) fn trigger(&mut self, kind: EventKind, path: &str) -> BTreeSet<ConnectionId> {
        match kind {
            EventKind::NodeCreated | EventKind::NodeDataChanged => self.data.trigger(path),
            EventKind::NodeChildrenChanged => self.children.trigger(path),
            EventKind::NodeDeleted => {
                let mut told = self.data.trigger(path);
                told.append(&mut self.children.trigger(path));
                told
            }
        }
    }

    /// How many watches there are.
    pub(crate) fn count(&self) -> usize {
        self.data.count() + self.children.count()
    }
}

impl Table {
    pub(crate) fn add(&mut self, path: &str, connection: ConnectionId, mode: Mode) {
        self.by_path.entry(path.to_owned()).or_default().entry(connection).or_default().insert(mode);
        self.by_connection.entry(connection).or_default().insert(path.to_owned());
    }

    /// The connections of these watches by path, in order.
    pub(crate) fn by_path(&self) -> impl Iterator<Item = (&str, Vec<ConnectionId>)> {
        self.by_path.iter().map(|(path, watchers)| (path.as_str(), watchers.keys().copied().collect()))
    }

    pub(crate) fn connections(&self) -> usize {
        self.by_connection.len()
    }

    pub(crate) fn paths(&self) -> usize {
        self.by_path.len()
    }

    pub(crate) fn count(&self) -> usize {
        self.by_path.values().map(BTreeMap::len).sum()
    }

    /// Without a mode: any.
    fn has(&self, path: &str, connection: ConnectionId, mode: Option<Mode>) -> bool {
        let modes = self.by_path.get(path).and_then(|watchers| watchers.get(&connection));
        modes.is_some_and(|modes| mode.is_none_or(|mode| modes.contains(&mode)))
    }

    /// Without a mode: all.
    fn remove(&mut self, path: &str, connection: ConnectionId, mode: Option<Mode>) -> bool {
        let Some(modes) = self.by_path.get_mut(path).and_then(|watchers| watchers.get_mut(&connection)) else {
            return false;
        };
        let removed = match mode {
            Some(mode) => modes.remove(&mode),
            None => !std::mem::take(modes).is_empty(),
        };
        if modes.is_empty() {
            self.drop_entry(path, connection);
        }
        removed
    }

    fn forget(&mut self, connection: ConnectionId) {
        for path in self.by_connection.get(&connection).cloned().unwrap_or_default() {
            self.drop_entry(&path, connection);
        }
    }

    fn trigger(&mut self, path: &str) -> BTreeSet<ConnectionId> {
        let at = self.by_path.get(path).map(|watchers| watchers.keys().copied().collect::<BTreeSet<_>>());
        let mut told = at.unwrap_or_default();
        for connection in told.clone() {
            self.remove(path, connection, Some(Mode::Standard));
        }
        for ancestor in path::ancestors(path) {
            let above = self.by_path.get(ancestor).into_iter().flatten();
            told.extend(above.filter(|(_, modes)| modes.contains(&Mode::PersistentRecursive)).map(|(id, _)| *id));
        }
        told
    }

    fn drop_entry(&mut self, path: &str, connection: ConnectionId) {
        if let Some(watchers) = self.by_path.get_mut(path) {
            watchers.remove(&connection);
            if watchers.is_empty() {
                self.by_path.remove(path);
            }
        }
        if let Some(paths) = self.by_connection.get_mut(&connection) {
            paths.remove(path);
            if paths.is_empty() {
                self.by_connection.remove(&connection);
            }
        }
    }
}
