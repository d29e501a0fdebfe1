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
    Tls(Box<ClientConnection>),
}

impl Security {
    #[cfg(feature = "tls")]
    pub(super) fn tls(mut connection: ClientConnection) -> Self {
        // The client limits the requests in flight, and their size.
        connection.set_buffer_limit(None);
        Self::Tls(Box::new(connection))
    }

    /// Begins the handshake, or continues it.
    #[cfg(feature = "tls")]
    pub(super) fn begin(&mut self, to_write: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Plain => Ok(()),
            Self::Tls(connection) => encrypted(connection, to_write),
        }
    }

    /// Whether frames can be sent.
    #[cfg(feature = "tls")]
    pub(super) fn is_ready(&self) -> bool {
        match self {
            Self::Plain => true,
            Self::Tls(connection) => !connection.is_handshaking(),
        }
    }

    pub(super) fn send(&mut self, frame: &[u8], to_write: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Plain => append(frame, to_write),
            #[cfg(feature = "tls")]
            Self::Tls(connection) => {
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
        expect(unused_variables, clippy::ptr_arg, reason = "a plain connection is only read")
    )]
    pub(super) fn receive(&mut self, bytes: &[u8], frames: &mut Frames, to_write: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Plain => frames.extend(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(connection) => {
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

#[cfg(feature = "tls")]
fn encrypted(connection: &mut ClientConnection, to_write: &mut Vec<u8>) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(to_write)?;
    }
    Ok(())
}
