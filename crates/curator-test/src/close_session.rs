//! Ends a client's session on the server.

use std::{io, net::SocketAddr, time::Duration};

use curator_client::codec::{
    ConnectRequest, ConnectResponse, Control, Decode, Reader, ReplyHeader, frame, framed,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    error::Error,
    wait::{sleep, timeout},
    wire::SessionCredentials,
};

/// The time limit of a call. A server replies within milliseconds, or seconds on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The time limit of the first attempt. If the session is already closing, ZooKeeper drops a
/// request without a reply, and keeps the connection open. This happens when the client's reconnect
/// has interrupted the previous attempt, whose request the server still processes. The server may
/// also be slow, so an attempt that exceeds its limit doubles the limit of the next attempt.
const FIRST_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(5);
/// The session timeout that is requested when taking over the session. It must be longer than
/// `TIMEOUT`. The server clamps it to its limits.
const SESSION_TIMEOUT_MS: i32 = 30_000;
/// No reply in this exchange is longer than a few hundred bytes.
const LONGEST_REPLY: i32 = 64 * 1024;

/// Closes a session on the server, without notice to its client. The session's ephemeral nodes and
/// watches are deleted when this returns.
///
/// So another client may acquire the session's locks before the session's client is notified, as
/// when an administrator closes the session. To simulate an expiry, see
/// [`EmbeddedServer::expire_session`](crate::EmbeddedServer::expire_session).
///
/// Works on any member of an ensemble. On the server that the client is connected to, the client's
/// connection is closed; on another member, the client is notified at its next request. Curator's
/// tests kill sessions in the same way.
///
/// # Errors
///
/// [`Error::NoSession`] when the session has already ended or the password is wrong.
/// [`Error::Timeout`] after 20 s.
pub async fn close_session(address: SocketAddr, session: &SessionCredentials) -> Result<(), Error> {
    let mut is_granted = false;
    let mut limit = FIRST_ATTEMPT_TIMEOUT;
    let close = async {
        loop {
            let Ok(closed) = timeout(limit, attempt(address, session, &mut is_granted)).await
            else {
                limit *= 2;
                continue;
            };
            match closed {
                // The client has reconnected and taken its session back, which has closed our
                // connection.
                Err(Error::Io { source, .. }) if is_disconnect(&source) => sleep(PAUSE).await,
                // An earlier attempt succeeded, but its reply was lost.
                Err(Error::NoSession(_)) if is_granted => return Ok(()),
                result => return result,
            }
        }
    };
    let what = format!("session {:#x} to be closed", session.session_id);
    timeout(TIMEOUT, close)
        .await
        .map_err(|_| Error::timeout(what, TIMEOUT))?
}

/// Takes the session over and closes it. Sets `is_granted` when the server has granted the
/// take-over.
async fn attempt(
    address: SocketAddr,
    session: &SessionCredentials,
    is_granted: &mut bool,
) -> Result<(), Error> {
    let mut stream = TcpStream::connect(address)
        .await
        .map_err(Error::io(format!("connect to {address}")))?;
    let connect = ConnectRequest::new(SESSION_TIMEOUT_MS, session.session_id, &*session.password);
    write(&mut stream, &connect.frame()).await?;
    let answer = receive(&mut stream).await?;
    let answer: ConnectResponse<&[u8]> = read(&answer)?;
    if answer.session_id != session.session_id {
        return Err(Error::NoSession(session.session_id));
    }
    *is_granted = true;
    let xid = 1_i32;
    let close: Control<&str, &str, &[u8]> = Control::CloseSession {};
    write(&mut stream, &frame(xid, &close)).await?;
    loop {
        let answer = receive(&mut stream).await?;
        let reply: ReplyHeader = read(&answer)?;
        match reply.error {
            _ if reply.xid != xid => {}
            0 => return Ok(()),
            error => {
                return Err(Error::Protocol(format!(
                    "closing the session failed with error {error}"
                )));
            }
        }
    }
}

fn is_disconnect(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(
        error.kind(),
        UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe
    )
}

/// Reads the values at the start of a frame.
pub(crate) fn read<'a, T: Decode<'a>>(frame: &'a [u8]) -> Result<T, Error> {
    Reader::new(frame)
        .read("a reply")
        .map_err(|malformed| Error::Protocol(malformed.to_string()))
}

/// Sends a frame, with its length before it.
pub(crate) async fn write(stream: &mut TcpStream, frame: &[u8]) -> Result<(), Error> {
    stream
        .write_all(&framed(frame))
        .await
        .map_err(Error::io("send to ZooKeeper"))
}

/// Reads the payload of the next frame.
pub(crate) async fn receive(stream: &mut TcpStream) -> Result<Vec<u8>, Error> {
    let length = stream
        .read_i32()
        .await
        .map_err(Error::io("read ZooKeeper's reply"))?;
    if !(0..=LONGEST_REPLY).contains(&length) {
        return Err(Error::Protocol(format!("a frame of {length} bytes")));
    }
    let mut payload = vec![0; length.unsigned_abs() as usize];
    stream
        .read_exact(&mut payload)
        .await
        .map_err(Error::io("read ZooKeeper's reply"))?;
    Ok(payload)
}

#[cfg(test)]
mod tests {
    use curator_client::codec::Trailing;
    use tokio::net::TcpListener;

    use super::*;

    /// The reply to a handshake: grants the session, or refuses it if `session_id` is 0.
    fn response(session_id: i64) -> Vec<u8> {
        let password = &[0_u8; 16][..];
        ConnectResponse {
            protocol: 0,
            timeout: 30_000,
            session_id,
            password,
            read_only: Trailing(Some(false)),
        }
        .frame()
    }

    /// The server acts as if the session were closing: it grants the take-over, and drops the
    /// request to close.
    #[tokio::test]
    async fn an_attempt_whose_request_is_dropped_is_repeated() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let credentials = SessionCredentials {
            session_id: 7,
            password: vec![0; 16],
        };
        let server = tokio::spawn(async move {
            let mut silent = accept(&listener, &response(7)).await;
            // The request to close the session.
            receive(&mut silent).await.unwrap();
            accept(&listener, &response(0)).await;
            // The first connection stays open until here.
            drop(silent);
        });
        close_session(address, &credentials).await.unwrap();
        server.await.unwrap();
    }

    #[tokio::test]
    async fn a_further_attempt_waits_longer_for_a_slow_server() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let credentials = SessionCredentials {
            session_id: 7,
            password: vec![0; 16],
        };
        let server = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                // This and the write may fail, because the attempt may have ended.
                drop(receive(&mut stream).await);
                sleep(FIRST_ATTEMPT_TIMEOUT.mul_f64(1.2)).await;
                drop(write(&mut stream, &response(0)).await);
            }
        });
        let error = close_session(address, &credentials).await.unwrap_err();
        assert!(matches!(error, Error::NoSession(7)), "{error}");
        server.abort();
    }

    async fn accept(listener: &TcpListener, response: &[u8]) -> TcpStream {
        let (mut stream, _) = listener.accept().await.unwrap();
        receive(&mut stream).await.unwrap();
        write(&mut stream, response).await.unwrap();
        stream
    }
}
