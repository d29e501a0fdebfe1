//! A proxy between client and server that injects faults.

mod counts;
mod faults;
mod frame;
mod link;
mod state;

use std::{
    collections::BTreeMap,
    future::pending,
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};

pub use faults::Direction;

use self::{
    faults::Fault,
    state::{End, Shared, State},
};
use crate::{
    OpCode, SessionCredentials,
    error::Error,
    ports::Port,
    real_time::timeout,
    serving_thread::{LONGEST_DELAY, ServingThread},
};

/// The limit for waiting for a frame.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A TCP proxy that understands ZooKeeper's frames.
///
/// It counts requests, round trips and watch events, and makes the network fail at a frame that the test selects, not
/// at a point in time. It runs on a separate thread, even while the test's runtime is busy, and its methods can be
/// called from any thread. The effect of a method is in place when it returns.
///
/// A fault with an [`OpCode`] affects the next request of that type that *arrives* at the proxy after the call, on any
/// connection; two calls affect the next two. A fault with a number affects the `nth` such request, counted from 1 (0
/// means 1); requests affected by other faults count too. [`OpCode::CreateSession`] means the handshake.
///
/// The proxy cannot read a connection over TLS. For such connections, only the following work: methods for whole
/// connections, delays, black holes, bytes (of TLS records, including their handshakes), and
/// [`round_trips`](Self::round_trips), where each record with data counts as a request or a reply.
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
        let mut addresses = upstream.to_socket_addrs().map_err(Error::io("resolve the server's address"))?;
        let upstream = addresses.next().ok_or_else(|| Error::Protocol("no address of a server".to_owned()))?;
        let (port, shared) = (Port::reserve()?, Arc::new(Shared::default()));
        let serve = {
            let shared = Arc::clone(&shared);
            move |client| link::serve(client, upstream, Arc::clone(&shared))
        };
        let thread = ServingThread::start("fault-proxy", port.address(), serve, pending())?;
        Ok(Self { shared, thread, port })
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

    /// Delays each frame by `delay`, at most a year. Each direction has this delay, so a round trip takes twice as
    /// long.
    ///
    /// Frames keep their order, and the delays do not add up: each frame leaves `delay` after its arrival, or a
    /// millisecond or two later.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.update(|state| state.faults.delay = delay.min(LONGEST_DELAY));
    }

    /// Closes every connection now; peers read an end of file. New connections are accepted.
    pub fn cut(&self) {
        self.shared.update(|state| state.end_all(End::Close));
    }

    /// Breaks every connection with a TCP reset: peers get an error, not an end of file as with [`cut`](Self::cut).
    ///
    /// The resets are sent right after this returns.
    pub fn reset(&self) {
        self.shared.update(|state| state.end_all(End::Reset));
    }

    /// With true, the proxy stops listening, so new connections are refused (ECONNREFUSED). Current ones stay open.
    ///
    /// # Errors
    ///
    /// When the port cannot be bound again.
    pub fn refuse(&self, refuse: bool) -> Result<(), Error> {
        self.thread.listen(!refuse)
    }

    /// Drops all bytes in this direction, in whole frames. Connections stay open, and the end of a connection is hidden
    /// from the other side too. Directions accumulate until [`heal`](Self::heal).
    ///
    /// Clients can still open connections, since the system accepts them, but get no reply.
    pub fn black_hole(&self, direction: Direction) {
        self.shared.update(|state| state.faults.black_hole(direction));
    }

    /// Ends all black holes. Connections that have lost bytes are closed, because TCP cannot continue after a gap. The
    /// others stay open.
    pub fn heal(&self) {
        self.shared.update(State::heal);
    }

    /// The reply to the next request of this kind is lost. The connection stays open.
    pub fn swallow_next_reply(&self, op: OpCode) {
        self.swallow_nth_reply(op, 1);
    }

    /// The reply to the `nth` request of this kind is lost. The connection stays open.
    pub fn swallow_nth_reply(&self, op: OpCode, nth: u64) {
        self.arm(op, nth, Fault::SwallowReply);
    }

    /// Changes the reply to the next request of this kind, as a faulty server or network might.
    ///
    /// `alter` gets the reply without its length: 4 bytes of xid, 8 of zxid, 4 of error code, and then the body. (The
    /// reply to a handshake has no such header.) The length is adjusted. `alter` runs on the proxy's thread.
    pub fn alter_next_reply(&self, op: OpCode, alter: impl FnOnce(&mut Vec<u8>) + Send + 'static) {
        self.alter_nth_reply(op, 1, alter);
    }

    /// Changes the reply to the `nth` request of this kind, as [`alter_next_reply`](Self::alter_next_reply) does.
    pub fn alter_nth_reply(&self, op: OpCode, nth: u64, alter: impl FnOnce(&mut Vec<u8>) + Send + 'static) {
        self.shared.update(|state| state.faults.arm_alteration(op, nth, alter));
    }

    /// The next request of this kind is sent to the server and applied. Instead of its reply, the connection is closed.
    pub fn cut_before_reply(&self, op: OpCode) {
        self.cut_before_nth_reply(op, 1);
    }

    /// The `nth` request of this kind is sent to the server and applied. Instead of its reply, the connection is
    /// closed.
    pub fn cut_before_nth_reply(&self, op: OpCode, nth: u64) {
        self.arm(op, nth, Fault::CutReply);
    }

    /// The reply to the `nth` request of this kind is delivered, then the connection is closed. Later requests may
    /// reach the server; their replies are lost.
    pub fn cut_after_nth_reply(&self, op: OpCode, nth: u64) {
        self.arm(op, nth, Fault::CutBehindReply);
    }

    /// The next request of this kind is not sent to the server; the connection is closed instead. Earlier requests do
    /// reach the server, but their replies may be lost.
    pub fn cut_before_request(&self, op: OpCode) {
        self.arm(op, 1, Fault::CutRequest);
    }

    /// As [`cut_before_request`](Self::cut_before_request), for the `nth` request of this kind, counted from 1.
    pub fn cut_before_nth_request(&self, op: OpCode, nth: u64) {
        self.arm(op, nth, Fault::CutRequest);
    }

    /// The reply to the `nth` request of this kind is delayed by `delay`, at most a year, and so is everything behind
    /// it on the same connection, since replies keep their order.
    pub fn delay_nth_reply(&self, op: OpCode, nth: u64, delay: Duration) {
        self.arm(op, nth, Fault::DelayReply(delay.min(LONGEST_DELAY)));
    }

    /// The reply to the `nth` request of this kind is held, with everything behind it on the same connection, until
    /// [`release_held`](Self::release_held) is called after its arrival. Other replies of this kind are not held.
    pub fn hold_nth_reply(&self, op: OpCode, nth: u64) {
        self.arm(op, nth, Fault::HoldReply);
    }

    /// Removes the faults that wait for their request. Held replies stay held, and black holes stay open.
    pub fn disarm(&self) {
        self.shared.update(|state| state.faults.disarm());
    }

    /// From now on, the session timeout in each reply to a handshake is multiplied by `factor`. Open connections keep
    /// their timeout; after a [`cut`](Self::cut), clients reconnect and get the new one. 1 ends this, as does any value
    /// that is not a positive number.
    ///
    /// This imitates a client whose clock runs at another rate than the servers'. With a factor of 2, the client's
    /// session timeout is twice that of the servers. In everything that a client measures in session timeouts (when to
    /// ping, when to give up a connection, how long its session is certainly alive), it then behaves as a client with
    /// the true timeout whose clock runs at half the rate.
    pub fn stretch_session_timeouts(&self, factor: f64) {
        let factor = Some(factor).filter(|factor| factor.is_finite() && *factor > 0.0);
        self.shared.update(|state| state.faults.stretch = factor);
    }

    /// With true, each handshake that resumes a session is changed into one that opens a new session, as ClickHouse
    /// Keeper answers it (its issue 116690). The session that was to be resumed stays open on the server.
    pub fn replace_sessions(&self, replace: bool) {
        self.shared.update(|state| state.faults.replaces_sessions = replace);
    }

    /// From now on, replies to requests of this kind are held, with everything after them on the same connection, until
    /// [`release_held`](Self::release_held). That includes replies to requests in flight.
    pub fn hold_replies(&self, op: OpCode) {
        self.shared.update(|state| state.faults.hold(op));
    }

    /// Delivers everything that is held, and ends [`hold_replies`](Self::hold_replies).
    pub fn release_held(&self) {
        self.shared.update(|state| state.faults.release());
    }

    /// Waits until no fault is armed: all the requests that faults were armed for have arrived at the proxy. Their
    /// replies may still be in flight. [`disarm`](Self::disarm) ends the wait too.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] after 30 s.
    pub async fn wait_for_faults(&self) -> Result<(), Error> {
        self.wait("the requests that faults are armed for".to_owned(), |state| !state.faults.is_armed()).await
    }

    /// Waits until this many requests of this kind were sent on to the server, counted since the start or the last
    /// [`reset_counts`](Self::reset_counts).
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] after 30 s.
    pub async fn wait_for_request(&self, op: OpCode, count: u64) -> Result<(), Error> {
        self.wait(format!("{count} × {op:?} sent to the server"), |state| state.counts.forwarded(op) >= count).await
    }

    /// Waits until the server has replied to this many requests of this kind, whether or not the replies are delivered.
    /// Counted as in [`wait_for_request`](Self::wait_for_request).
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] after 30 s.
    pub async fn wait_for_reply(&self, op: OpCode, count: u64) -> Result<(), Error> {
        self.wait(format!("{count} × {op:?} answered by the server"), |state| state.counts.answered(op) >= count).await
    }

    /// Waits until the proxy has exactly this many connections.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] after 30 s.
    pub async fn wait_for_connections(&self, count: usize) -> Result<(), Error> {
        self.wait(format!("{count} connections"), |state| state.connections() == count).await
    }

    /// How many requests of each kind have arrived from clients, whether or not they were sent on. Pings and handshakes
    /// are counted separately.
    #[must_use]
    pub fn requests(&self) -> BTreeMap<OpCode, u64> {
        self.shared.lock().counts.requests()
    }

    /// How many pings have arrived from clients.
    #[must_use]
    pub fn pings(&self) -> u64 {
        self.shared.lock().counts.arrived(OpCode::Ping)
    }

    /// How many handshakes have arrived from clients: one for each connection.
    #[must_use]
    pub fn handshakes(&self) -> u64 {
        self.shared.lock().counts.arrived(OpCode::CreateSession)
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.lock().connections()
    }

    /// How many watch events have arrived from the server, whether or not they were delivered.
    ///
    /// The server sends one event to each session, however many tasks of the session wait for the same node. So this
    /// counts the sessions that a change has woken.
    #[must_use]
    pub fn notifications(&self) -> u64 {
        self.shared.lock().counts.notifications()
    }

    /// How many bytes of frames have arrived from clients, without the length fields, whether or not they were sent on.
    /// Includes pings and handshakes.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.shared.lock().counts.sent()
    }

    /// How many bytes of frames have arrived from the server, whether or not they were delivered.
    #[must_use]
    pub fn bytes_received(&self) -> u64 {
        self.shared.lock().counts.received()
    }

    /// How many round trips clients have waited for. Requests that are sent without waiting for each other count as one
    /// *pipeline*.
    ///
    /// A pipeline starts with a request that arrives after a reply to the same connection's previous pipeline was
    /// delivered, since the request may depend on that reply. Pings, handshakes and requests named by
    /// [`ignore`](Self::ignore) do not count. The result is the sum over all connections.
    ///
    /// On loopback, a fast server may reply to the first of two pipelined requests before the client has sent the
    /// second. A [delay](Self::set_delay) of a few milliseconds makes the count exact.
    #[must_use]
    pub fn round_trips(&self) -> u64 {
        self.shared.lock().counts.round_trips()
    }

    /// Excludes a kind of request from [`round_trips`](Self::round_trips), for background work such as probes with
    /// [`OpCode::Sync`].
    pub fn ignore(&self, op: OpCode) {
        self.shared.update(|state| state.counts.ignore(op));
    }

    /// From now on, requests for exactly this path are sent on without being counted, and faults with an [`OpCode`]
    /// ignore them. A request with several operations, such as a transaction, is exempt if its first operation has this
    /// path. So a test can exempt the path of background requests, such as probes, and still count and disturb other requests
    /// with the same [`OpCode`]. Handshakes have no path.
    pub fn exempt_path(&self, path: &str) {
        self.shared.update(|state| state.faults.exempt_paths.insert(path.into()));
    }

    /// Sets all counts to zero. The next request on each connection starts a pipeline.
    pub fn reset_counts(&self) {
        self.shared.update(State::reset_counts);
    }

    /// The sessions that servers have granted through this proxy, the latest last. Some may have ended.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionCredentials> {
        self.shared.lock().sessions.clone()
    }

    fn arm(&self, op: OpCode, nth: u64, fault: Fault) {
        self.shared.update(|state| state.faults.arm(op, nth, fault));
    }

    async fn wait(&self, what: String, condition: impl Fn(&State) -> bool) -> Result<(), Error> {
        timeout(TIMEOUT, self.shared.until(condition)).await.map_err(|_| Error::timeout(what, TIMEOUT))
    }
}
