//! Sets, checks and removes watches, and notifies their clients.

use super::{Output, Processor};
use crate::embedded::{
    acl::{self, permissions},
    code::Code,
    codec::{Body, EventKind, Reply, SetWatches, event_frame},
    sessions::ConnectionId,
    tree::Event,
    watches::{Mode, Notice, WatcherKind},
};

/// The zxid in an event that reports a missed change to a reconnected client: `setWatches` causes
/// it, not a transaction. Before 3.9, all events have this zxid.
const NO_ZXID: i64 = -1;

impl Processor {
    /// Notifies the watchers of these events, if they may read the node.
    pub(super) fn notify(&mut self, events: &[Event]) {
        let zxid = if self.settings.protocol.zxids_in_events {
            self.zxid
        } else {
            NO_ZXID
        };
        for Event { kind, path, acl } in events {
            for Notice { connection, path } in self.watches.trigger(*kind, path) {
                let identities = self.identities(connection);
                if acl::check(acl, permissions::READ, &identities).is_ok() {
                    self.send(connection, Output::Event(event_frame(*kind, &path, zxid)));
                }
            }
        }
    }

    pub(super) fn add_watch(
        &mut self,
        id: ConnectionId,
        path: &str,
        mode: i32,
    ) -> Result<Body, Code> {
        let mode = match mode {
            _ if !self.settings.persistent_watches => return Err(Code::MarshallingError),
            0 => Mode::Persistent,
            1 => Mode::PersistentRecursive,
            _ => return Err(Code::MarshallingError),
        };
        self.watches.add(path, id, mode);
        // The real server replies with the error number 0, which is success.
        Ok(Body::One(Reply::AddWatch { error: 0 }))
    }

    pub(super) fn check_watches(
        &self,
        id: ConnectionId,
        path: &str,
        kind: i32,
    ) -> Result<Body, Code> {
        let kind =
            WatcherKind::of_number(kind, self.watches.modes()).ok_or(Code::MarshallingError)?;
        if self.watches.contains(path, id, kind) {
            Ok(Body::Empty)
        } else {
            Err(Code::NoWatcher)
        }
    }

    pub(super) fn remove_watches(
        &mut self,
        id: ConnectionId,
        path: &str,
        kind: i32,
    ) -> Result<Body, Code> {
        let kind =
            WatcherKind::of_number(kind, self.watches.modes()).ok_or(Code::MarshallingError)?;
        if self.watches.remove(path, id, kind) {
            Ok(Body::Empty)
        } else {
            Err(Code::NoWatcher)
        }
    }

    /// Sets the watches of a client that has reconnected, and notifies it of missed changes. If
    /// persistent watches are refused, the others stay set.
    pub(super) fn set_watches(
        &mut self,
        id: ConnectionId,
        watches: &SetWatches,
        persistent: &[String],
        recursive: &[String],
    ) -> Result<Body, Code> {
        for path in &watches.data {
            match self.tree.changed_since(path, watches.relative_zxid) {
                None => self.notify_missed(id, EventKind::NodeDeleted, path),
                Some((true, _)) => self.notify_missed(id, EventKind::NodeDataChanged, path),
                Some((false, _)) => self.watches.data.add(path, id, Mode::Standard),
            }
        }
        for path in &watches.exists {
            match self.tree.changed_since(path, watches.relative_zxid) {
                Some(_) => self.notify_missed(id, EventKind::NodeCreated, path),
                None => self.watches.data.add(path, id, Mode::Standard),
            }
        }
        for path in &watches.children {
            match self.tree.changed_since(path, watches.relative_zxid) {
                None => self.notify_missed(id, EventKind::NodeDeleted, path),
                Some((_, true)) => self.notify_missed(id, EventKind::NodeChildrenChanged, path),
                Some((_, false)) => self.watches.children.add(path, id, Mode::Standard),
            }
        }
        let is_any_persistent = !persistent.is_empty() || !recursive.is_empty();
        if is_any_persistent && !self.settings.persistent_watches {
            return Err(Code::MarshallingError);
        }
        for path in persistent {
            self.watches.add(path, id, Mode::Persistent);
        }
        for path in recursive {
            self.watches.add(path, id, Mode::PersistentRecursive);
        }
        Ok(Body::Empty)
    }

    fn notify_missed(&mut self, id: ConnectionId, kind: EventKind, path: &str) {
        self.send(id, Output::Event(event_frame(kind, path, NO_ZXID)));
    }
}
