//! The frames of a stream of bytes, each prefixed with its length, with or without TLS. No I/O.

use std::io;
#[cfg(feature = "tls")]
use std::io::{Read as _, Write as _};

#[cfg(feature = "tls")]
use rustls::ClientConnection;

use crate::codec::append;

/// The longest frame. A server limits requests, but not its replies: the longest reply is a list of
/// children.
const LONGEST: usize = 256 << 20;
/// The longest frame of a handshake, including SASL: the server is not trusted yet.
const LONGEST_OF_HANDSHAKE: usize = 64 << 10;

const PREFIX: usize = 4;

/// The bytes of a stream that are not yet taken as frames.
///
/// A length is not trusted: memory is allocated only for bytes that have arrived.
pub(super) struct Frames {
    bytes: Vec<u8>,
    /// The beginning of the frame that was taken last, which may not have been processed yet.
    taken: usize,
    /// The beginning of the first frame that is left.
    start: usize,
    longest: usize,
}

/// A frame is longer than expected, or its length is negative.
#[derive(Debug, thiserror::Error)]
#[error("a frame of {length} bytes, where at most {longest} are expected")]
pub(super) struct InvalidLength {
    length: i32,
    longest: usize,
}

impl Frames {
    /// For the replies to a handshake, which are short.
    pub(super) fn of_handshake() -> Self {
        Self {
            bytes: Vec::new(),
            taken: 0,
            start: 0,
            longest: LONGEST_OF_HANDSHAKE,
        }
    }

    /// The handshake has ended: any other reply may follow.
    pub(super) fn allow_long(&mut self) {
        self.longest = LONGEST;
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        self.compact();
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the next frame, without its length; `None` if it has not arrived. The caller must have
    /// processed the frame that it took before.
    ///
    /// # Errors
    ///
    /// If the frame's length is negative or too large.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        self.taken = self.start;
        let frame = self.first()?.map(<[u8]>::to_vec);
        if let Some(frame) = &frame {
            self.start += PREFIX + frame.len();
        }
        Ok(frame)
    }

    /// The next frame, which is not taken.
    pub(super) fn peek(&self) -> Option<&[u8]> {
        self.first().ok().flatten()
    }

    /// Whether a frame, or an invalid length, has arrived.
    pub(super) fn is_ready(&self) -> bool {
        !matches!(self.first(), Ok(None))
    }

    /// The frames that have arrived and may not have been processed. They are not taken.
    pub(super) fn unprocessed(&self) -> Unprocessed<'_> {
        Unprocessed {
            rest: self.bytes.get(self.taken..).unwrap_or_default(),
            longest: self.longest,
        }
    }

    /// How many bytes have arrived and were not taken.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    fn first(&self) -> io::Result<Option<&[u8]>> {
        let rest = self.bytes.get(self.start..).unwrap_or_default();
        Ok(split(rest, self.longest)?.map(|(frame, _)| frame))
    }

    /// Frees what was taken. A large reply must not occupy its memory for as long as the connection
    /// lasts.
    fn compact(&mut self) {
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(1 << 16);
        } else {
            self.bytes.drain(..self.taken);
        }
        self.start -= self.taken;
        self.taken = 0;
    }
}

/// Iterates over complete frames, without their lengths.
pub(super) struct Unprocessed<'a> {
    rest: &'a [u8],
    longest: usize,
}

impl Unprocessed<'_> {
    /// Whether nothing follows the frames that were returned, not even a part of a frame or an
    /// invalid length.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

impl<'a> Iterator for Unprocessed<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (frame, rest) = split(self.rest, self.longest).ok().flatten()?;
        self.rest = rest;
        Some(frame)
    }
}

/// The first frame of `bytes`, and what follows it; `None` if the frame is incomplete.
fn split(bytes: &[u8], longest: usize) -> io::Result<Option<(&[u8], &[u8])>> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let length = i32::from_be_bytes(*prefix);
    let length = usize::try_from(length)
        .ok()
        .filter(|length| *length <= longest)
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                InvalidLength { length, longest },
            )
        })?;
    Ok(rest.split_at_checked(length))
}

/// Whether a connection is encrypted, and the state of its encryption.
pub(super) enum Security {
    Plain,
    #[cfg(feature = "tls")]
    Tls(Box<Encrypted>),
}

