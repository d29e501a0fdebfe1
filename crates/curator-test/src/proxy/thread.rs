//! The thread that a proxy runs on.

use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    sync::{Arc, mpsc as std_mpsc},
    thread::{self, JoinHandle},
};

use tokio::{
    net::{TcpListener, TcpStream},
    runtime,
    sync::mpsc,
    task::JoinSet,
};

use super::{link, state::Shared};
use crate::error::Error;

/// The thread of a proxy. Dropping it ends the thread, and with it all connections.
#[derive(Debug)]
pub(crate) struct Thread {
    /// `None` only while being dropped.
    orders: Option<mpsc::UnboundedSender<Order>>,
    handle: Option<JoinHandle<()>>,
}

/// Starts or stops to listen. Answered when done.
#[derive(Debug)]
struct Order {
    listen: bool,
    done: std_mpsc::SyncSender<io::Result<()>>,
}

/// What the thread works with.
struct Listener {
    address: SocketAddr,
    upstream: SocketAddr,
    shared: Arc<Shared>,
    /// `None` while connections are refused.
    socket: Option<TcpListener>,
}

impl Thread {
    pub(crate) fn start(address: SocketAddr, upstream: SocketAddr, shared: Arc<Shared>) -> Result<Self, Error> {
        let (orders, inbox) = mpsc::unbounded_channel();
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Error::io("build the proxy's runtime"))?;
        let work = move || runtime.block_on(Listener { address, upstream, shared, socket: None }.run(inbox));
        let handle = thread::Builder::new().name("fault-proxy".to_owned()).spawn(work);
        let handle = handle.map_err(Error::io("start the proxy's thread"))?;
        let thread = Self { orders: Some(orders), handle: Some(handle) };
        thread.listen(true)?;
        Ok(thread)
    }

    /// Starts or stops to listen, and returns when it is so. Takes microseconds.
    pub(crate) fn listen(&self, listen: bool) -> Result<(), Error> {
        let (done, answer) = std_mpsc::sync_channel(1);
        let gone = || io::Error::other("the proxy's thread has ended");
        let sent = self.orders.as_ref().is_some_and(|orders| orders.send(Order { listen, done }).is_ok());
        let result = if sent { answer.recv().unwrap_or_else(|_| Err(gone())) } else { Err(gone()) };
        result.map_err(Error::io("listen on the proxy's port"))
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.orders = None;
        // A panic of that thread has been printed already.
        drop(self.handle.take().map(JoinHandle::join));
    }
}

impl Listener {
    /// Accepts clients until there is nobody left to give orders.
    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        let mut links = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    // Nobody waits for the answer when the caller has been dropped.
                    Some(Order { listen, done }) => drop(done.send(self.listen(listen))),
                    None => return,
                },
                Some(client) = accept(self.socket.as_ref()) => {
                    links.spawn(link::serve(client, self.upstream, Arc::clone(&self.shared)));
                }
                Some(_) = links.join_next() => {}
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
                self.socket = Some(TcpListener::from_std(socket)?);
            }
        }
        Ok(())
    }
}

/// The next client; nothing when there is no socket, or when the client has gone again.
async fn accept(socket: Option<&TcpListener>) -> Option<TcpStream> {
    socket?.accept().await.ok().map(|(client, _)| client)
}
