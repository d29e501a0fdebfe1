//! `TCP_NODELAY` on the session's socket.
//!
//! The client crate leaves Nagle's algorithm on, so two requests sent together often need two round trips: the second
//! waits for the acknowledgement of the first. It offers no way to its socket, so the socket is found from outside: on
//! Linux a process may duplicate its own descriptors with `pidfd_getfd`, and an option set on a duplicate holds for the
//! socket itself. Every socket of this process that is connected to one of the servers gets the option; a process has
//! no other business there.
//!
//! Where this is not possible (another system, or a sandbox that forbids the call) everything works, with up to twice
//! the round trips.

use std::net::SocketAddr;

use crate::connect_string::ConnectString;

/// The addresses of the servers, to know their sockets by. Looked up once for each session: a server that changes its
/// address meanwhile is reached without the option.
#[derive(Debug, Clone, Default)]
pub(crate) struct Peers(Vec<SocketAddr>);

impl Peers {
    /// Resolves the names of `servers`; a name that cannot be resolved is left out.
    pub(crate) async fn resolve(servers: &ConnectString) -> Self {
        let mut peers = Vec::new();
        for server in servers.hosts() {
            match tokio::net::lookup_host((server.host(), server.port())).await {
                Ok(addresses) => peers.extend(addresses),
                Err(error) => tracing::debug!(%error, host = server.host(), "cannot resolve a server for TCP_NODELAY"),
            }
        }
        Self(peers)
    }

    /// Sets the option on every connection of this process to one of the servers.
    pub(crate) fn set_nodelay(&self) {
        match set(&self.0) {
            Ok(sockets) => tracing::trace!(sockets, "TCP_NODELAY set"),
            Err(error) => tracing::debug!(%error, "TCP_NODELAY cannot be set: a flight may take two round trips"),
        }
    }
}

#[cfg(target_os = "linux")]
fn set(peers: &[SocketAddr]) -> std::io::Result<usize> {
    use std::os::fd::AsFd as _;

    use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

    let this_process = pidfd_open(getpid(), PidfdFlags::empty())?;
    let mut sockets = 0;
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        // Nothing but sockets may be duplicated: closing the duplicate of a file would release this process's POSIX
        // locks on that file.
        let is_socket =
            std::fs::read_link(entry.path()).is_ok_and(|to| to.as_os_str().as_encoded_bytes().starts_with(b"socket:["));
        let Some(descriptor) = entry.file_name().to_str().filter(|_| is_socket).and_then(|name| name.parse().ok())
        else {
            continue;
        };
        // The descriptor may have been closed since it was listed.
        let Ok(duplicate) = pidfd_getfd(this_process.as_fd(), descriptor, PidfdGetfdFlags::empty()) else { continue };
        let Ok(Some(peer)) = rustix::net::getpeername(&duplicate) else { continue };
        let Ok(peer) = SocketAddr::try_from(peer) else { continue };
        if peers.iter().any(|server| same(*server, peer)) {
            rustix::net::sockopt::set_tcp_nodelay(&duplicate, true)?;
            sockets += 1;
        }
    }
    Ok(sockets)
}

/// An IPv6 scope or flow does not make another server.
#[cfg(target_os = "linux")]
fn same(server: SocketAddr, peer: SocketAddr) -> bool {
    server.port() == peer.port() && server.ip().to_canonical() == peer.ip().to_canonical()
}

#[cfg(not(target_os = "linux"))]
fn set(_peers: &[SocketAddr]) -> std::io::Result<usize> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "only Linux lets a process duplicate its own sockets"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn the_option_reaches_the_socket_itself() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        assert!(!stream.nodelay().unwrap());
        Peers::resolve(&ConnectString::parse(&address.to_string()).unwrap()).await.set_nodelay();
        assert!(stream.nodelay().unwrap());
    }

    /// POSIX releases all record locks of a process on a file when the process closes *any* descriptor of it.
    #[tokio::test]
    async fn the_record_locks_of_this_process_survive() {
        let path = std::env::temp_dir().join(format!("curator-nodelay-{}", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        let this_process = std::process::id().to_string();
        let locks = || {
            let all = std::fs::read_to_string("/proc/locks").unwrap();
            let ours = |line: &&str| line.contains("POSIX") && line.split_whitespace().nth(4) == Some(&this_process);
            all.lines().filter(ours).count()
        };
        assert_eq!(locks(), 1);
        set(&["127.0.0.1:1".parse().unwrap()]).unwrap();
        assert_eq!(locks(), 1, "the lock was released");
        std::fs::remove_file(&path).unwrap();
    }
}
