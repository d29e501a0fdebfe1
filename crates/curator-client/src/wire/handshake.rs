//! The first frames of a connection: the server's replies to them, and what can be wrong with
//! these.

use std::future::poll_fn;
use std::io;

#[cfg(feature = "native")]
use super::frames::InvalidLength;
use super::reply::Reply;
use super::request::{Request, auth, sasl};
use super::sasl::{Exchange, SaslFailure, Step};
use super::socket::Socket;
use crate::codec::{AUTH_XID, Malformed};
use crate::options::Credentials;
use crate::transport::{ErrorCode, RequestError};

/// The maximum number of tokens that a client sends. DIGEST-MD5 needs 2, and GSSAPI with Kerberos
/// 3.
const MOST_TOKENS: i32 = 8;

/// Why a handshake has failed.
pub(super) enum HandshakeFailure {
    /// The server has given a reply that the others would give too.
    Answered(RequestError),
    /// The reply cannot be read.
    Unreadable(String),
    Ended(io::Error),
    Sasl(SaslFailure),
}

impl HandshakeFailure {
    /// Whether the server reads nothing more from the connection.
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

/// Requests the end of the session of this connection. The reply is not awaited.
pub(super) fn close_session(socket: &Socket) {
    if let Ok(request) = Request::CloseSession.frame(MOST_TOKENS + 1) {
        socket.send(request);
    }
}

/// Sends the credentials of other schemes.
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
pub(super) async fn accepted(
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
