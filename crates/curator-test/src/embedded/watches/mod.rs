//! The watches of a server: which connections to notify of an event.

mod table;

use std::collections::BTreeSet;

pub(crate) use self::table::Table;
use super::{codec::EventKind, sessions::ConnectionId};

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
    /// Only the mode of the last request, as before ZooKeeper 3.9 (ZOOKEEPER-4466), separately for
    /// data and for children:
    ///
    /// - A one-shot watch replaces a persistent or recursive one. A replaced recursive watch
    ///   reports nothing below its path, and when the one-shot watch fires or is removed, no watch
    ///   is left.
    /// - A recursive watch counts for data and for children. It replaces a one-shot watch on
    ///   children, which then never fires.
    /// - `removeWatches` for data or for children removes a watch of any mode, and cannot name the
    ///   persistent modes.
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
#[derive(Debug)]
pub(crate) struct Notice {
    pub(crate) connection: ConnectionId,
    /// The reported path.
    pub(crate) path: String,
}

/// All watches of a server. They belong to connections, and end with them.
#[derive(Debug)]
pub(crate) struct Watches {
    modes: Modes,
    recursive_events: RecursiveEvents,
    /// Watches on a node's existence and data.
    pub(crate) data: Table,
    pub(crate) children: Table,
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
        Self {
            modes,
            recursive_events,
            data: Table::new(modes),
            children: Table::new(modes),
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
        let tables = match kind {
            EventKind::NodeCreated | EventKind::NodeDataChanged => vec![&mut self.data],
            EventKind::NodeChildrenChanged => vec![&mut self.children],
            EventKind::NodeDeleted => vec![&mut self.data, &mut self.children],
        };
        let mut recursive = Vec::new();
        let mut fired = Vec::new();
        for table in tables {
            let reporting = table.recursive(kind, path);
            recursive.extend(reporting.map(|(watched, id)| notice(id, watched)));
            fired.extend(table.fire(path).into_iter().map(|id| notice(id, path)));
        }
        let notices = recursive.into_iter().chain(fired);
        match self.recursive_events {
            RecursiveEvents::OfWatch => notices.collect(),
            RecursiveEvents::OfNode => {
                let connections: BTreeSet<_> = notices.map(|notice| notice.connection).collect();
                connections.into_iter().map(|id| notice(id, path)).collect()
            }
        }
    }

    /// How many watches there are.
    pub(crate) fn count(&self) -> usize {
        self.data.count() + self.children.count()
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
