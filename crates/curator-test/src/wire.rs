//! The protocol on a connection, as clients and servers of any kind share it: kinds of requests,
//! sessions, and frames on a socket. The codec is in `curator-client`.

use std::{fmt, io, time::Duration};

pub use curator_client::codec::OpCode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, sink},
    net::{TcpStream, tcp::ReadHalf},
    time::timeout,
};

/// What a client needs to resume a session: ZooKeeper's id and password for it.
#[derive(Clone, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the fields that ZooKeeper's handshake needs; callers construct it"
)]
pub struct SessionCredentials {
    /// ZooKeeper's id of the session.
    pub session_id: i64,
    /// The password that the server issued for the session.
    pub password: Vec<u8>,
}

/// Omits the password.
impl fmt::Debug for SessionCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCredentials")
            .field("session_id", &self.session_id)
            .finish_non_exhaustive()
    }
}

/// How long a client may keep sending after its connection was closed.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// The four-letter words of the real server. Other bytes at the start of a connection are the
/// length of a frame.
const FOUR_LETTER_WORDS: [&[u8; 4]; 18] = [
    b"conf", b"cons", b"crst", b"dirs", b"dump", b"envi", b"gtmk", b"hash", b"isro", b"mntr",
    b"ruok", b"srst", b"srvr", b"stat", b"stmk", b"wchc", b"wchp", b"wchs",
];

/// Whether the first four bytes of a connection are a four-letter word.
pub(crate) fn is_word(first: [u8; 4]) -> bool {
    FOUR_LETTER_WORDS.iter().any(|word| **word == first)
}

/// The first bytes of a connection.
pub(crate) enum First {
    Word([u8; 4]),
    Frame(Vec<u8>),
}

pub(crate) async fn first_frame(client: &mut ReadHalf<'_>, max_frame: usize) -> io::Result<First> {
    let length = client.read_i32().await?.to_be_bytes();
    if is_word(length) {
        return Ok(First::Word(length));
    }
    Ok(First::Frame(frame(length, client, max_frame).await?))
}

/// Reads the payload of a frame.
pub(crate) async fn next_frame(client: &mut ReadHalf<'_>, max_frame: usize) -> io::Result<Vec<u8>> {
    let length = client.read_i32().await?.to_be_bytes();
    frame(length, client, max_frame).await
}

/// Reads the payload of a frame whose length has already been read.
async fn frame(
    length: [u8; 4],
    client: &mut ReadHalf<'_>,
    max_frame: usize,
) -> io::Result<Vec<u8>> {
    let length = usize::try_from(i32::from_be_bytes(length))
        .ok()
        .filter(|length| *length <= max_frame);
    let mut payload = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
    client.read_exact(&mut payload).await?;
    Ok(payload)
}

/// Ends the outgoing stream, then reads until the client closes the connection. Closing a socket
/// with unread data would reset the connection, and the client could lose what it has not read yet.
/// Returns true if the client closed without a reset, which shows that it has read everything.
pub(crate) async fn close_lingering(mut client: TcpStream) -> bool {
    // Fails if the connection is already broken or cut.
    client.shutdown().await.is_ok()
        && matches!(
            timeout(LINGER_TIMEOUT, copy(&mut client, &mut sink())).await,
            Ok(Ok(_))
        )
}
