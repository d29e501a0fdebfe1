//! A proxy between client and server that injects faults.

mod frame;
mod link;

use std::{
    collections::BTreeMap,
    future::pending,
    net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::watch;

use crate::{
    error::Error,
    ports::{LONGEST_DELAY, Port, ServingThread},
    traffic::{Direction, LinkId, Traffic, WAIT_LIMIT, traffic_methods},
    wait::timeout,
};

/// A TCP proxy that understands ZooKeeper's frames.
///
/// It counts requests, round trips and watch events, and makes the network fail at a frame that the
/// test selects, not at a point in time. It runs on a separate thread, even while the test's
/// runtime is busy, and its methods can be called from any thread. The effect of a method is in
/// place when it returns.
///
/// A fault with an [`OpCode`](crate::OpCode) affects the next request of that type that *arrives*
/// at the proxy after the call, on any connection; two calls affect the next two. A fault with a
/// number affects the `nth` such request, counted from 1 (0 means 1); requests affected by other
/// faults count too. [`OpCode::CreateSession`](crate::OpCode::CreateSession) means the handshake.
///
/// The proxy cannot read a connection over TLS. For such connections, only the following work:
/// methods for whole connections, delays, black holes, bytes (of TLS records, including their
/// handshakes), and [`round_trips`](Self::round_trips), where each record with data counts as a
/// request or a reply.
///
/// Dropping the proxy closes all its connections.
#[derive(Debug)]
pub struct FaultProxy {
    shared: Arc<Shared>,
    thread: ServingThread,
    port: Port,
}

impl FaultProxy {
    /// Starts a proxy in front of a server, on a free port of the loopback interface.
    ///
    /// When the server is down, clients are accepted and then closed.
    ///
    /// # Errors
    ///
    /// When the address cannot be resolved, or when the proxy cannot be started.
    pub fn start(upstream: impl ToSocketAddrs) -> Result<Self, Error> {
        let mut addresses = upstream
            .to_socket_addrs()
            .map_err(Error::io("resolve the server's address"))?;
        let upstream = addresses
            .next()
            .ok_or_else(|| Error::Protocol("no address of a server".to_owned()))?;
        let port = Port::reserve()?;
        let shared = Arc::new(Shared::default());
        let serve = {
            let shared = Arc::clone(&shared);
            move |client| link::serve(client, upstream, Arc::clone(&shared))
        };
        let thread = ServingThread::start("fault-proxy", port.address(), serve, pending())?;
        Ok(Self {
            shared,
            thread,
            port,
        })
    }

    /// The address that clients connect to, as a `SocketAddr`.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// The connect string for ZooKeeper clients: `127.0.0.1:<port>`.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.address().to_string()
    }

    /// Delays each frame by `delay`, at most a year. Each direction has this delay, so a round trip
    /// takes twice as long.
    ///
    /// Frames keep their order, and the delays do not add up: each frame leaves `delay` after its
    /// arrival, or a millisecond or two later.
    pub fn set_delay(&self, delay: Duration) {
        self.shared
            .update(|state| state.delay = delay.min(LONGEST_DELAY));
    }

    /// Closes every connection now; peers read EOF. New connections are accepted.
    pub fn cut(&self) {
        self.shared.update(|state| state.end_all(End::Close));
    }

    /// Breaks every connection with a TCP reset: peers get an error, not EOF as with
    /// [`cut`](Self::cut).
    ///
    /// The resets are sent right after this returns.
    pub fn reset(&self) {
        self.shared.update(|state| state.end_all(End::Reset));
    }

    /// If `refuse` is true, the proxy stops listening, so new connections are refused
    /// (ECONNREFUSED). Current connections stay open. If it is false, the proxy listens again.
    ///
    /// # Errors
    ///
    /// When the port cannot be bound again.
    pub fn refuse(&self, refuse: bool) -> Result<(), Error> {
        self.thread.listen(!refuse)
    }

    /// Drops all bytes in this direction, in whole frames. Connections stay open, and the end of a
    /// connection is hidden from the other side. Directions accumulate until [`heal`](Self::heal).
    ///
    /// Clients can still open connections, since the system accepts them, but get no reply.
    pub fn black_hole(&self, direction: Direction) {
        self.shared
            .update(|state| state.traffic.faults.black_hole(direction));
    }

    /// Ends all black holes. Connections that have lost bytes are closed, because TCP cannot
    /// continue after a gap. The others stay open.
    pub fn heal(&self) {
        self.shared.update(State::heal);
    }

    /// From now on, the session timeout in each reply to a handshake is multiplied by `factor`.
    /// Open connections keep their timeout; after a [`cut`](Self::cut), clients reconnect and get
    /// the new one. A factor of 1 ends this, as does any factor that is not a positive number.
    ///
    /// This imitates a client whose clock runs at another rate than the servers'. With a factor of
    /// 2, the client's session timeout is twice the servers'. In everything that a client measures
    /// in session timeouts (when to ping, when to abandon a connection, how long its session is
    /// certainly alive), it then behaves like a client with the true timeout whose clock runs at
    /// half the rate.
    pub fn stretch_session_timeouts(&self, factor: f64) {
        let factor = Some(factor).filter(|factor| factor.is_finite() && *factor > 0.0);
        self.shared.update(|state| state.stretch = factor);
    }

    /// If `replace` is true, each handshake that resumes a session is changed into one that opens a
    /// new session. ClickHouse Keeper answers such a handshake with a new session (its issue
    /// 116690). The session that was to be resumed stays open on the server.
    pub fn replace_sessions(&self, replace: bool) {
        self.shared
            .update(|state| state.replaces_sessions = replace);
    }

    fn read_traffic<R>(&self, read: impl FnOnce(&Traffic) -> R) -> R {
        read(&self.shared.lock().traffic)
    }

    fn change_traffic<R>(&self, change: impl FnOnce(&mut Traffic) -> R) -> R {
        self.shared.update(|state| change(&mut state.traffic))
    }

    async fn wait_for_traffic(
        &self,
        what: String,
        condition: impl Fn(&Traffic) -> bool,
    ) -> Result<(), Error> {
        let waiting = self.shared.until(|state| condition(&state.traffic));
        timeout(WAIT_LIMIT, waiting)
            .await
            .map_err(|_| Error::timeout(what, WAIT_LIMIT))
    }
}

