//! What carries the frames of a connection.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

#[cfg(feature = "native")]
use super::tcp::TcpSocket;
#[cfg(feature = "simulation")]
use crate::simulation;

/// A connection that carries frames, in order. Dropping it closes it.
pub(super) enum Socket {
    #[cfg(feature = "simulation")]
    Simulated(Box<dyn simulation::Socket>),
    #[cfg(feature = "native")]
    Tcp(TcpSocket),
}

impl Socket {
    /// Sends a frame, without its length. Does not wait; on a connection that has ended, does
    /// nothing.
    pub(super) fn send(&self, frame: Vec<u8>) {
        match self {
            #[cfg(feature = "simulation")]
            Self::Simulated(socket) => socket.send(frame),
            #[cfg(feature = "native")]
            Self::Tcp(socket) => socket.send(&frame),
        }
    }

    /// Calls `send`, and writes the frames that it sends together.
    pub(super) fn together<T>(&self, send: impl FnOnce() -> T) -> T {
        match self {
            // In memory, there is nothing to save.
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => send(),
            #[cfg(feature = "native")]
            Self::Tcp(socket) => socket.together(send),
        }
    }

    /// Receives the next frame, without its length. An error is the end of the connection.
    pub(super) fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        match self {
            #[cfg(feature = "simulation")]
            Self::Simulated(socket) => socket
                .poll_receive(cx)
                .map(|frame| frame.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())),
            #[cfg(feature = "native")]
            Self::Tcp(socket) => socket.poll_receive(cx),
        }
    }

    /// Receives frames of any length from now on. Before, a frame must be a reply to a handshake.
    pub(super) fn allow_long_frames(&self) {
        match self {
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => {}
            #[cfg(feature = "native")]
            Self::Tcp(socket) => socket.allow_long_frames(),
        }
    }

    /// Reads the next frame, which stays to be received, if it has arrived. Needs no runtime.
    #[cfg(feature = "native")]
    pub(super) fn peek_now<T>(&self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match self {
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => None,
            Self::Tcp(socket) => socket.peek_now(read),
        }
    }

    /// Whether a frame that `is_sought` has arrived and may not be processed. Also `true` if that
    /// is unknown: a part of a frame is last, much has arrived, or the connection has ended. The
    /// frames stay to be received. Needs no runtime.
    #[cfg(feature = "native")]
    pub(super) fn may_have_arrived(&self, is_sought: impl Fn(&[u8]) -> bool) -> bool {
        match self {
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => false,
            Self::Tcp(socket) => socket.may_have_arrived(is_sought),
        }
    }

    /// The address of the server; a server in memory has none.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => None,
            #[cfg(feature = "native")]
            Self::Tcp(socket) => Some(socket.address()),
        }
    }
}
