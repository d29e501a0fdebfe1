//! Finds the socket of a connection, which `zookeeper-client` keeps private, to set `TCP_NODELAY`
//! or to shut it down.
//!
//! The socket is found by its descriptor number. A new descriptor gets the lowest free number, so
//! that number is noted before `zookeeper-client` opens the socket, and is valid once it refers to
//! a socket that is connected to the server. If another thread has taken the number first, all
//! descriptors of the process are searched.
//!
//! This uses only system calls that every program makes, so a sandbox that permits a ZooKeeper
//! client permits them.

#[cfg(unix)]
mod descriptor;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// What to do with a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Set `TCP_NODELAY`, if it is not set.
    SetNodelay,
    /// Shut it down in both directions.
    ShutDown,
}

/// The socket of one connection.
pub(super) struct Socket {
    /// The addresses of the server.
    peers: Vec<SocketAddr>,
    number: AtomicI32,
}

/// Stands for a number that is not known. Not a valid descriptor number.
const UNKNOWN: i32 = -1;

impl Socket {
    /// The socket of a connection to one of `peers` that is not open yet.
    pub(super) fn to(peers: Vec<SocketAddr>) -> Arc<Self> {
        Arc::new(Self {
            peers,
            number: AtomicI32::new(UNKNOWN),
        })
    }

    /// Polls `connect`, which opens the socket, and notes its number.
    pub(super) fn opened_by<F: Future>(
        self: &Arc<Self>,
        mut connect: Pin<Box<F>>,
    ) -> impl Future<Output = F::Output> + use<F> {
        let socket = Arc::clone(self);
        std::future::poll_fn(move |cx| {
            let is_known = socket.number.load(Ordering::Relaxed) != UNKNOWN;
            let free = if is_known { UNKNOWN } else { lowest_free() };
            let polled = connect.as_mut().poll(cx);
            if is_stream(free) {
                socket.number.store(free, Ordering::Relaxed);
            }
            polled
        })
    }

    /// Sets `TCP_NODELAY`. `zookeeper-client` leaves Nagle's algorithm on, so two requests sent
    /// together often need two round trips: the second waits for the acknowledgement of the first.
    ///
    /// If this fails, the connection still works, with up to twice the round trips.
    pub(super) fn set_nodelay(&self) {
        match self.act(Action::SetNodelay) {
            Ok(sockets) => tracing::trace!(peers = ?self.peers, sockets, "TCP_NODELAY set"),
            Err(error) => {
                tracing::debug!(peers = ?self.peers, %error, "cannot set TCP_NODELAY: pipelined requests may take two round trips");
            }
        }
    }

    /// Shuts the socket down; if it is unknown, all sockets that are connected to the server.
    /// Returns the number of sockets shut down.
    pub(super) fn shut_down(&self) -> std::io::Result<usize> {
        self.act(Action::ShutDown)
    }

    /// The number of bytes that the socket has received, and that were not read yet; if the socket
    /// is unknown, the bytes of all sockets that are connected to the server. `None` if there is no
    /// such socket.
    #[cfg(unix)]
    pub(super) fn unread(&self) -> Option<u64> {
        let unread = |number| descriptor::unread(number, |peer| self.is_peer(peer));
        unread(self.number.load(Ordering::Relaxed)).or_else(|| {
            descriptors()
                .ok()?
                .filter_map(unread)
                .reduce(u64::saturating_add)
        })
    }

    #[cfg(not(unix))]
    pub(super) fn unread(&self) -> Option<u64> {
        None
    }

    /// Performs `action`. Returns the number of sockets that this changed.
    ///
    /// Two connections to one server that are opened at the same moment may have noted the same
    /// number. The second connection finds nothing left to set on that socket, and searches for
    /// another socket, so each connection may have the other's socket.
    #[cfg(unix)]
    fn act(&self, action: Action) -> std::io::Result<usize> {
        let act_on = |number| descriptor::act_if(number, |peer| self.is_peer(peer), action);
        if act_on(self.number.load(Ordering::Relaxed)) {
            return Ok(1);
        }
        let mut sockets = 0;
        for number in descriptors()? {
            if act_on(number) {
                self.number.store(number, Ordering::Relaxed);
                sockets += 1;
            }
        }
        Ok(sockets)
    }

    #[cfg(not(unix))]
    fn act(&self, _action: Action) -> std::io::Result<usize> {
        Err(std::io::Error::new(
            std::io::ErrorKind::Unsupported,
            "sockets cannot be found on this system",
        ))
    }

    /// Whether `peer` is one of the server's addresses. Ignores the IPv6 scope and flow.
    #[cfg(unix)]
    fn is_peer(&self, peer: SocketAddr) -> bool {
        self.peers.iter().any(|known: &SocketAddr| {
            known.port() == peer.port() && known.ip().to_canonical() == peer.ip().to_canonical()
        })
    }
}

