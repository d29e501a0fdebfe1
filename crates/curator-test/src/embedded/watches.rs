//! The watches of a server: which connections to notify of an event.

use std::collections::{BTreeMap, BTreeSet};

use super::{codec::EventKind, sessions::ConnectionId, tree::ancestors};

/// A watch's lifetime and range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    /// Ends with one event.
    Standard,
    /// Exists until removed.
    Persistent,
    /// Exists until removed, and also covers all descendants.
    PersistentRecursive,
}

/// The watches that `checkWatches` and `removeWatches` address, as in ZooKeeper's
/// `Watcher.WatcherType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatcherKind {
    Children,
    Data,
    Any,
    Persistent,
    PersistentRecursive,
}

/// How many modes a connection's watches on one path can have.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Modes {
    /// Each mode, side by side.
    #[default]
    All,
    /// Only the mode of the last request, as before ZooKeeper 3.9 (ZOOKEEPER-4466).
    Last,
}

/// What the events of a recursive watch report.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecursiveEvents {
    /// The node that has changed. A connection with several watches gets one event.
    #[default]
    OfNode,
    /// The node of the watch, as in ClickHouse Keeper (its issue 115475). A connection gets an event
    /// for each of its watches.
    OfWatch,
}

/// An event for a connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Notice {
    pub(crate) connection: ConnectionId,
    /// The reported path.
    pub(crate) path: String,
}

/// All watches of a server. They belong to connections, and end with them.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    modes: Modes,
    recursive_events: RecursiveEvents,
    /// Watches on a node's existence and data.
    pub(crate) data: Table,
    pub(crate) children: Table,
}

/// Watches of one kind, indexed by path and by connection.
#[derive(Debug, Default)]
pub(crate) struct Table {
    modes: Modes,
    by_path: BTreeMap<String, BTreeMap<ConnectionId, BTreeSet<Mode>>>,
    by_connection: BTreeMap<ConnectionId, BTreeSet<String>>,
}

