//! The first frames of a connection, and the close of a new session whose handshake fails.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

#[cfg(feature = "native")]
use super::frames::InvalidLength;
use super::link::SessionKey;
use super::reply::Reply;
use super::request::{Request, auth, sasl};
use super::route::{Socket, secure};
use super::sasl::{Exchange, SaslFailure, Step};
use crate::codec::{AUTH_XID, ConnectRequest, Malformed};
use crate::connect_string::HostPort;
use crate::options::{Credentials, SessionOptions};
use crate::pass::Target;
use crate::process::Process;
use crate::transport::{ErrorCode, RequestError};

/// The maximum number of tokens that a client sends. DIGEST-MD5 needs 2, and GSSAPI with Kerberos
/// 3.
const MOST_TOKENS: i32 = 8;

/// Why a handshake has failed.
pub(super) enum HandshakeFailure {
    /// The server has given a reply that the other servers would give too.
    Answered(RequestError),
    /// The server grants no session now.
    NotReady,
    /// The reply cannot be read.
    Unreadable(String),
    Ended(io::Error),
    Sasl(SaslFailure),
}

impl HandshakeFailure {
    /// Whether the server will read nothing more from the connection.
    pub(super) fn ends_connection(&self) -> bool {
        matches!(self, Self::Answered(_) | Self::Ended(_))
    }
}

impl From<Malformed> for HandshakeFailure {
    fn from(malformed: Malformed) -> Self {
        Self::Unreadable(malformed.to_string())
    }
}

impl From<io::Error> for HandshakeFailure {
    fn from(error: io::Error) -> Self {
        #[cfg(feature = "native")]
        let error = match error.downcast::<InvalidLength>() {
            Ok(invalid) => return Self::Unreadable(invalid.to_string()),
            Err(other) => other,
        };
        Self::Ended(error)
    }
}

impl From<SaslFailure> for HandshakeFailure {
    fn from(failure: SaslFailure) -> Self {
        Self::Sasl(failure)
    }
}

impl From<ErrorCode> for HandshakeFailure {
    fn from(code: ErrorCode) -> Self {
        Self::Answered(RequestError::Code(code))
    }
}

pub(super) async fn receive(socket: &Socket) -> io::Result<Vec<u8>> {
    poll_fn(|cx| socket.poll_receive(cx)).await
}

/// Sends the first token of an exchange.
pub(super) fn send_first_token(socket: &Socket, token: &[u8]) {
    socket.send(sasl(1, token));
}

/// Continues an exchange whose first token was sent, until both sides are authenticated.
pub(super) async fn authenticate(
    socket: &Socket,
    mut exchange: Exchange,
) -> Result<(), HandshakeFailure> {
    for xid in 1..=MOST_TOKENS {
        let frame = receive(socket).await?;
        let reply = Reply::parse(&frame)?;
        if reply.xid != xid {
            return Err(reply.unexpected().into());
        }
        let token = reply.body.map_err(refused)?.token()?;
        let (next, step) = exchange.step(token).await?;
        match step {
            Step::Done => return Ok(()),
            Step::Respond(token) => socket.send(sasl(xid + 1, &token)),
        }
        exchange = next;
    }
    Err(SaslFailure::Failed(format!(
        "the server has not finished after {MOST_TOKENS} steps"
    ))
    .into())
}

/// What the error in a reply to a token means.
fn refused(code: ErrorCode) -> HandshakeFailure {
    let error = RequestError::Code(code);
    if error.is_auth_failed() || error.ends_session() {
        return HandshakeFailure::Answered(error);
    }
    SaslFailure::Failed(error.to_string()).into()
}

/// Requests to close the session of this connection. Does not wait for the reply.
pub(super) fn close_session(socket: &Socket) {
    if let Ok(request) = Request::CloseSession.frame(MOST_TOKENS + 1) {
        socket.send(request);
    }
}

/// Sends the credentials of the schemes other than SASL.
pub(super) fn send_credentials(socket: &Socket, credentials: &[Credentials]) {
    for Credentials {
        scheme,
        auth: secret,
    } in credentials
    {
        socket.send(auth(scheme, secret));
    }
}

/// Awaits the replies to [`send_credentials`].
pub(super) async fn await_auth_replies(
    socket: &Socket,
    credentials: &[Credentials],
) -> Result<(), HandshakeFailure> {
    for _ in credentials {
        let frame = receive(socket).await?;
        let reply = Reply::parse(&frame)?;
        if reply.xid != AUTH_XID {
            return Err(reply.unexpected().into());
        }
        reply.body?;
    }
    Ok(())
}

/// The session of a connection that is being opened. Dropping it requests to close a new session:
/// the drop writes what the system accepts at once, and does not wait.
///
/// A server that requires SASL does not close a session for a client whose exchange has failed:
/// such a session ends at its timeout.
pub(super) struct UnusedSession {
    socket: Arc<Socket>,
    state: State,
    process: Process,
}

enum State {
    /// There is no session, it is not new, or a client uses it.
    NothingToClose,
    /// The server may have opened a session. A request over its connection needs no session id.
    Requested,
    Granted(SessionKey),
}

impl UnusedSession {
    /// No session has been requested yet.
    pub(super) fn new(socket: &Arc<Socket>) -> Self {
        Self {
            socket: Arc::clone(socket),
            state: State::NothingToClose,
            process: Process::current(),
        }
    }

    /// Records that a new session is about to be requested.
    pub(super) fn requested(&mut self) {
        self.state = State::Requested;
    }

    /// Records that the server has granted a new session.
    pub(super) fn granted(&mut self, key: &SessionKey) {
        self.state = State::Granted(key.clone());
    }

    /// Records that the client uses the session.
    pub(super) fn used(mut self) {
        self.state = State::NothingToClose;
    }

    /// Closes the session over another connection, if the server has granted a session: a server
    /// that refuses credentials reads nothing more from the first connection. If this future is
    /// dropped, the session ends at its timeout.
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
        // Waits for both replies, or for the end of the connection.
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
