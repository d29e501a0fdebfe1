//! The server without its sockets: processes frames, and the passing of time.
//!
//! It does no I/O and reads no clock. Frames to send are collected in an outbox.

mod handshake;
#[cfg(test)]
mod mutated;
mod replicated;
mod requests;
mod sessions;
#[cfg(test)]
mod tests;
mod watching;

use std::{collections::BTreeMap, net::SocketAddr};

use curator_client::codec::Writer;
pub(crate) use replicated::Change;
pub(crate) use requests::Arrived;
#[cfg(feature = "simulation")]
pub(crate) use {replicated::Entry, requests::Step};

use super::{
    builder::Settings,
    codec::ConnectRequest,
    family::Family,
    faults::RequestInfo,
    sessions::{Connection, ConnectionId, Millis, Sessions},
    tree::DataTree,
    watches::Watches,
};

/// The state of a server, and its outbox.
#[derive(Debug)]
pub(crate) struct Processor {
    pub(crate) settings: Settings,
    /// Whether the server accepts clients.
    pub(crate) has_quorum: bool,
    pub(crate) tree: DataTree,
    pub(crate) sessions: Sessions,
    pub(crate) watches: Watches,
    pub(crate) connections: BTreeMap<ConnectionId, Connection>,
    /// The zxid of the last transaction.
    pub(crate) zxid: i64,
    pub(crate) packets: Packets,
    outbox: Vec<(ConnectionId, Output)>,
    last_connection: ConnectionId,
    /// The id of the next session that a standalone server creates.
    next_session: i64,
    next_container_check: Millis,
}

/// How many packets were received and sent.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Packets {
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// Output for a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// The reply to the request that is being processed.
    Reply(Writer),
    Event(Writer),
    /// Closes the connection, after all output before this.
    Close,
}

/// A frame from a client.
#[derive(Debug)]
pub(crate) enum Incoming {
    Handshake(ConnectRequest),
    Request(Arrived),
}

/// The time on two clocks, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// Monotonic, for the expiry of sessions.
    pub(crate) monotonic: Millis,
    /// Since 1970, for the times of nodes.
    pub(crate) wall: i64,
}

impl Processor {
    /// An empty server. `seed` makes its session ids and passwords unique.
    pub(crate) fn new(settings: Settings, seed: u64, now: Now) -> Self {
        let first_session = settings.first_session.unwrap_or_else(|| {
            match settings.protocol.family() {
                // As on the real server, the time is in the middle of the id, so that a later server
                // has different ids.
                Family::ZooKeeper => ((now.wall << 24).cast_unsigned() >> 8).cast_signed(),
                Family::ClickHouseKeeper | Family::RaftKeeper => 1,
            }
        });
        Self {
            settings,
            has_quorum: true,
            tree: DataTree::new(settings.rules()),
            sessions: Sessions::new(seed, settings.tick()),
            watches: Watches::new(
                settings.protocol.watch_modes,
                settings.protocol.recursive_events,
            ),
            connections: BTreeMap::new(),
            zxid: 0,
            packets: Packets::default(),
            outbox: Vec::new(),
            last_connection: 0,
            next_session: first_session,
            next_container_check: now.monotonic + settings.container_check(),
        }
    }

    pub(crate) fn family(&self) -> Family {
        self.settings.protocol.family()
    }

    /// Replaces this server with another one. Connection ids are not reused, since the end of an
    /// earlier connection may be handled later.
    pub(crate) fn replace(&mut self, other: Self) {
        *self = Self {
            last_connection: self.last_connection,
            has_quorum: self.has_quorum,
            ..other
        };
    }

    /// Changes the members of the ensemble, by the addresses for their clients.
    pub(crate) fn set_ensemble(&mut self, members: Vec<String>, now: Now) {
        // Cannot fail.
        drop(self.apply_next(Change::Reconfigure { members }, now));
    }

