//! How the frames of a connection are written: in plain, or encrypted. No I/O.

use std::io;
#[cfg(feature = "tls")]
use std::io::{Read as _, Write as _};

#[cfg(feature = "tls")]
use rustls::ClientConnection;

use super::frames::Frames;
use crate::codec::append;

/// The state of one connection.
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
            Self::Tls(tls) => encrypted(&mut tls.connection, to_write),
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

    /// Whether all that has arrived could be decrypted.
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
                encrypted(connection, to_write)?;
            }
        }
        Ok(())
    }

    /// Bytes have arrived.
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
                        // The server has closed the TLS connection before.
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    let processed = connection.process_new_packets();
                    // Also the alert that says why the connection fails.
                    encrypted(connection, to_write)?;
                    // Also what was received before the failure.
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

/// Where the records of TLS end: `rustls` does not report whether it has a part of one.
#[cfg(feature = "tls")]
#[derive(Default)]
struct Records {
    /// How many bytes of the header of the current record have arrived.
    header: usize,
    /// The last two bytes of a header; those of a whole one are the length of its record.
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
                (self.header, self.left) = (0, usize::from(self.length));
            }
            rest = after;
        }
    }

    fn is_complete(&self) -> bool {
        self.header == 0 && self.left == 0
    }
}

#[cfg(feature = "tls")]
fn encrypted(connection: &mut ClientConnection, to_write: &mut Vec<u8>) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(to_write)?;
    }
    Ok(())
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use super::Records;

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
