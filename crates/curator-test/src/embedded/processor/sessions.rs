//! Expires sessions; as time passes, also removes nodes.

use super::{Change, Now, Packets, Processor};
use crate::embedded::{
    codec::Write,
    family::Family,
    sessions::{Connection, Millis},
};

impl Processor {
    /// Expires sessions, and removes containers and TTL nodes that are due.
    pub(crate) fn tick(&mut self, now: Now) {
        for session_id in self.sessions.expired(now.monotonic) {
            self.expire(session_id, now);
        }
        if now.monotonic >= self.next_container_check {
            self.next_container_check = now.monotonic + self.settings.container_check();
            self.remove_containers(now);
        }
    }

    /// When the next call of `tick` may have work to do.
    pub(crate) fn next_tick(&self) -> Millis {
        let expiry = self.sessions.next_expiry().unwrap_or(Millis::MAX);
        expiry.min(self.next_container_check)
    }

    /// Ends a session now, if it exists. Its connection is closed without a message.
    fn expire(&mut self, session_id: i64, now: Now) {
        if self.sessions.exists(session_id) {
            // Cannot fail.
            drop(self.apply_next(Change::CloseSession { id: session_id }, now));
            self.close_connection_of(session_id);
        }
    }

    /// Ends a session for its client. The session's nodes stay until it [expires](Self::expire).
    /// Returns false if the session does not exist or had already ended.
    pub(crate) fn end_for_client(&mut self, session_id: i64) -> bool {
        let is_alive = self.sessions.end(session_id);
        self.close_connection_of(session_id);
        is_alive
    }

    /// Prepares an orderly stop: ClickHouse Keeper ends the sessions of its clients.
    pub(crate) fn shut_down(&mut self, now: Now) {
        if self.family() == Family::ClickHouseKeeper {
            let connections = self.connections.values();
            let sessions: Vec<i64> = connections.map(Connection::session_id).collect();
            for session_id in sessions {
                self.expire(session_id, now);
            }
        }
    }

    /// Continues after a stop: restarts the timeouts of sessions, and resets the packet counts.
    pub(crate) fn resume(&mut self, now: Now) {
        self.packets = Packets::default();
        self.sessions.touch_all(now.monotonic);
        self.next_container_check = now.monotonic + self.settings.container_check();
    }

    fn remove_containers(&mut self, now: Now) {
        for path in self.tree.removable(now.wall) {
            let write = Write::DeleteContainer { path };
            // Cannot fail: all these nodes exist and have no children.
            drop(self.apply_next(
                Change::Write {
                    session_id: 0,
                    identities: Vec::new(),
                    write,
                },
                now,
            ));
        }
    }
}
