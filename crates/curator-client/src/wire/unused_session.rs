//! A new session that no client uses yet: ends it on the server if the rest of the handshake fails.
//!
//! The server would otherwise keep one session for each attempt, until its timeout.

use std::sync::Arc;

use super::handshake::{close_session, receive};
use super::link::SessionKey;
use super::route::secure;
use super::socket::Socket;
use crate::codec::ConnectRequest;
use crate::connect_string::HostPort;
use crate::options::SessionOptions;
use crate::pass::Target;
use crate::process::Process;

/// The session of a connection that is being opened. Dropping it requests the end of a new session:
/// it writes what the system takes at once, and does not wait.
///
/// A server that requires SASL of each client does not close a session for a client whose exchange
/// has failed: this one ends at its timeout.
pub(super) struct UnusedSession {
    socket: Arc<Socket>,
    state: State,
    process: Process,
}

enum State {
    /// There is no session, it is not new, or a client uses it.
    NothingToClose,
    /// The server may have opened a session. The requests of a connection need no id.
    Requested,
    Granted(SessionKey),
}

impl UnusedSession {
    /// Without a session so far.
    pub(super) fn new(socket: &Arc<Socket>) -> Self {
        Self {
            socket: Arc::clone(socket),
            state: State::NothingToClose,
            process: Process::current(),
        }
    }

    /// A new session is about to be requested.
    pub(super) fn requested(&mut self) {
        self.state = State::Requested;
    }

    /// The server has granted a new session.
    pub(super) fn granted(&mut self, key: &SessionKey) {
        self.state = State::Granted(key.clone());
    }

    /// The client uses the session.
    pub(super) fn used(mut self) {
        self.state = State::NothingToClose;
    }

    /// Ends the session over another connection, if the server has granted one. A server that
    /// refuses credentials ends the connection, and reads nothing more from it. A session whose
    /// future is dropped meanwhile ends at its timeout.
    pub(super) async fn close_over_another_connection(
        mut self,
        server: &HostPort,
        target: &Target,
        options: &SessionOptions,
    ) {
        let State::Granted(key) = std::mem::replace(&mut self.state, State::NothingToClose) else {
            return;
        };
        let Ok(socket) = key.route.connect(server, target).await else {
            return;
        };
        if secure(&socket, server, options).await.is_err() {
            return;
        }
        let timeout = i32::try_from(key.timeout.as_millis()).unwrap_or(i32::MAX);
        let resumed = ConnectRequest::new(timeout, key.session_id, &*key.password);
        socket.together(|| {
            socket.send(resumed.frame());
            close_session(&socket);
        });
        // The replies to both, or the end of the connection: either way, there is nothing left to
        // do.
        for _ in 0..2 {
            if receive(&socket).await.is_err() {
                return;
            }
        }
    }
}

/// A simulated process that loses its futures has crashed, and requests nothing. In a forked child,
/// the connection is the parent's.
impl Drop for UnusedSession {
    fn drop(&mut self) {
        if !matches!(self.state, State::NothingToClose)
            && matches!(*self.socket, Socket::Tcp(_))
            && !self.process.has_forked()
        {
            close_session(&self.socket);
        }
    }
}
