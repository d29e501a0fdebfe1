//! A frame or record on a socket, and what a proxy changes in it.

use std::io;

use curator_client::codec::{Decode, Encode, Reader, Writer, framed};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::traffic::Alteration;

/// The size of a frame's length field, which the length does not include.
const LENGTH: usize = 4;
/// The header of a TLS record: type, version and length.
const RECORD_HEADER: usize = 5;
/// The type of the first record of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;
/// The type of a record with data. With TLS 1.3, it is also the type of the last handshake records.
const TLS_DATA: u8 = 0x17;
/// The longest accepted frame. It is far above the limit of any server, so a longer frame is not a
/// ZooKeeper frame.
const LONGEST: usize = 64 * 1024 * 1024;

/// The start of a handshake: the version of the protocol and the newest zxid, the timeout and the
/// session id.
///
/// Only the fields that a proxy changes are decoded. Any data may follow, because the real server
/// decides what it accepts.
type RequestStart = ((i32, i64), (i32, i64));
/// The start of the reply to a handshake: the version of the protocol and the timeout.
type ResponseStart = (i32, i32);

/// A ZooKeeper frame, including its length, or a TLS record, including its header.
///
/// The methods that change the contents are for frames, [`is_data`](Self::is_data) is for records.
/// The [`payload`](Self::payload) of a record starts after the first four bytes of its header.
#[derive(Debug)]
pub(crate) struct Frame(Vec<u8>);

