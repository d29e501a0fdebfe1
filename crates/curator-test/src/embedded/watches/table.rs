//! The watches of one kind, indexed by path and by connection.

use std::collections::{BTreeMap, BTreeSet};

use super::{Mode, Modes};
use crate::embedded::{codec::EventKind, sessions::ConnectionId, tree::ancestors};

/// Watches of one kind, indexed by path and by connection.
#[derive(Debug)]
pub(crate) struct Table {
    modes: Modes,
    by_path: BTreeMap<String, BTreeMap<ConnectionId, BTreeSet<Mode>>>,
    by_connection: BTreeMap<ConnectionId, BTreeSet<String>>,
}

impl Table {
    pub(super) fn new(modes: Modes) -> Self {
        Self {
            modes,
            by_path: BTreeMap::new(),
            by_connection: BTreeMap::new(),
        }
    }

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

    pub(super) fn is_watched(&self, path: &str) -> bool {
        self.by_path.contains_key(path)
    }

    /// Whether the connection watches the path in `mode`, or in any mode if it is `None`.
    pub(super) fn has(&self, path: &str, connection: ConnectionId, mode: Option<Mode>) -> bool {
        let modes = self
            .by_path
            .get(path)
            .and_then(|watchers| watchers.get(&connection));
        modes.is_some_and(|modes| mode.is_none_or(|mode| modes.contains(&mode)))
    }

    /// Removes the connection's watch of `mode`, or of all modes if it is `None`. Returns whether
    /// such a watch existed.
    pub(super) fn remove(
        &mut self,
        path: &str,
        connection: ConnectionId,
        mode: Option<Mode>,
    ) -> bool {
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

    pub(super) fn forget(&mut self, connection: ConnectionId) {
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
    pub(super) fn fire(&mut self, path: &str) -> BTreeSet<ConnectionId> {
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
    pub(super) fn recursive<'a>(
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