/// A connection over TLS.
#[cfg(feature = "tls")]
pub(super) struct Encrypted {
    connection: ClientConnection,
    records: Records,
}

impl Security {
    #[cfg(feature = "tls")]
    pub(super) fn tls(mut connection: ClientConnection) -> Self {
        // The client limits the requests in flight, and their size.
        connection.set_buffer_limit(None);
        Self::Tls(Box::new(Encrypted {
            connection,
            records: Records::default(),
        }))
    }

    /// Begins the handshake, or continues it.
    #[cfg(feature = "tls")]
    pub(super) fn begin(&mut self, to_write: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Plain => Ok(()),
            Self::Tls(tls) => write_tls(&mut tls.connection, to_write),
        }
    }

    /// Whether frames can be sent.
    #[cfg(feature = "tls")]
    pub(super) fn is_ready(&self) -> bool {
        match self {
            Self::Plain => true,
            Self::Tls(tls) => !tls.connection.is_handshaking(),
        }
    }

    /// Whether everything that has arrived could be decrypted.
    pub(super) fn is_between_records(&self) -> bool {
        match self {
            Self::Plain => true,
            #[cfg(feature = "tls")]
            Self::Tls(tls) => tls.records.is_complete(),
        }
    }

    pub(super) fn send(&mut self, frame: &[u8], to_write: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Plain => append(frame, to_write),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => {
                let connection = &mut tls.connection;
                let mut plain = Vec::with_capacity(frame.len() + 4);
                append(frame, &mut plain);
                connection.writer().write_all(&plain)?;
                write_tls(connection, to_write)?;
            }
        }
        Ok(())
    }

    /// Adds the frames of the bytes that have arrived to `frames`.
    ///
    /// # Errors
    ///
    /// An error of `rustls` is the source of the error.
    #[cfg_attr(
        not(feature = "tls"),
        expect(
            unused_variables,
            clippy::ptr_arg,
            reason = "a plain connection is only read"
        )
    )]
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        frames: &mut Frames,
        to_write: &mut Vec<u8>,
    ) -> io::Result<()> {
        match self {
            Self::Plain => frames.extend(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => {
                let Encrypted {
                    connection,
                    records,
                } = &mut **tls;
                records.received(bytes);
                let mut rest = bytes;
                while !rest.is_empty() {
                    if connection.read_tls(&mut rest)? == 0 {
                        // The server has already closed the TLS connection.
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    let processed = connection.process_new_packets();
                    // Done after a failure too, to write the alert that says why.
                    write_tls(connection, to_write)?;
                    // Done after a failure too: these bytes were received before it.
                    let mut plain = [0; 4_096];
                    while let Ok(length @ 1..) = connection.reader().read(&mut plain) {
                        frames.extend(&plain[..length]);
                    }
                    processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                }
            }
        }
        Ok(())
    }
}

/// Where the records of TLS end: `rustls` does not report whether it has a part of a record.
#[cfg(feature = "tls")]
#[derive(Default)]
struct Records {
    /// How many bytes of the header of the current record have arrived.
    header: usize,
    /// The last two bytes of the header. Once the header is complete, they are the record's length.
    length: u16,
    /// How many bytes of the current record have not arrived.
    left: usize,
}

#[cfg(feature = "tls")]
impl Records {
    /// The type, the version, and the length of two bytes.
    const HEADER: usize = 5;

    fn received(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((byte, after)) = rest.split_first() {
            if self.left > 0 {
                let body = self.left.min(rest.len());
                self.left -= body;
                rest = rest.get(body..).unwrap_or_default();
                continue;
            }
            self.header += 1;
            self.length = self.length << 8 | u16::from(*byte);
            if self.header == Self::HEADER {
                self.header = 0;
                self.left = usize::from(self.length);
            }
            rest = after;
        }
    }

    fn is_complete(&self) -> bool {
        self.header == 0 && self.left == 0
    }
}

#[cfg(feature = "tls")]
fn write_tls(connection: &mut ClientConnection, to_write: &mut Vec<u8>) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(to_write)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Frames {
        let mut frames = Frames::of_handshake();
        frames.allow_long();
        frames
    }

    fn all(frames: &mut Frames) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| frames.next().unwrap()).collect()
    }

    #[test]
    fn frames_arrive_whole_however_the_stream_is_divided() {
        let sent: Vec<Vec<u8>> = vec![b"".to_vec(), b"a".to_vec(), vec![7; 300], b"last".to_vec()];
        let mut stream = Vec::new();
        sent.iter().for_each(|frame| append(frame, &mut stream));
        for size in 1..stream.len() {
            let mut frames = frames();
            let received: Vec<_> = stream
                .chunks(size)
                .flat_map(|part| {
                    frames.extend(part);
                    all(&mut frames)
                })
                .collect();
            assert_eq!(received, sent, "in parts of {size}");
        }
    }

    #[test]
    fn a_length_is_checked_before_its_bytes_arrive() {
        for length in [-1, i32::MIN, i32::MAX, i32::try_from(LONGEST).unwrap() + 1] {
            let mut frames = frames();
            frames.extend(&length.to_be_bytes());
            assert_eq!(
                frames.next().unwrap_err().kind(),
                io::ErrorKind::InvalidData,
                "{length}"
            );
        }
        let mut frames = frames();
        frames.extend(&i32::try_from(LONGEST).unwrap().to_be_bytes());
        assert_eq!(frames.next().unwrap(), None);
        assert!(frames.bytes.capacity() < 1_000);
    }

    #[test]
    fn a_frame_of_a_handshake_is_short() {
        let length = i32::try_from(LONGEST_OF_HANDSHAKE).unwrap() + 1;
        let mut frames = Frames::of_handshake();
        frames.extend(&length.to_be_bytes());
        assert_eq!(
            frames.next().unwrap_err().to_string(),
            "a frame of 65537 bytes, where at most 65536 are expected"
        );
        frames.allow_long();
        assert_eq!(frames.next().unwrap(), None);
    }

    #[test]
    fn a_frame_is_unprocessed_until_the_next_one_is_taken() {
        let mut frames = frames();
        let mut stream = Vec::new();
        for frame in [&b"first"[..], b"", b"last"] {
            append(frame, &mut stream);
        }
        let (complete, rest) = stream.split_at(stream.len() - 1);
        frames.extend(complete);
        let unprocessed = |frames: &Frames| {
            let mut unprocessed = frames.unprocessed();
            let found: Vec<_> = unprocessed.by_ref().map(<[u8]>::to_vec).collect();
            (found, unprocessed.is_empty())
        };
        assert_eq!(
            unprocessed(&frames),
            (vec![b"first".to_vec(), Vec::new()], false)
        );
        assert_eq!(frames.next().unwrap().unwrap(), b"first");
        frames.extend(rest);
        assert_eq!(
            unprocessed(&frames),
            (vec![b"first".to_vec(), Vec::new(), b"last".to_vec()], true)
        );
        assert_eq!(frames.next().unwrap().unwrap(), b"");
        assert_eq!(
            unprocessed(&frames),
            (vec![Vec::new(), b"last".to_vec()], true)
        );
        assert_eq!(all(&mut frames), [b"last"]);
        assert_eq!(unprocessed(&frames), (Vec::new(), true));
        frames.extend(&[0xff; PREFIX]);
        assert_eq!(unprocessed(&frames), (Vec::new(), false));
    }

    #[test]
    fn the_memory_of_a_large_frame_is_freed() {
        let mut frames = frames();
        let mut stream = Vec::new();
        append(&vec![1; 1 << 20], &mut stream);
        frames.extend(&stream);
        assert_eq!(all(&mut frames).len(), 1);
        frames.extend(b"\0");
        assert!(frames.bytes.capacity() <= 1 << 16);
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_record_is_complete_after_its_last_byte() {
        let long = [&[23, 3, 3, 1, 2][..], &[9; 258]].concat();
        let stream = [&[22, 3, 3, 0, 0][..], &long, &[23, 3, 3, 0, 1, 0]].concat();
        let ends = [0, 5, 5 + long.len(), stream.len()];
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let mut records = Records::default();
                records.received(&stream[..first]);
                records.received(&stream[first..second]);
                assert_eq!(
                    records.is_complete(),
                    ends.contains(&second),
                    "{first}, {second}"
                );
            }
        }
    }
}
