//! Answers handshakes: grants new sessions and resumes existing ones.

use curator_client::codec::{ConnectResponse, Reader, Trailing};

use super::{Change, Now, Output, Processor};
use crate::{
    OpCode,
    embedded::{
        codec::{ConnectRequest, handshake_frame},
        family::{Family, REJECTED},
        faults::RequestInfo,
        sessions::{Attached, ConnectionId, Millis},
    },
};

/// The reply to a handshake: a session, or with the defaults ZooKeeper's refusal.
#[derive(Debug, Default)]
struct Granted {
    protocol: i32,
    timeout: i32,
    session_id: i64,
    password: [u8; 16],
}

impl Processor {
    /// Parses the first frame of a connection. Closes the connection if it is not a handshake.
    pub(super) fn greet(&mut self, id: ConnectionId, payload: &[u8]) -> Option<ConnectRequest> {
        let request = Reader::lenient(payload).read("a handshake").ok();
        // A client that has seen later transactions than this server must not read older data.
        // ClickHouse Keeper does not check this.
        let request = request.filter(|request: &ConnectRequest| {
            self.family() == Family::ClickHouseKeeper || request.last_zxid_seen <= self.zxid
        });
        if request.is_none() {
            self.close(id);
        }
        request
    }

    /// Answers a handshake on a standalone server.
    pub(super) fn handshake(
        &mut self,
        id: ConnectionId,
        request: &ConnectRequest,
        now: Now,
    ) -> RequestInfo {
        if !self.has_quorum {
            self.reject(id, request);
            return RequestInfo::new(OpCode::CreateSession, None, request.session_id);
        }
        let timeout = self.settings.negotiate(request.timeout);
        let session = if self.resumes(request) {
            let password = request.password.as_deref().unwrap_or_default();
            self.resume_session(id, request.session_id, password, timeout, now)
        } else {
            Some(self.create_session(timeout, now))
        };
        self.answer_handshake(id, request, session, timeout);
        RequestInfo::new(OpCode::CreateSession, None, session.unwrap_or_default())
    }

    /// Whether the server resumes the session that the client names, instead of creating one.
    pub(crate) fn resumes(&self, request: &ConnectRequest) -> bool {
        request.session_id != 0 && self.family() != Family::ClickHouseKeeper
    }

    /// Whether the password is the session's. Only ZooKeeper checks it.
    pub(crate) fn accepts_password(&self, session_id: i64, password: &[u8]) -> bool {
        self.family() != Family::ZooKeeper || password == self.sessions.password(session_id)
    }

    fn create_session(&mut self, timeout: Millis, now: Now) -> i64 {
        let id = self.next_session;
        self.next_session = id.wrapping_add(1);
        // Cannot fail.
        drop(self.apply_next(Change::CreateSession { id, timeout }, now));
        id
    }

    /// `None` if the session has ended, or the password is wrong. In any case, as on the real
    /// server, the session's other connection is closed.
    fn resume_session(
        &mut self,
        id: ConnectionId,
        session_id: i64,
        password: &[u8],
        timeout: Millis,
        now: Now,
    ) -> Option<i64> {
        self.close_connection_of(session_id);
        if !self.accepts_password(session_id, password) {
            return None;
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.refused_session = self.sessions.has_ended(session_id).then_some(session_id);
        }
        self.sessions
            .touch(session_id, timeout, now.monotonic)
            .then_some(session_id)
    }

    /// Grants a session to a connection. If `session` is `None`, refuses the session that the client
    /// has named, and closes the connection.
    pub(crate) fn answer_handshake(
        &mut self,
        id: ConnectionId,
        request: &ConnectRequest,
        session: Option<i64>,
        timeout: Millis,
    ) {
        let Some(session_id) = session else {
            self.refuse(id, request);
            return;
        };
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.session = Some(Attached {
                id: session_id,
                timeout,
            });
        }
        let granted = Granted {
            protocol: 0,
            timeout: i32::try_from(timeout).unwrap_or(i32::MAX),
            session_id,
            password: self.password(session_id),
        };
        self.reply_to_handshake(id, request, &granted);
    }

    /// Reports to a client that its session has ended.
    fn refuse(&mut self, id: ConnectionId, request: &ConnectRequest) {
        let refused = match self.family() {
            Family::ZooKeeper => Granted::default(),
            Family::ClickHouseKeeper | Family::RaftKeeper => Granted {
                protocol: REJECTED,
                timeout: -1,
                session_id: request.session_id,
                ..Granted::default()
            },
        };
        self.reply_to_handshake(id, request, &refused);
        self.close(id);
    }

    /// Turns a client away while the server has no quorum. ZooKeeper does not reply. RaftKeeper
    /// reports an ended session, although the session may be alive.
    pub(crate) fn reject(&mut self, id: ConnectionId, request: &ConnectRequest) {
        let timeout = match self.family() {
            Family::ZooKeeper => None,
            Family::ClickHouseKeeper => {
                i32::try_from(self.settings.negotiate(request.timeout)).ok()
            }
            Family::RaftKeeper => Some(-1),
        };
        if let Some(timeout) = timeout {
            let rejected = Granted {
                protocol: REJECTED,
                timeout,
                session_id: -1,
                ..Granted::default()
            };
            self.reply_to_handshake(id, request, &rejected);
        }
        self.close(id);
    }

    /// Only ZooKeeper reports whether the server is read-only.
    fn reply_to_handshake(
        &mut self,
        id: ConnectionId,
        request: &ConnectRequest,
        granted: &Granted,
    ) {
        let reports_read_only = self.family() == Family::ZooKeeper && request.read_only.0.is_some();
        let response = ConnectResponse {
            protocol: granted.protocol,
            timeout: granted.timeout,
            session_id: granted.session_id,
            password: &granted.password[..],
            read_only: Trailing(reports_read_only.then_some(false)),
        };
        self.send(id, Output::Reply(handshake_frame(&response)));
    }

    /// The password in the reply to a handshake. Only ZooKeeper's sessions have one.
    fn password(&self, session_id: i64) -> [u8; 16] {
        match self.family() {
            Family::ZooKeeper => self.sessions.password(session_id),
            Family::ClickHouseKeeper | Family::RaftKeeper => [0; 16],
        }
    }
}
