//! The thread of a proxy or an embedded server.

use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    sync::mpsc as std_mpsc,
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    runtime,
    sync::mpsc,
    task::JoinSet,
};

use crate::{error::Error, ports::stop_listening};

/// The longest delay. A longer one could exceed the range of the clock.
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
        let work = move || {
            runtime.block_on(
                Listener {
                    address,
                    serve,
                    socket: None,
                }
                .run(inbox, background),
            )
        };
        let handle = thread::Builder::new().name(name.to_owned()).spawn(work);
        let handle = handle.map_err(Error::io("start a thread"))?;
        let thread = Self {
            orders: Some(orders),
            handle: Some(handle),
        };
        thread.listen(true)?;
        Ok(thread)
    }

    /// Starts or stops listening. Returns when that is done, after microseconds.
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
        // A panic of the thread was printed already.
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
