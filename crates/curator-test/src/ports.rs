//! Ports of proxies and servers: reserved, also while their server is down, and served by a thread.

use std::{
    env,
    fs::{self, File},
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener as StdListener},
    os::fd::AsFd,
    path::PathBuf,
    sync::{
        atomic::{AtomicU16, Ordering},
        mpsc as std_mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, SystemTime},
};

use tokio::{
    net::{TcpListener, TcpStream},
    runtime,
    sync::mpsc,
    task::JoinSet,
};

use crate::error::Error;

/// The first port. The range is below the ports that systems use for outgoing connections, so that
/// no client of any program occupies a server's port while the server restarts.
const FIRST: u16 = 12_000;
const COUNT: u16 = 16_000;

/// A port of the loopback interface, reserved among all processes that use this crate until this
/// value is dropped.
///
/// A killed server must restart on the same port, so a port that is only free at the moment is not
/// enough.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    /// A locked file. The system releases the lock, however the process ends.
    _lock: File,
}

impl Port {
    /// Reserves a free port.
    pub(crate) fn reserve() -> Result<Self, Error> {
        // Processes that start at the same time begin their search at different numbers, so that
        // they seldom collide.
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let nanos = SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |t| t.subsec_nanos());
        let start = (std::process::id().wrapping_mul(7919) ^ nanos) % u32::from(COUNT);
        let _ = NEXT.compare_exchange(0, start as u16, Ordering::Relaxed, Ordering::Relaxed);
        let dir = lock_dir();
        fs::create_dir_all(&dir).map_err(Error::io("create a directory for port locks"))?;
        for _ in 0..COUNT {
            let number = FIRST + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
            let Ok(lock) = File::create(dir.join(number.to_string())) else {
                continue;
            };
            if lock.try_lock().is_ok()
                && let Ok(listener) = StdListener::bind((Ipv4Addr::LOCALHOST, number))
            {
                stop_listening(&listener);
                return Ok(Self {
                    number,
                    _lock: lock,
                });
            }
        }
        Err(Error::Timeout {
            what: "a free port".to_owned(),
            waited: Duration::ZERO,
        })
    }

    /// The port's number.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    /// The port on the loopback interface.
    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

/// Makes a socket stop listening, before it is closed.
///
/// Closing it is not enough: a process that is being started has a copy of the socket for a moment.
/// Until that copy is closed, the port would stay occupied, and the system would accept
/// connections.
pub(crate) fn stop_listening(listener: impl AsFd) {
    // Systems other than Linux return an error, which does no harm.
    let _: Result<(), _> = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
}

/// One directory per user, since another user's files cannot be locked.
fn lock_dir() -> PathBuf {
    env::temp_dir().join(format!(
        "curator-test-ports-{}",
        rustix::process::getuid().as_raw()
    ))
}

/// The longest delay. A longer delay could exceed the range of the clock.
pub(crate) const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The pause after a failed accept.
const RETRY: Duration = Duration::from_millis(10);

/// A thread with a separate runtime, which serves the clients of one port. Dropping this ends the
/// thread and closes all connections.
///
/// The thread runs even while a test's runtime is busy, and can serve several tests, each with a
/// separate runtime.
#[derive(Debug)]
pub(crate) struct ServingThread {
    /// `None` only while being dropped.
    orders: Option<mpsc::UnboundedSender<Order>>,
    handle: Option<JoinHandle<()>>,
}

/// Makes the thread start or stop listening, and reply when that is done.
#[derive(Debug)]
struct Order {
    listen: bool,
    done: std_mpsc::SyncSender<io::Result<()>>,
}

/// The state of the thread.
struct Listener<S> {
    address: SocketAddr,
    serve: S,
    /// `None` while connections are refused.
    socket: Option<Socket>,
}

/// A listening socket. Dropping it stops the listening.
struct Socket(TcpListener);

impl ServingThread {
    /// Starts the thread and listens. `serve` is called for each client; `background` runs
    /// alongside.
    pub(crate) fn start<S, F, B>(
        name: &str,
        address: SocketAddr,
        serve: S,
        background: B,
    ) -> Result<Self, Error>
    where
        S: Fn(TcpStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
        B: Future<Output = ()> + Send + 'static,
    {
        let (orders, inbox) = mpsc::unbounded_channel();
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::io("build a runtime"))?;
        let handle = thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.block_on(
                Listener {
                    address,
                    serve,
                    socket: None,
                }
                .run(inbox, background),
            );
        });
        let handle = handle.map_err(Error::io("start a thread"))?;
        let thread = Self {
            orders: Some(orders),
            handle: Some(handle),
        };
        thread.listen(true)?;
        Ok(thread)
    }

    /// Starts or stops listening. Returns when this is done, within microseconds.
    pub(crate) fn listen(&self, listen: bool) -> Result<(), Error> {
        let (done, answer) = std_mpsc::sync_channel(1);
        let gone = || io::Error::other("the thread has ended");
        let sent = self
            .orders
            .as_ref()
            .is_some_and(|orders| orders.send(Order { listen, done }).is_ok());
        let result = if sent {
            answer.recv().unwrap_or_else(|_| Err(gone()))
        } else {
            Err(gone())
        };
        result.map_err(Error::io("listen on a port"))
    }
}

impl Drop for ServingThread {
    fn drop(&mut self) {
        self.orders = None;
        // If the thread has panicked, the panic is already printed.
        drop(self.handle.take().map(JoinHandle::join));
    }
}

impl<S, F> Listener<S>
where
    S: Fn(TcpStream) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    /// Accepts clients until all senders of orders are dropped.
    async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        background: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut tasks = JoinSet::new();
        tasks.spawn(background);
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    // The send fails if the caller was dropped.
                    Some(Order { listen, done }) => drop(done.send(self.listen(listen))),
                    None => return,
                },
                Some(client) = accept(self.socket.as_ref()) => {
                    tasks.spawn((self.serve)(client));
                }
                Some(_) = tasks.join_next() => {}
            }
        }
    }

    fn listen(&mut self, listen: bool) -> io::Result<()> {
        match (listen, &self.socket) {
            (false, _) => self.socket = None,
            (true, Some(_)) => {}
            (true, None) => {
                let socket = StdListener::bind(self.address)?;
                socket.set_nonblocking(true)?;
                self.socket = Some(Socket(TcpListener::from_std(socket)?));
            }
        }
        Ok(())
    }
}

/// Waits for the next client; `None` without a socket.
async fn accept(socket: Option<&Socket>) -> Option<TcpStream> {
    let Socket(socket) = socket?;
    loop {
        match socket.accept().await {
            Ok((client, _)) => return Some(client),
            // The client has disconnected, or this process has too many open files. No event
            // reports the end of either, so try again.
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        stop_listening(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_is_not_reserved_again() {
        let ports: Vec<Port> = (0..20).map(|_| Port::reserve().unwrap()).collect();
        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 20);
    }
}