traffic_methods!(FaultProxy);

/// The state of a proxy, shared by its thread and its handles.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

/// The state behind the lock of [`Shared`].
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) traffic: Traffic,
    /// The delay of each frame.
    pub(crate) delay: Duration,
    /// The factor for the session timeout in each reply to a handshake.
    pub(crate) stretch: Option<f64>,
    /// Whether each handshake opens a new session.
    pub(crate) replaces_sessions: bool,
    links: BTreeMap<LinkId, Sockets>,
    last_link: LinkId,
}

/// A client's connection, and the matching one to the server.
#[derive(Debug)]
struct Sockets {
    /// Duplicates of both sockets, so that the link can be cut without waiting for the proxy's
    /// thread.
    sockets: Vec<TcpStream>,
    end: watch::Sender<Option<End>>,
}

/// How a test ends a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Closes the connections normally: the peers read EOF.
    Close,
    /// Sends a TCP reset: the peers get an error.
    Reset,
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes the waiters.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.send_replace(());
        result
    }

    /// Waits until the state satisfies a condition.
    pub(crate) async fn until(&self, condition: impl Fn(&State) -> bool) {
        let mut changed = self.changed.subscribe();
        while !condition(&self.lock()) {
            // The sender exists as long as `self`.
            if changed.changed().await.is_err() {
                return;
            }
        }
    }
}

impl State {
    /// Registers a link. The receiver is notified when a test ends the link.
    pub(crate) fn open(&mut self, client: TcpStream) -> (LinkId, watch::Receiver<Option<End>>) {
        let (end, ended) = watch::channel(None);
        self.last_link += 1;
        self.traffic.open(self.last_link);
        self.links.insert(
            self.last_link,
            Sockets {
                sockets: vec![client],
                end,
            },
        );
        (self.last_link, ended)
    }

    /// Adds the socket of the server.
    pub(crate) fn connect(&mut self, id: LinkId, server: TcpStream) {
        if let Some(link) = self.links.get_mut(&id) {
            link.sockets.push(server);
        }
    }

    pub(crate) fn forget(&mut self, id: LinkId) {
        self.traffic.forget(id);
        self.links.remove(&id);
    }

    /// Ends all links.
    pub(crate) fn end_all(&mut self, end: End) {
        self.links.values_mut().for_each(|link| link.end(end));
    }

    /// Ends all black holes, and closes the links that have lost bytes.
    pub(crate) fn heal(&mut self) {
        for id in self.traffic.heal() {
            if let Some(link) = self.links.get_mut(&id) {
                link.end(End::Close);
            }
        }
    }
}

impl Sockets {
    fn end(&mut self, end: End) {
        self.end.send_replace(Some(end));
        // The system sends a reset when the last handle of a socket is dropped. This drops the
        // duplicates; the proxy's thread drops the others.
        for socket in self.sockets.drain(..).filter(|_| end == End::Close) {
            // Fails if the peer has already closed the connection, which has the same effect.
            drop(socket.shutdown(Shutdown::Both));
        }
    }
}
