//! How a connection reaches its server, over TCP or a simulated network, and what carries frames.

use std::io;
use std::net::SocketAddr;
#[cfg(any(feature = "simulation", feature = "tls"))]
use std::sync::Arc;
use std::task::{Context, Poll};

#[cfg(all(feature = "native", feature = "tls"))]
use rustls::{ClientConnection, pki_types::ServerName};

#[cfg(all(feature = "native", feature = "tls"))]
use super::frames::Security;
#[cfg(feature = "native")]
use super::tcp::TcpSocket;
use crate::connect_string::HostPort;
#[cfg(all(feature = "native", feature = "tls"))]
use crate::diagnosis::tls_problem;
use crate::options::SessionOptions;
use crate::pass::Target;
#[cfg(feature = "simulation")]
use crate::simulation::{self, Network};
#[cfg(all(feature = "native", feature = "tls"))]
use crate::tls::{HandshakeConfig, TlsProblem};

/// How connections reach their servers.
#[derive(Clone)]
pub(crate) enum Route {
    #[cfg(feature = "simulation")]
    Simulated(Arc<dyn Network>),
    #[cfg(feature = "native")]
    Tcp,
}

/// Why the server has ended a connection during the handshake.
pub(super) enum EndedBy {
    #[cfg(all(feature = "native", feature = "tls"))]
    Tls(TlsProblem),
    /// The server has closed the connection.
    Server,
}

impl Route {
    #[cfg_attr(
        feature = "native",
        expect(clippy::disallowed_methods, reason = "not in a simulation")
    )]
    pub(super) async fn resolve(&self, server: &HostPort) -> io::Result<Vec<Target>> {
        match self {
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => Ok(vec![Target {
                name: server.to_string(),
                addresses: Vec::new(),
            }]),
            // `async_net` looks names up on its own threads, which, unlike tokio's blocking
            // threads, do not delay the end of a runtime.
            #[cfg(feature = "native")]
            Self::Tcp => {
                let addresses = async_net::resolve((server.host(), server.port())).await?;
                Ok(addresses
                    .into_iter()
                    .map(|address| Target {
                        name: server.to_string(),
                        addresses: vec![address],
                    })
                    .collect())
            }
        }
    }

    #[cfg_attr(
        not(feature = "simulation"),
        expect(unused_variables, reason = "a target has the address")
    )]
    #[cfg_attr(
        not(feature = "native"),
        expect(unused_variables, reason = "the network knows the server")
    )]
    pub(super) async fn connect(&self, server: &HostPort, target: &Target) -> io::Result<Socket> {
        match self {
            #[cfg(feature = "simulation")]
            Self::Simulated(network) => network
                .connect(server.host(), server.port())
                .await
                .map(Socket::Simulated),
            #[cfg(feature = "native")]
            Self::Tcp => {
                let address = target
                    .addresses
                    .first()
                    .ok_or_else(|| io::Error::other("it has no address"))?;
                TcpSocket::connect(*address).await.map(Socket::Tcp)
            }
        }
    }
}

/// The TLS configuration of a connection, which can explain why the connection has ended.
pub(super) struct Tls {
    #[cfg(all(feature = "native", feature = "tls"))]
    config: Option<HandshakeConfig>,
}

/// Makes the TLS handshake, if the client uses TLS.
#[cfg_attr(
    not(all(feature = "native", feature = "tls")),
    expect(unused_variables, reason = "there is no TLS")
)]
pub(super) async fn secure(
    socket: &Socket,
    server: &HostPort,
    options: &SessionOptions,
) -> Result<Tls, EndedBy> {
    #[cfg(all(feature = "native", feature = "tls"))]
    if let (Socket::Tcp(socket), Some(tls)) = (socket, &options.tls) {
        let other = |reason: String| EndedBy::Tls(TlsProblem::Other { reason });
        let config = tls
            .current()
            .handshake_config()
            .map_err(|error| other(error.to_string()))?;
        let name = ServerName::try_from(server.host().to_owned())
            .map_err(|error| other(error.to_string()))?;
        let connection = ClientConnection::new(Arc::clone(&config.config), name)
            .map_err(|error| other(error.to_string()))?;
        let secured = socket.secure(Security::tls(connection)).await;
        let tls = Tls {
            config: Some(config),
        };
        return match secured {
            Ok(()) => Ok(tls),
            Err(error) => Err(tls.explain(&error, server)),
        };
    }
    Ok(Tls {
        #[cfg(all(feature = "native", feature = "tls"))]
        config: None,
    })
}

impl Tls {
    /// Why the connection has ended. In TLS 1.3, a server refuses a client's certificate only after
    /// the handshake.
    #[cfg_attr(
        not(all(feature = "native", feature = "tls")),
        expect(unused_variables, clippy::unused_self, reason = "there is no TLS")
    )]
    pub(super) fn explain(&self, error: &io::Error, server: &HostPort) -> EndedBy {
        #[cfg(all(feature = "native", feature = "tls"))]
        if let Some(problem) = self
            .config
            .as_ref()
            .and_then(|config| tls_problem(error, server, config))
        {
            return EndedBy::Tls(problem);
        }
        EndedBy::Server
    }
}

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
            // Nothing is saved in memory.
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

    /// Receives frames of any length from now on. Before this call, only frames as short as the
    /// replies to a handshake are received.
    pub(super) fn allow_long_frames(&self) {
        match self {
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => {}
            #[cfg(feature = "native")]
            Self::Tcp(socket) => socket.allow_long_frames(),
        }
    }

    /// Calls `read` with the next frame, if it has arrived, without receiving it. Needs no runtime.
    #[cfg(feature = "native")]
    pub(super) fn peek_now<T>(&self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        match self {
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => None,
            Self::Tcp(socket) => socket.peek_now(read),
        }
    }

    /// Whether a frame for which `is_sought` returns true has arrived and may not have been
    /// processed. Also `true` if this is unknown, because the last frame is incomplete, too much
    /// has arrived, or the connection has ended. Does not receive the frames. Needs no runtime.
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