    /// Sets the number of the next sequential child of a node. Returns whether the node exists.
    pub(crate) fn set_create_counter(&mut self, path: &str, counter: i32) -> bool {
        self.tree.set_creates(path, counter).is_ok()
    }

    /// Adds a new connection.
    pub(crate) fn open(&mut self, peer: SocketAddr, now: Now) -> ConnectionId {
        self.last_connection += 1;
        self.connections
            .insert(self.last_connection, Connection::new(peer, now.wall));
        self.last_connection
    }

    /// Adds a new connection with an id that the caller has chosen.
    #[cfg(feature = "simulation")]
    pub(crate) fn open_as(&mut self, id: ConnectionId, peer: SocketAddr, now: Now) {
        self.connections.insert(id, Connection::new(peer, now.wall));
    }

    /// Removes a connection that has ended. Its session stays.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
        self.watches.forget(id);
    }

    /// Counts a received four-letter word.
    pub(crate) fn note_word(&mut self) {
        self.packets.received += 1;
    }

    /// Counts the reply to a four-letter word.
    pub(crate) fn note_answer(&mut self) {
        self.packets.sent += 1;
    }

    /// Processes a frame from a client, without its length. Returns a description of the request;
    /// `None` if the frame is not a request.
    pub(crate) fn receive(
        &mut self,
        id: ConnectionId,
        payload: &[u8],
        now: Now,
    ) -> Option<RequestInfo> {
        Some(match self.parse(id, payload, now)? {
            Incoming::Handshake(request) => self.handshake(id, &request, now),
            Incoming::Request(arrived) => self.request(id, arrived, now),
        })
    }

    /// Parses a frame from a client, without its length. Closes the connection if the frame is
    /// invalid.
    pub(crate) fn parse(&mut self, id: ConnectionId, payload: &[u8], now: Now) -> Option<Incoming> {
        let connection = self
            .connections
            .get_mut(&id)
            .filter(|connection| !connection.is_closing)?;
        connection.received += 1;
        connection.last_response = now.wall;
        self.packets.received += 1;
        if connection.received_handshake {
            self.arrive(id, payload).map(Incoming::Request)
        } else {
            connection.received_handshake = true;
            self.greet(id, payload).map(Incoming::Handshake)
        }
    }

    /// Whether the server reads more from a connection.
    pub(crate) fn is_open(&self, id: ConnectionId) -> bool {
        self.connections
            .get(&id)
            .is_some_and(|connection| !connection.is_closing)
    }

    /// Takes the queued output, in order.
    pub(crate) fn take_outbox(&mut self) -> Vec<(ConnectionId, Output)> {
        std::mem::take(&mut self.outbox)
    }

    /// Closes a connection after everything queued for the client. The client gets no more events.
    pub(crate) fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self
            .connections
            .get_mut(&id)
            .filter(|connection| !connection.is_closing)
        {
            connection.is_closing = true;
            self.watches.forget(id);
            self.outbox.push((id, Output::Close));
        }
    }

    /// The session that was refused to this connection because it has ended, if its nodes still
    /// exist.
    pub(crate) fn refused_session(&self, id: ConnectionId) -> Option<i64> {
        self.connections
            .get(&id)
            .and_then(|connection| connection.refused_session)
    }

    /// Closes the session's current connection.
    pub(crate) fn close_connection_of(&mut self, session_id: i64) {
        let attached = |connection: &Connection| {
            connection
                .session
                .is_some_and(|session| session.id == session_id)
        };
        let found = self
            .connections
            .iter()
            .find(|(_, connection)| !connection.is_closing && attached(connection));
        if let Some(id) = found.map(|(id, _)| *id) {
            self.close(id);
        }
    }

    fn send(&mut self, id: ConnectionId, output: Output) {
        if let Some(connection) = self
            .connections
            .get_mut(&id)
            .filter(|connection| !connection.is_closing)
        {
            connection.sent += 1;
            connection.last_zxid = self.zxid;
            self.packets.sent += 1;
            self.outbox.push((id, output));
        }
    }
}