/// The numbers of all descriptors of this process.
#[cfg(unix)]
fn descriptors() -> std::io::Result<impl Iterator<Item = i32>> {
    const DIRECTORY: &str = if cfg!(target_os = "linux") {
        "/proc/self/fd"
    } else {
        "/dev/fd"
    };
    Ok(std::fs::read_dir(DIRECTORY)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

/// The number of the next descriptor of this process, unless another thread takes it.
#[cfg(unix)]
fn lowest_free() -> i32 {
    use std::os::fd::AsRawFd as _;
    std::os::unix::net::UnixDatagram::unbound().map_or(UNKNOWN, |descriptor| descriptor.as_raw_fd())
}

#[cfg(unix)]
fn is_stream(number: i32) -> bool {
    descriptor::is_stream(number)
}

#[cfg(not(unix))]
fn lowest_free() -> i32 {
    UNKNOWN
}

#[cfg(not(unix))]
fn is_stream(_number: i32) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd as _;

    use futures_util::FutureExt as _;

    use super::*;

    fn listen() -> std::io::Result<(TcpListener, SocketAddr)> {
        let server = TcpListener::bind("127.0.0.1:0")?;
        let address = server.local_addr()?;
        Ok((server, address))
    }

    /// The socket of a connection, with the number of `stream` as the noted number.
    fn numbered(stream: &TcpStream, peer: SocketAddr) -> Arc<Socket> {
        let socket = Socket::to(vec![peer]);
        socket.number.store(stream.as_raw_fd(), Ordering::Relaxed);
        socket
    }

    #[test]
    fn a_socket_is_found_by_the_descriptor_that_was_free_before_it_opened() {
        let (_server, address) = listen().unwrap();
        let found = (0..64).filter(|_| {
            let socket = Socket::to(vec![address]);
            // Like `zookeeper-client` with a name, which opens its socket in a later poll.
            let connect = async {
                tokio::task::yield_now().await;
                TcpStream::connect(address).unwrap()
            };
            let mut connect = Box::pin(socket.opened_by(Box::pin(connect)));
            assert!(connect.as_mut().now_or_never().is_none());
            let stream = connect.now_or_never().unwrap();
            let is_found = socket.number.load(Ordering::Relaxed) == stream.as_raw_fd();
            socket.set_nodelay();
            assert!(stream.nodelay().unwrap());
            is_found
        });
        // Tests on other threads open sockets, too.
        assert!(found.count() > 32);
    }

    #[test]
    fn nodelay_is_set_on_no_other_connection() {
        let (_server, address) = listen().unwrap();
        let (_other, elsewhere) = listen().unwrap();
        let [stream, beside] = [(); 2].map(|()| TcpStream::connect(address).unwrap());
        numbered(&stream, address).set_nodelay();
        assert!(stream.nodelay().unwrap() && !beside.nodelay().unwrap());
        // The number of a connection to another server.
        numbered(&beside, elsewhere).set_nodelay();
        assert!(!beside.nodelay().unwrap());
    }

    #[test]
    fn two_connections_that_noted_the_same_descriptor_are_both_found() {
        let (_server, address) = listen().unwrap();
        let [one, two] = [(); 2].map(|()| TcpStream::connect(address).unwrap());
        for _ in 0..2 {
            numbered(&one, address).set_nodelay();
        }
        assert!(one.nodelay().unwrap() && two.nodelay().unwrap());
    }

    #[test]
    fn shut_down_affects_the_noted_socket_and_no_other() {
        let (server, address) = listen().unwrap();
        let [mut stream, beside] = [(); 2].map(|()| TcpStream::connect(address).unwrap());
        let [_, mut from_beside] = [(); 2].map(|()| server.accept().unwrap().0);
        assert_eq!(numbered(&stream, address).shut_down().unwrap(), 1);
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        from_beside.set_nonblocking(true).unwrap();
        assert_eq!(
            from_beside.read(&mut [0]).unwrap_err().kind(),
            std::io::ErrorKind::WouldBlock
        );
        drop(beside);
    }

    #[test]
    fn unread_counts_the_bytes_of_the_noted_socket_or_of_all_sockets_to_the_server() {
        use std::io::Write as _;
        let (server, address) = listen().unwrap();
        let [stream, beside] = [(); 2].map(|()| TcpStream::connect(address).unwrap());
        let [mut to_stream, mut to_beside] = [(); 2].map(|()| server.accept().unwrap().0);
        to_stream.write_all(b"12345").unwrap();
        to_beside.write_all(b"678").unwrap();
        for (socket, expected) in [
            (numbered(&stream, address), Some(5)),
            (numbered(&beside, address), Some(3)),
            (Socket::to(vec![address]), Some(8)),
            (Socket::to(vec!["127.0.0.1:1".parse().unwrap()]), None),
        ] {
            // Loopback delivers the bytes soon.
            while socket.unread() < expected {
                std::thread::yield_now();
            }
            assert_eq!(socket.unread(), expected);
        }
    }

    /// POSIX releases all record locks of a process on a file when the process closes *any*
    /// descriptor of it.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_search_of_all_descriptors_keeps_the_record_locks_of_the_process() {
        let path = std::env::temp_dir().join(format!("curator-sockets-{}", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .unwrap();
        let this_process = std::process::id().to_string();
        let locks = || {
            let all = std::fs::read_to_string("/proc/locks").unwrap();
            all.lines()
                .filter(|line: &&str| {
                    line.contains("POSIX") && line.split_whitespace().nth(4) == Some(&this_process)
                })
                .count()
        };
        assert_eq!(locks(), 1);
        // The socket is unknown, so all descriptors are searched.
        assert_eq!(
            Socket::to(vec!["127.0.0.1:1".parse().unwrap()])
                .shut_down()
                .unwrap(),
            0
        );
        assert_eq!(locks(), 1, "the lock was released");
        std::fs::remove_file(&path).unwrap();
    }
}
