//! Tests whether a server that does not accept a client speaks TLS.
//!
//! Nothing here has a deadline: the caller drops the future when its time has passed.

use async_net::TcpStream;
use futures_util::{AsyncReadExt as _, AsyncWriteExt as _};

/// A four-letter word that every plain ZooKeeper server answers, even one that does not serve
/// requests: with the word's result, or with the message that the word is not permitted. The server
/// then closes the connection. ZooKeeper reads only the first four bytes; a TLS server needs five
/// to see that this is not TLS.
pub(super) const WORD: &[u8; 5] = b"srvr\n";

/// The beginning of a TLS handshake, in the format of TLS 1.0, which every TLS server recognises. A
/// TLS server answers with a handshake or an alert; a plain ZooKeeper reads the first bytes as the
/// length of a request, 369 MB, and closes the connection, unless `jute.maxbuffer` is larger still.
#[rustfmt::skip]
const CLIENT_HELLO: [u8; 52] = [
    // Record: handshake, TLS 1.0, 47 bytes.
    0x16, 3, 1, 0, 47,
    // Handshake: client hello, 43 bytes, TLS 1.2.
    1, 0, 0, 43, 3, 3,
    // Random bytes, which need not be random, because this handshake is never finished.
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
    // No session; two cipher suites, one of them TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256; no
    // compression.
    0, 0, 4, 0xc0, 0x2f, 0, 0xff, 1, 0,
];

/// Whether the server at the other end of a new connection speaks TLS.
pub(super) async fn speaks_tls(mut stream: TcpStream) -> bool {
    // The reply counts, even if the server closes the connection during the write.
    drop(stream.write_all(&CLIENT_HELLO).await);
    let mut first = [0];
    let is_record = |first| matches!(first, 0x15 | 0x16);
    matches!(stream.read(&mut first).await, Ok(1)) && is_record(first[0])
}

/// Whether the server at the other end of a new connection is a plain ZooKeeper.
pub(super) async fn speaks_plainly(mut stream: TcpStream) -> bool {
    drop(stream.write_all(WORD).await);
    let mut first = [0];
    // A TLS alert does not begin with a letter.
    matches!(stream.read(&mut first).await, Ok(1)) && first[0].is_ascii_alphabetic()
}
