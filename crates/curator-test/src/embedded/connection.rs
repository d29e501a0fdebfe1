//! The state of a connection.

use std::net::SocketAddr;

use super::{acl::Id, sessions::Millis};
use crate::OpCode;

/// Identifies a connection. Later connections have greater numbers.
pub(crate) type ConnectionId = u64;

/// A connected client. Its watches are kept elsewhere.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) peer: SocketAddr,
    /// `None` before the handshake, and if the server has refused the session.
    pub(crate) session: Option<Attached>,
    /// The ended session that this client tried to resume, while the session's nodes still exist.
    pub(crate) refused_session: Option<i64>,
    pub(crate) received_handshake: bool,
    /// The connection closes after its queued output, and the server reads nothing more from it.
    pub(crate) is_closing: bool,
    pub(crate) identities: Vec<Id>,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) last_zxid: i64,
    pub(crate) last_xid: i32,
    pub(crate) last_op: OpCode,
    /// In milliseconds since 1970.
    pub(crate) established: i64,
    pub(crate) last_response: i64,
}

/// The session of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attached {
    pub(crate) id: i64,
    pub(crate) timeout: Millis,
}

impl Connection {
    pub(crate) fn new(peer: SocketAddr, now: i64) -> Self {
        Self {
            peer,
            session: None,
            refused_session: None,
            received_handshake: false,
            is_closing: false,
            identities: vec![Id::of_address(peer.ip())],
            received: 0,
            sent: 0,
            last_zxid: 0,
            last_xid: 0,
            last_op: OpCode::CreateSession,
            established: now,
            last_response: now,
        }
    }

    pub(crate) fn session_id(&self) -> i64 {
        self.session.map_or(0, |session| session.id)
    }

    /// Adds an identity that the client has proved.
    pub(crate) fn add_identity(&mut self, id: Id) {
        if !self.identities.contains(&id) {
            self.identities.push(id);
        }
    }
}
