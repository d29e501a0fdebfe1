//! A network between client and server that fails on demand.

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
pub(crate) use frame::{ConnectResponse, ReplyHeader};

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

/// How long a wait for something on the wire may last.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A TCP proxy that understands ZooKeeper's frames.
///
/// It counts requests, round trips and watch events, and makes the network fail at a frame that the test chooses, rather
/// than at a point in time. It runs on its own thread, so it keeps running while the test's runtime is busy, and its methods
/// can be called from anywhere. The effect of a method is in place when it returns.
///
/// A fault that names an [`OpCode`] affects the next request of that kind that *arrives* at the proxy after the call, on any
/// connection; two calls affect the next two. A fault with a number affects the `nth` of them, counted from 1 (0 is taken as
/// 1); requests affected by other faults count too. [`OpCode::CreateSession`] means the handshake.
///
/// A connection by TLS passes through, but the proxy cannot read it. All that works there is what concerns whole
/// connections, delays, black holes, bytes (of TLS records, with their handshakes), and
/// [`round_trips`](Self::round_trips), for which each record with data counts as a request or a reply.
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

    /// Delays each frame by this much in each direction, at most a year: a round trip takes twice that.
    ///
    /// Frames keep their order and do not wait for each other: each one leaves that long after it arrived, or a
    /// millisecond or two later.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.update(|state| state.faults.delay = delay.min(LONGEST_DELAY));
    }

    /// Closes every connection now; peers read an end of file. New connections are accepted.
    pub fn cut(&self) {
        self.shared.update(|state| state.end_all(End::Close));
    }

    /// Breaks every connection by a TCP reset; peers get an error where [`cut`](Self::cut) gives an end of file.
    ///
    /// The resets go out right after this returns.
    pub fn reset(&self) {
        self.shared.update(|state| state.end_all(End::Reset));
    }

    /// While true, nothing listens, so new connections are refused (ECONNREFUSED). Current ones stay open.
    ///
    /// # Errors
    ///
    /// When the port cannot be bound again.
    pub fn refuse(&self, refuse: bool) -> Result<(), Error> {
        self.thread.listen(!refuse)
    }

    /// Drops all bytes in that direction, whole frames at a time. Connections stay open, and the end of a connection is
    /// hidden from the other side too. Directions add up until [`heal`](Self::heal).
    ///
    /// Clients can still open connections, as the system accepts them, but get no answer.
    pub fn black_hole(&self, direction: Direction) {
        self.shared.update(|state| state.faults.black_hole(direction));
    }

    /// Ends all black holes. Connections that have lost bytes are closed, as TCP cannot continue after a gap; the others
    /// stay open.
    pub fn heal(&self) {
        self.shared.update(State::heal);
    }

    /// The reply to the next request of that kind is lost; the connection stays.
    pub fn swallow_next_reply(&self, op: OpCode) {
        self.swallow_nth_reply(op, 1);
    }

    /// The reply to the `nth` request of that kind is lost; the connection stays.
    pub fn swallow_nth_reply(&self, op: OpCode, nth: u64) {
        self.arm(op, nth, Fault::SwallowReply);
    }

    /// The reply to the next request of that kind is changed on its way, as by a server or a network that lies.
    ///
    /// `alter` gets the reply without its length: 4 bytes of xid, 8 of zxid, 4 of error code, and then whatever that kind of
    /// request returns. (The answer to a handshake has no such header.) The length is adjusted. It runs on the proxy's
    /// thread.
    pub fn alter_next_reply(&self, op: OpCode, alter: impl FnOnce(&mut Vec<u8>) + Send + 'static) {
        self.alter_nth_reply(op, 1, alter);
    }

    /// The reply to the `nth` request of that kind is changed, as by [`alter_next_reply`](Self::alter_next_reply).
    pub fn alter_nth_reply(&self, op: OpCode, nth: u64, alter: impl FnOnce(&mut Vec<u8>) + Send + 'static) {
        self.shared.update(|state| state.faults.arm_alteration(op, nth, alter));
    }

    /// The next request of that kind reaches the server and is applied, but the connection is closed instead of the reply
    /// being delivered.
    pub fn cut_before_reply(&self, op: OpCode) {
        self.cut_before_nth_reply(op, 1);
    }

    /// The `nth` request of that kind reaches the server and is applied, but the connection is closed instead of the reply
    /// being delivered.
    pub fn cut_before_nth_reply(&self, op: OpCode, nth: u64) {
        self.arm(op, nth, Fault::CutReply);
    }

    /// The reply to the `nth` request of that kind is delivered, and then the connection is closed. Later requests may reach
    /// the server; their replies are lost.
    pub fn cut_after_nth_reply(&self, op: OpCode, nth: u64) {
        self.arm(op, nth, Fault::CutBehindReply);
    }

    /// The next request of that kind never reaches the server; the connection is closed instead. Requests before it do reach
    /// the server, but their replies may be lost.
    pub fn cut_before_request(&self, op: OpCode) {
        self.arm(op, 1, Fault::CutRequest);
    }

    /// As [`cut_before_request`](Self::cut_before_request), for the `nth` request of that kind from now on, counted from 1.
    pub fn cut_before_nth_request(&self, op: OpCode, nth: u64) {
        self.arm(op, nth, Fault::CutRequest);
    }

    /// The reply to the `nth` request of that kind leaves this much later, at most a year, and so does everything behind it
    /// on the same connection: answers keep their order.
    pub fn delay_nth_reply(&self, op: OpCode, nth: u64, delay: Duration) {
        self.arm(op, nth, Fault::DelayReply(delay.min(LONGEST_DELAY)));
    }

    /// The reply to the `nth` request of that kind is held, with everything behind it on the same connection, until
    /// [`release_held`](Self::release_held) is called after it has come. Other replies of that kind are not.
    pub fn hold_nth_reply(&self, op: OpCode, nth: u64) {
        self.arm(op, nth, Fault::HoldReply);
    }

    /// Forgets the faults that wait for their request. What is held stays held, and black holes stay open.
    pub fn disarm(&self) {
        self.shared.update(|state| state.faults.disarm());
    }

    /// From now on, the session timeout that a server grants in its answer to a handshake is multiplied by this on its way.
    /// A connection that is open keeps the one that it was told; [`cut`](Self::cut) makes its client ask again. 1 ends this,
    /// as does anything that is not a positive number.
    ///
    /// This is how a test lets a client's clock run at another rate than the servers'. A client that is told twice the
    /// timeout counts two of the servers' timeouts where it thinks it counts one: in all that it measures in session
    /// timeouts (when to ping, when to give up a connection, for how long its session is certainly alive) it does what
    /// a client does that is told the truth, and whose clock runs at half the rate.
    pub fn stretch_session_timeouts(&self, factor: f64) {
        let factor = Some(factor).filter(|factor| factor.is_finite() && *factor > 0.0);
        self.shared.update(|state| state.faults.stretch = factor);
    }

    /// From now on, replies to requests of that kind are held, with everything after them on the same connection, until
    /// [`release_held`](Self::release_held). That includes replies to requests already under way.
    pub fn hold_replies(&self, op: OpCode) {
        self.shared.update(|state| state.faults.hold(op));
    }

    /// Delivers everything that is held, and holds no more of what [`hold_replies`](Self::hold_replies) names.
    pub fn release_held(&self) {
        self.shared.update(|state| state.faults.release());
    }

    /// Waits until no fault is armed any more: each of the requests they were armed for has arrived at the proxy; its
    /// reply may still be on the way. [`disarm`](Self::disarm) ends the wait too.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] after 30 s.
    pub async fn wait_for_faults(&self) -> Result<(), Error> {
        self.wait("the requests that faults are armed for".to_owned(), |state| !state.faults.is_armed()).await
    }

    /// Waits until this many requests of that kind have been passed on to the server, counted since the start or the last
    /// [`reset_counts`](Self::reset_counts).
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] after 30 s.
    pub async fn wait_for_request(&self, op: OpCode, count: u64) -> Result<(), Error> {
        self.wait(format!("{count} × {op:?} sent to the server"), |state| state.counts.forwarded(op) >= count).await
    }

    /// Waits until the server has answered this many requests of that kind, whether or not the answers get any further.
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

    /// How many requests of each kind have arrived from clients, whether or not they got any further. Pings and handshakes
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

    /// How many connections there are now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.lock().connections()
    }

    /// How many watch events have arrived from the server, whether or not they got any further.
    ///
    /// The server sends one for each session, however many of a session's tasks wait for the same node; so this counts the
    /// sessions that a change has woken.
    #[must_use]
    pub fn notifications(&self) -> u64 {
        self.shared.lock().counts.notifications()
    }

    /// How many bytes of frames have arrived from clients, without the lengths in front of them, whether or not they got any
    /// further. Pings and handshakes count.
    #[must_use]
    pub fn bytes_sent(&self) -> u64 {
        self.shared.lock().counts.sent()
    }

    /// How many bytes of frames have arrived from the server, whether or not they got any further.
    #[must_use]
    pub fn bytes_received(&self) -> u64 {
        self.shared.lock().counts.received()
    }

    /// How many round trips clients have waited for: requests that were sent without waiting for each other count as one
    /// *pipeline*.
    ///
    /// A pipeline starts with a request that arrives after a reply to the same connection's previous pipeline has been
    /// delivered, so that the request may be a consequence of the reply. Pings, handshakes and what [`ignore`](Self::ignore)
    /// names do not count. The result is the sum over all connections.
    ///
    /// On loopback a fast server may answer the first of two pipelined requests before the client has sent the
    /// second. A [delay](Self::set_delay) of a few milliseconds makes the count exact.
    #[must_use]
    pub fn round_trips(&self) -> u64 {
        self.shared.lock().counts.round_trips()
    }

    /// Leaves a kind of request out of [`round_trips`](Self::round_trips), for work that goes on in the background,
    /// such as probes by [`OpCode::Sync`].
    pub fn ignore(&self, op: OpCode) {
        self.shared.update(|state| state.counts.ignore(op));
    }

    /// From now on, requests for exactly this path are passed on without being counted, and faults that name an
    /// [`OpCode`] ignore them. A request of several operations, such as a transaction, counts by the path of the first.
    /// So a test can tell the requests that it is about from probes and round trips of the same kind. Handshakes have no
    /// path.
    pub fn pass_over(&self, path: &str) {
        self.shared.update(|state| state.faults.passed_over.insert(path.into()));
    }

    /// Sets all counts to zero. The next request on each connection starts a pipeline.
    pub fn reset_counts(&self) {
        self.shared.update(State::reset_counts);
    }

    /// The sessions that servers have granted through this proxy, the latest last. Some may be over by now.
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