impl Frame {
    /// Reads one frame. `None` if the stream ends before the whole length has arrived.
    pub(crate) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Self>> {
        let mut length = [0; LENGTH];
        match stream.read_exact(&mut length).await {
            Ok(_) => Self::read_after(length, stream).await.map(Some),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Reads the rest of a frame whose length has been read.
    pub(crate) async fn read_after(
        length: [u8; LENGTH],
        stream: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<Self> {
        let size = usize::try_from(i32::from_be_bytes(length))
            .ok()
            .filter(|size| *size <= LONGEST);
        let size = size
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a ZooKeeper frame"))?;
        let mut bytes = length.to_vec();
        bytes.resize(LENGTH + size, 0);
        stream.read_exact(&mut bytes[LENGTH..]).await?;
        Ok(Self(bytes))
    }

    /// Reads one TLS record, of which the bytes `begun` were already read. `None` if the stream
    /// ends before the record starts.
    pub(crate) async fn read_record(
        begun: &[u8],
        stream: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<Option<Self>> {
        let mut bytes = begun.to_vec();
        bytes.resize(RECORD_HEADER, 0);
        match stream.read_exact(&mut bytes[begun.len()..]).await {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof && begun.is_empty() => {
                return Ok(None);
            }
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
        Self(framed(&payload))
    }

    /// The reply to a handshake, with its session timeout multiplied by `factor`. If the session
    /// has ended, the timeout is 0 and stays 0.
    pub(crate) fn stretched(&self, factor: f64) -> Self {
        self.rewritten(|(_, timeout): &mut ResponseStart| {
            *timeout = (f64::from(*timeout) * factor) as i32;
        })
    }

    /// A handshake that asks for a new session instead of an existing one: id and password are
    /// replaced by zeros. The password may be null or truncated.
    pub(crate) fn for_a_new_session(&self) -> Self {
        let without_id = self.rewritten(|(_, (_, session_id)): &mut RequestStart| *session_id = 0);
        without_id.rewritten(|(_, password): &mut (RequestStart, Vec<u8>)| password.fill(0))
    }

    /// A copy of the frame with the record at its start changed. Unchanged if the frame does not
    /// start with such a record.
    fn rewritten<'a, T: Decode<'a> + Encode>(&'a self, change: impl FnOnce(&mut T)) -> Self {
        let mut reader = Reader::lenient(self.payload());
        let Ok(mut record) = reader.read::<T>("a handshake") else {
            return Self(self.0.clone());
        };
        change(&mut record);
        let mut writer = Writer::for_stream();
        writer.write(&record).raw(reader.rest());
        Self(writer.into_framed())
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

/// Whether a connection starts with a TLS record. Read as the length of a frame, these bytes would
/// be far too large.
pub(crate) fn is_tls(first: [u8; LENGTH]) -> bool {
    first[0] == TLS_HANDSHAKE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretching_a_handshake_reply_changes_only_its_timeout() {
        let answer = |timeout: i32| {
            [
                &[0, 0, 0, 16, 0, 0, 0, 0][..],
                &timeout.to_be_bytes(),
                &[7; 8],
                b"\0\0\0\x01p\0",
            ]
            .concat()
        };
        let stretched = |timeout, factor| {
            let mut bytes = answer(timeout);
            bytes[3] = (bytes.len() - LENGTH) as u8;
            Frame(bytes).stretched(factor).payload().to_vec()
        };
        assert_eq!(stretched(4000, 2.0), answer(8000)[LENGTH..]);
        assert_eq!(stretched(4000, 0.5), answer(2000)[LENGTH..]);
        assert_eq!(stretched(i32::MAX, 2.0), answer(i32::MAX)[LENGTH..]);
        assert_eq!(
            Frame(b"\0\0\0\x05torn!".to_vec()).stretched(2.0).payload(),
            b"torn!"
        );
    }

    #[test]
    fn a_handshake_for_a_new_session_keeps_everything_but_the_session() {
        let handshake = |session_id: i64, rest: &[u8]| {
            framed(&[&[9; 16], &session_id.to_be_bytes()[..], rest].concat())
        };
        for (rest, expected) in [
            (&b"\0\0\0\x02pw\x05"[..], &b"\0\0\0\x02\0\0\x05"[..]),
            (b"\0\0\0\x02pw", b"\0\0\0\x02\0\0"),
            // The password is null, truncated, and missing.
            (b"\xff\xff\xff\xff\x01", b"\xff\xff\xff\xff\x01"),
            (b"\0\0\0\x02p", b"\0\0\0\x02p"),
            (b"", b""),
        ] {
            assert_eq!(
                Frame(handshake(7, rest)).for_a_new_session().bytes(),
                handshake(0, expected),
                "{rest:?}"
            );
        }
        assert_eq!(
            Frame(b"\0\0\0\x05torn!".to_vec())
                .for_a_new_session()
                .payload(),
            b"torn!"
        );
    }

    #[tokio::test]
    async fn tls_records_are_distinguished_from_frames_and_read_whole() {
        assert!(is_tls([0x16, 3, 1, 0]) && !is_tls(45_i32.to_be_bytes()) && !is_tls(*b"mntr"));
        let mut stream: &[u8] = b"\x02ab\x17\x03\x03\0\0\x15\x03";
        let first = Frame::read_record(b"\x16\x03\x01\0", &mut stream)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            (first.bytes(), first.is_data()),
            (&b"\x16\x03\x01\0\x02ab"[..], false)
        );
        let second = Frame::read_record(b"", &mut stream).await.unwrap().unwrap();
        assert_eq!(
            (second.bytes(), second.is_data()),
            (&b"\x17\x03\x03\0\0"[..], true)
        );
        assert!(
            Frame::read_record(b"", &mut &b""[..])
                .await
                .unwrap()
                .is_none()
        );
        let mut torn: &[u8] = b"\x17\x03\x03\0\x02a";
        assert!(Frame::read_record(b"", &mut torn).await.is_err());
    }

    #[tokio::test]
    async fn frames_are_read_whole() {
        let mut stream: &[u8] = b"\0\0\0\x02ab\0\0\0\0";
        assert_eq!(
            Frame::read(&mut stream).await.unwrap().unwrap().payload(),
            b"ab"
        );
        assert_eq!(
            Frame::read(&mut stream).await.unwrap().unwrap().bytes(),
            [0; 4]
        );
        assert!(Frame::read(&mut stream).await.unwrap().is_none());
        let mut torn: &[u8] = b"\0\0\0\x09ab";
        assert!(Frame::read(&mut torn).await.is_err());
        let mut wrong: &[u8] = b"\xff\0\0\0ab";
        assert!(Frame::read(&mut wrong).await.is_err());
    }
}
