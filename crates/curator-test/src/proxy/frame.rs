//! Parses the part of ZooKeeper's wire format that a proxy needs.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

use super::faults::Alteration;
use crate::OpCode;

/// The size of a frame's length field, which the length does not include.
const LENGTH: usize = 4;
/// The header of a TLS record: type, version and length.
const RECORD_HEADER: usize = 5;
/// The type of the first record of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;
/// The type of a record with data. With TLS 1.3, it is also the type of the last handshake records.
const TLS_DATA: u8 = 0x17;
/// Far above the limit of any server; a longer frame is not a ZooKeeper frame.
const LONGEST: usize = 64 * 1024 * 1024;
/// The xid of a watch event, which answers no request.
const NOTIFICATION: i32 = -1;

/// The offset of the session timeout, in milliseconds, in the reply to a handshake.
const TIMEOUT: usize = 4;

/// The offset of the session id in a handshake, after the protocol version, the last zxid and the timeout.
const SESSION: usize = 16;
/// The offset of the session's password, which follows the session id and its own length.
const PASSWORD: usize = SESSION + 12;

/// A request begins with its xid and its kind.
const HEADER: usize = 8;

/// The reply to a handshake.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConnectResponse {
    pub(crate) session_id: i64,
    pub(crate) password: Vec<u8>,
}

/// The start of each request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestHeader {
    pub(crate) xid: i32,
    pub(crate) op: OpCode,
}

/// The start of each reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReplyHeader {
    pub(crate) xid: i32,
    pub(crate) error: i32,
}

impl ConnectResponse {
    /// The format is: protocol version, timeout, session, password.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let session_id = i64::from_be_bytes(payload.get(8..)?.first_chunk().copied()?);
        let length = usize::try_from(int(payload, 16)?).ok()?;
        let password = payload.get(20..)?.get(..length)?.to_vec();
        Some(Self { session_id, password })
    }

    /// Multiplies the timeout, which follows the protocol version. For a session that has ended it is 0, and stays so.
    fn stretch(payload: &mut [u8], factor: f64) {
        if let (Some(timeout), Some(field)) = (int(payload, TIMEOUT), payload.get_mut(TIMEOUT..TIMEOUT + 4)) {
            let stretched = (f64::from(timeout) * factor) as i32;
            field.copy_from_slice(&stretched.to_be_bytes());
        }
    }
}

impl RequestHeader {
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        Some(Self { xid: int(payload, 0)?, op: int(payload, 4)?.into() })
    }
}

/// The path of a request; for a request with several operations, the path of the first. `None` without a path.
pub(crate) fn path(op: OpCode, payload: &[u8]) -> Option<&[u8]> {
    // In a request with several operations, each follows a header of 9 bytes: its type, an end flag, an error.
    let at = if matches!(op, OpCode::Multi | OpCode::MultiRead) { HEADER + 9 } else { HEADER };
    let length = usize::try_from(int(payload, at)?).ok()?;
    payload.get(at + 4..)?.get(..length)
}

impl ReplyHeader {
    /// The format is: xid, zxid, error.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        Some(Self { xid: int(payload, 0)?, error: int(payload, 12)? })
    }

    pub(crate) fn is_notification(&self) -> bool {
        self.xid == NOTIFICATION
    }
}

fn int(payload: &[u8], at: usize) -> Option<i32> {
    payload.get(at..)?.first_chunk().copied().map(i32::from_be_bytes)
}

/// A whole frame, including its length.
#[derive(Debug)]
pub(crate) struct Frame(Vec<u8>);

impl Frame {
    /// Reads one frame; `None` if the stream ends before it starts.
    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
        let mut length = [0; LENGTH];
        match stream.read_exact(&mut length).await {
            Ok(_) => Self::read_after(length, stream).await.map(Some),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Reads the rest of a frame whose length has been read.
    pub(crate) async fn read_after(length: [u8; LENGTH], stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let size = usize::try_from(i32::from_be_bytes(length)).ok().filter(|size| *size <= LONGEST);
        let size = size.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a ZooKeeper frame"))?;
        let mut bytes = length.to_vec();
        bytes.resize(LENGTH + size, 0);
        stream.read_exact(&mut bytes[LENGTH..]).await?;
        Ok(Self(bytes))
    }

    /// Reads one TLS record, of which `begun` was read already; `None` if the stream ends before it starts.
    pub(crate) async fn read_record(begun: &[u8], stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
        let mut bytes = begun.to_vec();
        bytes.resize(RECORD_HEADER, 0);
        match stream.read_exact(&mut bytes[begun.len()..]).await {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof && begun.is_empty() => return Ok(None),
            Err(e) => return Err(e),
        }
        let length = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
        bytes.resize(RECORD_HEADER + length, 0);
        stream.read_exact(&mut bytes[RECORD_HEADER..]).await?;
        Ok(Some(Self(bytes)))
    }

    /// Whether this is a TLS record with application data.
    pub(crate) fn is_data(&self) -> bool {
        self.0.first() == Some(&TLS_DATA)
    }

    /// A frame with altered contents.
    pub(crate) fn altered(self, alteration: Alteration) -> Self {
        let mut payload = self.0[LENGTH..].to_vec();
        alteration.apply(&mut payload);
        // A frame too long for its length field is invalid; no test needs one.
        let length = i32::try_from(payload.len()).unwrap_or(i32::MAX);
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.append(&mut payload);
        Self(bytes)
    }

    /// The reply to a handshake, with another session timeout.
    pub(crate) fn stretched(mut self, factor: f64) -> Self {
        ConnectResponse::stretch(&mut self.0[LENGTH..], factor);
        self
    }

    /// A handshake that asks for a new session: without the id and the password of an existing one.
    pub(crate) fn for_a_new_session(mut self) -> Self {
        let payload = &mut self.0[LENGTH..];
        let password = int(payload, PASSWORD - 4).and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
        for field in [SESSION..SESSION + 8, PASSWORD..PASSWORD.saturating_add(password)] {
            if let Some(field) = payload.get_mut(field) {
                field.fill(0);
            }
        }
        self
    }

    /// All bytes, as sent over the wire.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes after the length.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.0[LENGTH..]
    }
}

