//! Grants new sessions, resumes existing ones, and expires them; as time passes, also removes nodes.

use curator_client::codec::{ConnectResponse, Reader, Trailing};

use super::{Change, Now, Output, Packets, Processor};
use crate::{
    OpCode,
    embedded::{
        codec::{ConnectRequest, Write, handshake_frame},
        faults::RequestInfo,
        sessions::{Attached, ConnectionId, Millis},
    },
};

impl Processor {
    /// Parses the first frame of a connection. Closes the connection if it is not a handshake.
    pub(super) fn greet(&mut self, id: ConnectionId, payload: &[u8]) -> Option<ConnectRequest> {
        let request = Reader::lenient(payload).read("a handshake").ok();
        // A client that has seen later transactions than this server must not read older data.
        let request =
            request.filter(|request: &ConnectRequest| request.last_zxid_seen <= self.zxid);
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
        let timeout = self.settings.negotiate(request.timeout);
        let session = match request.session_id {
            0 => Some(self.create_session(timeout, now)),
            session_id => {
                let password = request.password.as_deref().unwrap_or_default();
                self.resume_session(id, session_id, password, timeout, now)
            }
        };
        self.answer_handshake(id, session, timeout, request.read_only.0.is_some());
        RequestInfo::new(OpCode::CreateSession, None, session.unwrap_or_default())
    }

    fn create_session(&mut self, timeout: Millis, now: Now) -> i64 {
        let id = self.next_session;
        self.next_session += 1;
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
        if password != self.sessions.password(session_id) {
            return None;
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.refused_session = self.sessions.has_ended(session_id).then_some(session_id);
        }
        self.sessions
            .touch(session_id, timeout, now.monotonic)
            .then_some(session_id)
    }

    /// Grants a session to a connection. If `session` is `None`, refuses it and closes the
    /// connection.
    pub(crate) fn answer_handshake(
        &mut self,
        id: ConnectionId,
        session: Option<i64>,
        timeout: Millis,
        read_only_known: bool,
    ) {
        let response = ConnectResponse {
            protocol: 0,
            timeout: if session.is_some() {
                i32::try_from(timeout).unwrap_or(i32::MAX)
            } else {
                0
            },
            session_id: session.unwrap_or_default(),
            password: &session.map_or([0; 16], |session_id| self.sessions.password(session_id))[..],
            read_only: Trailing(read_only_known.then_some(false)),
        };
        if let (Some(session_id), Some(connection)) = (session, self.connections.get_mut(&id)) {
            connection.session = Some(Attached {
                id: session_id,
                timeout,
            });
        }
        self.send(id, Output::Reply(handshake_frame(&response)));
        if session.is_none() {
            self.close(id);
        }
    }
}

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
