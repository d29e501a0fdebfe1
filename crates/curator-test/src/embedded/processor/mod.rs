//! The server without its sockets: what happens with a frame, and what happens as time passes.
//!
//! It does no I/O and reads no clock. It collects what is to be sent in an outbox.

mod handshake;
mod requests;
#[cfg(test)]
mod tests;
mod time;
mod watching;

use std::{collections::BTreeMap, net::SocketAddr};

use super::{
    builder::Settings,
    connection::{Connection, ConnectionId},
    request_info::RequestInfo,
    sessions::{Millis, Sessions},
    tree::DataTree,
    watches::Watches,
};

/// The state of a server, and its outbox.
#[derive(Debug)]
pub(crate) struct Processor {
    pub(crate) settings: Settings,
    pub(crate) tree: DataTree,
    pub(crate) sessions: Sessions,
    pub(crate) watches: Watches,
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    /// Of the last transaction.
    pub(crate) zxid: i64,
    pub(crate) packets: Packets,
    outbox: Vec<(ConnectionId, Output)>,
    last_connection: ConnectionId,
    next_container_check: Millis,
}

/// How much has been received and sent.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Packets {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// Something for a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// The answer to the request that is being processed.
    Reply(Vec<u8>),
    Event(Vec<u8>),
    /// The end of the connection, after everything before it.
    Close,
}

/// The time, by two clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// Monotonic; sessions expire by it.
    pub(crate) monotonic: Millis,
    /// Since 1970; the times of nodes come from it.
    pub(crate) wall: i64,
}

impl Processor {
    /// An empty server. `seed` makes its session ids and passwords unique.
    pub(crate) fn new(settings: Settings, seed: u64, now: Now) -> Self {
        // As on the real server: the time in the middle, so that ids of a later server differ.
        let first_session = ((now.wall << 24).cast_unsigned() >> 8).cast_signed();
        Self {
            settings,
            tree: DataTree::new(settings.extended_types),
            sessions: Sessions::new(first_session, seed, settings.tick()),
            watches: Watches::new(settings.watch_modes),
            connections: BTreeMap::new(),
            zxid: 0,
            packets: Packets::default(),
            outbox: Vec::new(),
            last_connection: 0,
            next_container_check: now.monotonic + settings.container_check(),
        }
    }

    /// Forgets everything, and becomes another server. No connection gets the id of an earlier one, whose end may still be
    /// on its way.
    pub(crate) fn replace(&mut self, other: Self) {
        *self = Self { last_connection: self.last_connection, ..other };
    }

    /// Sets the number of the next sequential child of a node. Returns whether there is such a node.
    pub(crate) fn set_create_counter(&mut self, path: &str, counter: i32) -> bool {
        self.tree.set_creates(path, counter).is_ok()
    }

    /// Adds a new connection.
    pub(crate) fn open(&mut self, peer: SocketAddr, now: Now) -> ConnectionId {
        self.last_connection += 1;
        self.connections.insert(self.last_connection, Connection::new(peer, now.wall));
        self.last_connection
    }

    /// Records that a connection is gone. Its session lives on.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
        self.watches.forget(id);
    }

    /// Counts a four-letter word.
    pub(crate) fn note_word(&mut self) {
        self.packets.received += 1;
    }

    /// Counts the answer to a four-letter word.
    pub(crate) fn note_answer(&mut self) {
        self.packets.sent += 1;
    }

    /// Processes what a client has sent, without its length. Returns what it was; `None` if it was not a request.
    pub(crate) fn receive(&mut self, id: ConnectionId, payload: &[u8], now: Now) -> Option<RequestInfo> {
        let connection = self.connections.get_mut(&id).filter(|connection| !connection.is_closing)?;
        connection.received += 1;
        connection.last_response = now.wall;
        self.packets.received += 1;
        if connection.has_greeted {
            self.request(id, payload, now)
        } else {
            connection.has_greeted = true;
            self.handshake(id, payload, now)
        }
    }

    /// Whether a connection may send more.
    pub(crate) fn is_open(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| !connection.is_closing)
    }

    /// Takes everything that is to be sent, in order.
    pub(crate) fn take_outbox(&mut self) -> Vec<(ConnectionId, Output)> {
        std::mem::take(&mut self.outbox)
    }

    /// Closes a connection once everything queued for the client has been sent. It gets no more events.
    pub(crate) fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id).filter(|connection| !connection.is_closing) {
            connection.is_closing = true;
            self.watches.forget(id);
            self.outbox.push((id, Output::Close));
        }
    }

    /// The session whose end a connection was answered with, while its nodes are still there.
    pub(crate) fn refused_session(&self, id: ConnectionId) -> Option<i64> {
        self.connections.get(&id).and_then(|connection| connection.refused_session)
    }

    /// Closes the session's current connection.
    fn close_connection_of(&mut self, session_id: i64) {
        let attached = |connection: &Connection| connection.session.is_some_and(|session| session.id == session_id);
        let found = self.connections.iter().find(|(_, connection)| !connection.is_closing && attached(connection));
        if let Some(id) = found.map(|(id, _)| *id) {
            self.close(id);
        }
    }

    fn send(&mut self, id: ConnectionId, output: Output) {
        if let Some(connection) = self.connections.get_mut(&id).filter(|connection| !connection.is_closing) {
            connection.sent += 1;
            connection.last_zxid = self.zxid;
            self.packets.sent += 1;
            self.outbox.push((id, output));
        }
    }
}