/// Whether a connection starts with a four-letter word rather than with a frame.
pub(crate) fn is_four_letter_word(first: [u8; LENGTH]) -> bool {
    first.iter().all(u8::is_ascii_lowercase)
}

/// Whether a connection starts with a TLS record. As the length of a frame, these bytes would be far too large.
pub(crate) fn is_tls(first: [u8; LENGTH]) -> bool {
    first[0] == TLS_HANDSHAKE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretching_a_handshake_reply_changes_only_its_timeout() {
        let answer =
            |timeout: i32| [&[0, 0, 0, 16, 0, 0, 0, 0][..], &timeout.to_be_bytes(), &[7; 8], b"\0\0\0\x01p\0"].concat();
        let stretched = |timeout, factor| {
            let mut bytes = answer(timeout);
            bytes[3] = (bytes.len() - LENGTH) as u8;
            Frame(bytes).stretched(factor).payload().to_vec()
        };
        assert_eq!(stretched(4000, 2.0), answer(8000)[LENGTH..]);
        assert_eq!(stretched(4000, 0.5), answer(2000)[LENGTH..]);
        assert_eq!(stretched(i32::MAX, 2.0), answer(i32::MAX)[LENGTH..]);
        assert_eq!(Frame(b"\0\0\0\x05torn!".to_vec()).stretched(2.0).payload(), b"torn!");
    }

    #[test]
    fn a_handshake_for_a_new_session_keeps_everything_but_the_session() {
        let handshake = |session: [u8; 8], password: &[u8; 2]| {
            let payload = [&[9; SESSION][..], &session, &[0, 0, 0, 2], password, &[1]].concat();
            let length = u8::try_from(payload.len()).unwrap();
            Frame([&[0, 0, 0, length][..], &payload].concat())
        };
        let new = handshake([7; 8], b"pw").for_a_new_session();
        assert_eq!(new.bytes(), handshake([0; 8], b"\0\0").bytes());
        assert_eq!(Frame(b"\0\0\0\x05torn!".to_vec()).for_a_new_session().payload(), b"torn!");
    }

    #[tokio::test]
    async fn tls_records_are_distinguished_from_frames_and_read_whole() {
        assert!(is_tls([0x16, 3, 1, 0]) && !is_tls(45_i32.to_be_bytes()) && !is_tls(*b"mntr"));
        let mut stream: &[u8] = b"\x02ab\x17\x03\x03\0\0\x15\x03";
        let first = Frame::read_record(b"\x16\x03\x01\0", &mut stream).await.unwrap().unwrap();
        assert_eq!((first.bytes(), first.is_data()), (&b"\x16\x03\x01\0\x02ab"[..], false));
        let second = Frame::read_record(b"", &mut stream).await.unwrap().unwrap();
        assert_eq!((second.bytes(), second.is_data()), (&b"\x17\x03\x03\0\0"[..], true));
        assert!(Frame::read_record(b"", &mut &b""[..]).await.unwrap().is_none());
        let mut torn: &[u8] = b"\x17\x03\x03\0\x02a";
        assert!(Frame::read_record(b"", &mut torn).await.is_err());
    }

    #[tokio::test]
    async fn frames_are_read_whole() {
        let mut stream: &[u8] = b"\0\0\0\x02ab\0\0\0\0";
        assert_eq!(Frame::read(&mut stream).await.unwrap().unwrap().payload(), b"ab");
        assert_eq!(Frame::read(&mut stream).await.unwrap().unwrap().bytes(), [0; 4]);
        assert!(Frame::read(&mut stream).await.unwrap().is_none());
        let mut torn: &[u8] = b"\0\0\0\x09ab";
        assert!(Frame::read(&mut torn).await.is_err());
        let mut wrong: &[u8] = b"\xff\0\0\0ab";
        assert!(Frame::read(&mut wrong).await.is_err());
        // A length that is negative, or exceeds the frame, is not that of a path.
        assert_eq!(path(OpCode::Sync, b"\0\0\0\x01\0\0\0\x09\xff\xff\xff\xff/"), None);
        assert_eq!(path(OpCode::Sync, b"\0\0\0\x01\0\0\0\x09\0\0\0\x02/"), None);
    }
}
