//! `TCP_NODELAY` on the sockets of the client crate.
//!
//! The crate leaves Nagle's algorithm on, so two requests sent together often need two round trips: the second waits for
//! the acknowledgement of the first. It gives no access to its socket, so the socket is found among the descriptors of
//! this process, by the address of its peer. That needs only calls that every program makes, so any sandbox in which a
//! ZooKeeper client can run permits them.
//!
//! Where this is not possible, everything still works, with up to twice the round trips.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use crate::connect_string::ConnectString;
use crate::timer::Timer;

/// How long the lookup of names may take. The socket option is only a nicety.
const LONGEST: Duration = Duration::from_secs(1);

/// Sets the option on every connection of this process to one of `servers`. Polling the future waits for that.
///
/// A process may have many descriptors, and the names of the servers have to be looked up: that is done on a thread that
/// may block, and has been handed to it when this returns.
pub(crate) fn set_nodelay(
    client: &Arc<str>,
    servers: &ConnectString,
    timer: &Timer,
) -> impl Future<Output = ()> + Send + use<> {
    let (client, servers, timer) = (Arc::clone(client), servers.clone(), timer.clone());
    let set = tokio::task::spawn_blocking(move || match set(&addresses(&servers)) {
        Ok(sockets) => tracing::trace!(client = &*client, sockets, "TCP_NODELAY set"),
        Err(error) => {
            tracing::debug!(client = &*client, %error, "cannot set TCP_NODELAY: pipelined requests may take two round trips");
        }
    });
    async move {
        tokio::select! {
            biased;
            // When the runtime is ending, no one needs the option any more.
            _ = set => {}
            () = timer.sleep(LONGEST) => {}
        }
    }
}

/// Names that cannot be resolved are left out.
fn addresses(servers: &ConnectString) -> Vec<SocketAddr> {
    let resolved = servers.hosts().iter().map(|server| (server.host(), server.port()).to_socket_addrs());
    resolved.filter_map(Result::ok).flatten().collect()
}

/// The directory with an entry for each descriptor of this process.
#[cfg(unix)]
const DESCRIPTORS: &str = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };

#[cfg(unix)]
fn set(servers: &[SocketAddr]) -> std::io::Result<usize> {
    let mut sockets = 0;
    for entry in std::fs::read_dir(DESCRIPTORS)? {
        let Some(number) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let peer_is_server = |peer: SocketAddr| servers.iter().any(|server| is_same(*server, peer));
        sockets += usize::from(descriptor::set_nodelay_if(number, peer_is_server));
    }
    Ok(sockets)
}

#[cfg(not(unix))]
fn set(_servers: &[SocketAddr]) -> std::io::Result<usize> {
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, "sockets cannot be found on this system"))
}

/// A different IPv6 scope or flow does not make it a different server.
#[cfg(unix)]
fn is_same(server: SocketAddr, peer: SocketAddr) -> bool {
    server.port() == peer.port() && server.ip().to_canonical() == peer.ip().to_canonical()
}

#[cfg(unix)]
#[path = "descriptor.rs"]
mod descriptor;

#[cfg(all(test, unix))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn the_option_reaches_the_connections_to_the_servers_and_no_others() {
        let [server, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let to_server = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let to_other = TcpStream::connect(other.local_addr().unwrap()).unwrap();
        assert!(!to_server.nodelay().unwrap());
        let servers = ConnectString::parse(&server.local_addr().unwrap().to_string()).unwrap();
        let timer = Timer::new(tokio::runtime::Handle::current());
        set_nodelay(&Arc::from("test"), &servers, &timer).await;
        assert!(to_server.nodelay().unwrap());
        assert!(!to_other.nodelay().unwrap());
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
        set(&["127.0.0.1:1".parse().unwrap()]).unwrap();
        assert_eq!(locks(), 1, "the lock was released");
        std::fs::remove_file(&path).unwrap();
    }
}
