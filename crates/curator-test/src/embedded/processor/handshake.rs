//! Grants new sessions, and resumes existing ones.

use super::{Now, Output, Processor};
use crate::{
    OpCode,
    embedded::{
        codec::{ConnectRequest, ConnectResponse},
        connection::{Attached, ConnectionId},
        request_info::RequestInfo,
        sessions::Millis,
    },
};

impl Processor {
    /// Processes the first frame of a connection.
    pub(super) fn handshake(&mut self, id: ConnectionId, payload: &[u8], now: Now) -> Option<RequestInfo> {
        let Ok(request) = ConnectRequest::parse(payload) else {
            self.close(id);
            return None;
        };
        // A client that has seen later transactions than this server must not read older data.
        if request.last_zxid_seen > self.zxid {
            self.close(id);
            return None;
        }
        let timeout = self.settings.negotiate(request.timeout);
        let session = match request.session_id {
            0 => Some(self.create_session(timeout, now)),
            session_id => self.resume_session(id, session_id, &request.password, timeout, now),
        };
        let info = RequestInfo::new(OpCode::CreateSession, None, session.unwrap_or_default());
        self.answer_handshake(id, session, timeout, request.read_only.is_some());
        Some(info)
    }

    fn create_session(&mut self, timeout: Millis, now: Now) -> i64 {
        self.zxid += 1;
        self.sessions.create(timeout, now.monotonic)
    }

    /// `None` if the session has ended, or the password is wrong. In any case, as on the real server, the session's
    /// other connection is closed.
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
            connection.refused_session = self.sessions.is_over(session_id).then_some(session_id);
        }
        self.sessions.touch(session_id, timeout, now.monotonic).then_some(session_id)
    }

    fn answer_handshake(&mut self, id: ConnectionId, session: Option<i64>, timeout: Millis, read_only_known: bool) {
        let response = match session {
            Some(session_id) => ConnectResponse {
                timeout: i32::try_from(timeout).unwrap_or(i32::MAX),
                session_id,
                password: self.sessions.password(session_id),
                read_only_known,
            },
            None => ConnectResponse::refusal(read_only_known),
        };
        if let (Some(session_id), Some(connection)) = (session, self.connections.get_mut(&id)) {
            connection.session = Some(Attached { id: session_id, timeout });
        }
        self.send(id, Output::Reply(response.frame()));
        if session.is_none() {
            self.close(id);
        }
    }
}
