//! The sockets of the client crate, which gives no access to them.
//!
//! They are found among the descriptors of this process, by the address of their peer. That needs only calls that every
//! program makes, so any sandbox in which a ZooKeeper client can run permits them.

use std::net::{SocketAddr, ToSocketAddrs as _};

#[cfg(unix)]
use super::descriptor;
use crate::connect_string::HostPort;

/// What is done to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Set `TCP_NODELAY`.
    SetNodelay,
    /// Shut it down in both directions.
    ShutDown,
}

/// The addresses of the servers. Those whose names cannot be resolved are left out. May block.
pub(super) fn addresses(servers: &[HostPort]) -> Vec<SocketAddr> {
    let resolved = servers.iter().map(|server| (server.host(), server.port()).to_socket_addrs());
    resolved.filter_map(Result::ok).flatten().collect()
}

/// The directory with an entry for each descriptor of this process.
#[cfg(unix)]
const DESCRIPTORS: &str = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };

/// Does this to every connection of this process to one of `servers`. Returns how many there are.
///
/// A process may have many descriptors: to be called on a thread that may block.
#[cfg(unix)]
pub(super) fn each_to(servers: &[SocketAddr], action: Action) -> std::io::Result<usize> {
    let mut sockets = 0;
    for entry in std::fs::read_dir(DESCRIPTORS)? {
        let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let peer_is_server = |peer: SocketAddr| servers.iter().any(|server| is_same(*server, peer));
        sockets += usize::from(descriptor::act_if(number, peer_is_server, action));
    }
    Ok(sockets)
}

#[cfg(not(unix))]
pub(super) fn each_to(_servers: &[SocketAddr], _action: Action) -> std::io::Result<usize> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "sockets cannot be found on this system"))
}

/// A different IPv6 scope or flow does not make it a different server.
#[cfg(unix)]
fn is_same(server: SocketAddr, peer: SocketAddr) -> bool {
    server.port() == peer.port() && server.ip().to_canonical() == peer.ip().to_canonical()
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn connections_to_the_servers_are_found_and_no_others() {
        let [server, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let mut to_server = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let to_other = TcpStream::connect(other.local_addr().unwrap()).unwrap();
        assert!(!to_server.nodelay().unwrap());
        let servers = [server.local_addr().unwrap()];
        assert_eq!(each_to(&servers, Action::SetNodelay).unwrap(), 1);
        assert!(to_server.nodelay().unwrap());
        assert!(!to_other.nodelay().unwrap());
        assert_eq!(each_to(&servers, Action::ShutDown).unwrap(), 1);
        assert_eq!(to_server.read(&mut [0]).unwrap(), 0);
        let (mut from_other, _) = other.accept().unwrap();
        from_other.set_nonblocking(true).unwrap();
        assert_eq!(from_other.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }

    /// POSIX releases all record locks of a process on a file when the process closes *any* descriptor of it.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_record_locks_of_this_process_survive() {
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
        each_to(&["127.0.0.1:1".parse().unwrap()], Action::SetNodelay).unwrap();
        assert_eq!(locks(), 1, "the lock was released");
        std::fs::remove_file(&path).unwrap();
    }
}
