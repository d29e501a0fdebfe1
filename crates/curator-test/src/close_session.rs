//! Ends a client's session on the server.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    embedded::ConnectRequest,
    error::Error,
    op_code::OpCode,
    proxy::{ConnectResponse, ReplyHeader},
    real_time::{sleep, timeout},
};

/// A running server replies in milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(5);
/// Has to outlive this call; the server limits it to its range.
const SESSION_TIMEOUT_MS: i32 = 30_000;
/// No reply in this exchange is longer than a few hundred bytes.
const LONGEST_ANSWER: i32 = 64 * 1024;

/// What a client needs to resume a session: ZooKeeper's id and password for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "what ZooKeeper's handshake asks for; callers write it in full")]
pub struct SessionCredentials {
    /// ZooKeeper's id of the session.
    pub session_id: i64,
    /// The password that the server issued for it.
    pub password: Vec<u8>,
}

/// Closes a session on the server, without notice to its client: its ephemeral nodes and its watches are deleted when
/// this returns.
///
/// So another client may acquire the locks before the session's client is notified, as after the same action by an
/// administrator. To simulate an expiry, see [`EmbeddedServer::expire_session`](crate::EmbeddedServer::expire_session).
///
/// Works on any member of an ensemble. On the client's server, the take-over closes the client's connection; on another
/// one, the client is notified at its next request. Curator's tests kill sessions in the same way.
///
/// # Errors
///
/// [`Error::NoSession`] when the session has already ended or the password is wrong. [`Error::Timeout`] after 10 s.
pub async fn close_session(address: SocketAddr, session: &SessionCredentials) -> Result<(), Error> {
    let mut asked = false;
    let close = async {
        loop {
            match attempt(address, session, &mut asked).await {
                // The client has reconnected. Its take-over has closed our connection, as ours had closed its
                // connection.
                Err(Error::Io { source, .. }) if is_disconnect(&source) => sleep(PAUSE).await,
                // An earlier attempt succeeded, but its reply was lost.
                Err(Error::NoSession(_)) if asked => return Ok(()),
                result => return result,
            }
        }
    };
    let what = format!("session {:#x} to be closed", session.session_id);
    timeout(TIMEOUT, close).await.map_err(|_| Error::timeout(what, TIMEOUT))?
}

/// Takes the session over and closes it. Sets `asked` when the server has granted the take-over.
async fn attempt(address: SocketAddr, session: &SessionCredentials, asked: &mut bool) -> Result<(), Error> {
    let mut stream = TcpStream::connect(address).await.map_err(Error::io(format!("connect to {address}")))?;
    write(&mut stream, &connect_request(session).frame()).await?;
    let answer = receive(&mut stream).await?;
    let answer = ConnectResponse::parse(&answer).ok_or_else(|| Error::Protocol("no handshake".to_owned()))?;
    if answer.session_id != session.session_id {
        return Err(Error::NoSession(session.session_id));
    }
    *asked = true;
    let xid = 1_i32;
    let close = [8_i32, xid, OpCode::CloseSession.number()];
    write(&mut stream, &close.map(i32::to_be_bytes).concat()).await?;
    loop {
        let answer = receive(&mut stream).await?;
        let reply = ReplyHeader::parse(&answer).ok_or_else(|| Error::Protocol("no reply header".to_owned()))?;
        match reply.error {
            _ if reply.xid != xid => {}
            0 => return Ok(()),
            error => return Err(Error::Protocol(format!("closing the session failed with error {error}"))),
        }
    }
}

fn is_disconnect(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe)
}

fn connect_request(session: &SessionCredentials) -> ConnectRequest {
    ConnectRequest {
        last_zxid_seen: 0,
        timeout: SESSION_TIMEOUT_MS,
        session_id: session.session_id,
        password: session.password.clone(),
        read_only: Some(false),
    }
}

async fn write(stream: &mut TcpStream, frame: &[u8]) -> Result<(), Error> {
    stream.write_all(frame).await.map_err(Error::io("send to ZooKeeper"))
}

async fn receive(stream: &mut TcpStream) -> Result<Vec<u8>, Error> {
    let length = stream.read_i32().await.map_err(Error::io("read ZooKeeper's answer"))?;
    if !(0..=LONGEST_ANSWER).contains(&length) {
        return Err(Error::Protocol(format!("a frame of {length} bytes")));
    }
    let mut payload = vec![0; length.unsigned_abs() as usize];
    stream.read_exact(&mut payload).await.map_err(Error::io("read ZooKeeper's answer"))?;
    Ok(payload)
}