impl WatcherKind {
    /// With only one mode per path, a request cannot address the persistent modes.
    pub(crate) fn of_number(number: i32, modes: Modes) -> Option<Self> {
        match number {
            4 | 5 if modes == Modes::Last => None,
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
    pub(crate) fn new(modes: Modes, recursive_events: RecursiveEvents) -> Self {
        let table = || Table {
            modes,
            ..Table::default()
        };
        Self {
            modes,
            recursive_events,
            data: table(),
            children: table(),
        }
    }

    pub(crate) fn modes(&self) -> Modes {
        self.modes
    }

    /// Implements `addWatch`. Before 3.9, a recursive watch is also a watch on children, although
    /// it reports no changes of the children (ZOOKEEPER-4475).
    pub(crate) fn add(&mut self, path: &str, connection: ConnectionId, mode: Mode) {
        self.data.add(path, connection, mode);
        if mode != Mode::PersistentRecursive || self.modes == Modes::Last {
            self.children.add(path, connection, mode);
        }
    }

    /// Whether the watch exists. Before 3.9, a watch of any connection counts.
    pub(crate) fn contains(&self, path: &str, connection: ConnectionId, kind: WatcherKind) -> bool {
        let children = self.children.is_watched(path);
        let data = self.data.is_watched(path);
        match kind {
            WatcherKind::Children if self.modes == Modes::Last => children,
            WatcherKind::Data if self.modes == Modes::Last => data,
            WatcherKind::Any if self.modes == Modes::Last => children || data,
            WatcherKind::Children => self.children.has(path, connection, Some(Mode::Standard)),
            WatcherKind::Data => self.data.has(path, connection, Some(Mode::Standard)),
            WatcherKind::Persistent => self.data.has(path, connection, Some(Mode::Persistent)),
            WatcherKind::PersistentRecursive => {
                self.data
                    .has(path, connection, Some(Mode::PersistentRecursive))
            }
            WatcherKind::Any => {
                self.children.has(path, connection, None) || self.data.has(path, connection, None)
            }
        }
    }

    /// Removes a watch. Returns whether it existed.
    pub(crate) fn remove(
        &mut self,
        path: &str,
        connection: ConnectionId,
        kind: WatcherKind,
    ) -> bool {
        let standard = (self.modes == Modes::All).then_some(Mode::Standard);
        match kind {
            WatcherKind::Children => self.children.remove(path, connection, standard),
            WatcherKind::Data => self.data.remove(path, connection, standard),
            WatcherKind::PersistentRecursive => {
                self.data
                    .remove(path, connection, Some(Mode::PersistentRecursive))
            }
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

    /// The events for the connections that watch a node. Removes their one-shot watches.
    pub(crate) fn trigger(&mut self, kind: EventKind, path: &str) -> Vec<Notice> {
        let [data, children] = match kind {
            EventKind::NodeCreated | EventKind::NodeDataChanged => [true, false],
            EventKind::NodeChildrenChanged => [false, true],
            EventKind::NodeDeleted => [true, true],
        };
        let mut tables: Vec<&mut Table> = Vec::new();
        tables.extend(data.then_some(&mut self.data));
        tables.extend(children.then_some(&mut self.children));
        match self.recursive_events {
            RecursiveEvents::OfNode => {
                let notified: BTreeSet<ConnectionId> = tables
                    .into_iter()
                    .flat_map(|table| {
                        let above = table.recursive(kind, path);
                        let above: Vec<_> = above.map(|(_, connection)| connection).collect();
                        table.fire(path).into_iter().chain(above)
                    })
                    .collect();
                notified.into_iter().map(|id| notice(id, path)).collect()
            }
            RecursiveEvents::OfWatch => {
                let mut notices = Vec::new();
                for table in &tables {
                    let recursive = table.recursive(kind, path);
                    notices.extend(recursive.map(|(watched, id)| notice(id, watched)));
                }
                for table in tables {
                    notices.extend(table.fire(path).into_iter().map(|id| notice(id, path)));
                }
                notices
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
        let modes = self
            .by_path
            .entry(path.to_owned())
            .or_default()
            .entry(connection)
            .or_default();
        if self.modes == Modes::Last {
            modes.clear();
        }
        modes.insert(mode);
        self.by_connection
            .entry(connection)
            .or_default()
            .insert(path.to_owned());
    }

    /// The connections that watch each path, in order.
    pub(crate) fn by_path(&self) -> impl Iterator<Item = (&str, Vec<ConnectionId>)> {
        self.by_path
            .iter()
            .map(|(path, watchers)| (path.as_str(), watchers.keys().copied().collect()))
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

    fn is_watched(&self, path: &str) -> bool {
        self.by_path.contains_key(path)
    }

    /// Whether the connection watches the path in `mode`, or in any mode if it is `None`.
    fn has(&self, path: &str, connection: ConnectionId, mode: Option<Mode>) -> bool {
        let modes = self
            .by_path
            .get(path)
            .and_then(|watchers| watchers.get(&connection));
        modes.is_some_and(|modes| mode.is_none_or(|mode| modes.contains(&mode)))
    }

    /// Removes the connection's watch of `mode`, or of all modes if it is `None`. Returns whether
    /// such a watch existed.
    fn remove(&mut self, path: &str, connection: ConnectionId, mode: Option<Mode>) -> bool {
        let Some(modes) = self
            .by_path
            .get_mut(path)
            .and_then(|watchers| watchers.get_mut(&connection))
        else {
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
        for path in self
            .by_connection
            .get(&connection)
            .cloned()
            .unwrap_or_default()
        {
            self.drop_entry(&path, connection);
        }
    }

    /// The connections with a one-shot or persistent watch on the path. Removes the one-shot
    /// watches.
    fn fire(&mut self, path: &str) -> BTreeSet<ConnectionId> {
        let watchers = self.by_path.get(path).into_iter().flatten();
        let fired: BTreeSet<_> = watchers
            .filter(|(_, modes)| modes.iter().any(|mode| *mode != Mode::PersistentRecursive))
            .map(|(connection, _)| *connection)
            .collect();
        for connection in &fired {
            self.remove(path, *connection, Some(Mode::Standard));
        }
        fired
    }

    /// The recursive watches on the path and above it that report this event: the watched path and
    /// the connection, the nearest first. They report no changes of children.
    fn recursive<'a>(
        &'a self,
        kind: EventKind,
        path: &'a str,
    ) -> impl Iterator<Item = (&'a str, ConnectionId)> {
        let paths = std::iter::once(path)
            .chain(ancestors(path))
            .filter(move |_| kind != EventKind::NodeChildrenChanged);
        paths.flat_map(|watched| {
            let watchers = self.by_path.get(watched).into_iter().flatten();
            watchers
                .filter(|(_, modes)| modes.contains(&Mode::PersistentRecursive))
                .map(move |(connection, _)| (watched, *connection))
        })
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

fn notice(connection: ConnectionId, path: &str) -> Notice {
    Notice {
        connection,
        path: path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ConnectionId = 1;

    #[test]
    fn a_replaced_watch_is_counted_once_and_removed_with_its_connection() {
        let mut watches = Watches::new(Modes::Last, RecursiveEvents::OfNode);
        watches.add("/a", ONE, Mode::Persistent);
        watches.data.add("/a", ONE, Mode::Standard);
        watches.add("/a", ONE, Mode::PersistentRecursive);
        assert_eq!(watches.count(), 2);
        watches.forget(ONE);
        assert_eq!((watches.count(), watches.data.connections()), (0, 0));
    }
}
