//! One ZooKeeper session, from its creation to its end: one epoch of the client. A reconnect ends it
//! if the server grants another session or a shorter timeout.

mod ask;
mod held_nodes;
mod open;
mod requests;
mod turns;
mod watching_session;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use self::held_nodes::HeldNodes;
pub use self::held_nodes::{CloseDelay, HeldNode};
pub(crate) use self::open::OpenFailure;
pub use self::requests::Request;
pub use self::turns::Turn;
use self::turns::Turns;
pub use self::watching_session::WatchingSession;
use crate::error::SessionEnd;
use crate::link::Link;
#[cfg(feature = "zookeeper-client")]
use crate::link::Removals;
use crate::options::SessionOptions;
use crate::path::ZPath;
use crate::server_operations::{KnownMissing, MissingOperations, ServerOperation};
use crate::session_lease::SessionLease;
use crate::source::watch;
use crate::time::{ClockInstant, Timer};
use crate::transport::end_by_grant;

/// One ZooKeeper session of a client. Clones are handles to the same session.
///
/// State that ends with a session (a lock node, a hold, a pending delete) is bound to one
/// `Session`; after a loss the client has another session. A request is *sent by the call*, not
/// when its future is polled, and a session is first in, first out: calls made one after another,
/// without awaiting in between, are pipelined and take one round trip. No request is retried.
///
/// Paths are paths on the server: [`CuratorClient::resolve`](crate::CuratorClient::resolve) adds
/// the chroot and the namespace.
///
/// ```no_run
/// # async fn example(client: curator_client::CuratorClient) -> Result<(), curator_client::Error> {
/// let session = client.session().await?;
/// let orders = client.resolve("/orders")?;
/// let config = client.resolve("/config")?;
/// // Both requests are sent before the first reply is awaited: one round trip.
/// let orders = session.get_children(&orders);
/// let config = session.get_data(&config);
/// println!("{} orders", orders.await?.len());
/// println!("{} bytes", config.await?.0.len());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Session {
    inner: Arc<Inner>,
}

struct Inner {
    epoch: u64,
    session_id: i64,
    timeout: Duration,
    is_on_other_server: bool,
    lease: SessionLease,
    options: Arc<SessionOptions>,
    timer: Timer,
    /// `None` once the session has ended. The link's connection may be broken. Dropping the last
    /// clone of a working link closes the session on the server.
    link: Mutex<Option<Link>>,
    end: watch::Sender<Option<SessionEnd>>,
    /// Whether the current connection has answered a probe.
    connected: watch::Sender<bool>,
    in_flight: Arc<Semaphore>,
    turns: Arc<Turns>,
    /// How many connections there have been.
    connections: AtomicU64,
    held_nodes: Arc<HeldNodes>,
    /// The number of [`CloseDelay`]s.
    close_delays: watch::Sender<usize>,
    /// The operations that the servers of this session are known to lack.
    missing: KnownMissing,
    #[cfg(feature = "zookeeper-client")]
    removals: Arc<Removals>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("id", &format_args!("{:#x}", self.id()))
            .field("epoch", &self.epoch())
            .field("end", &self.end())
            .finish_non_exhaustive()
    }
}

impl Session {
    fn new(
        epoch: u64,
        link: Link,
        connect_sent: ClockInstant,
        options: &Arc<SessionOptions>,
        timer: &Timer,
    ) -> Self {
        let timeout = link.session_timeout();
        Self {
            inner: Arc::new(Inner {
                epoch,
                session_id: link.session_id(),
                timeout,
                is_on_other_server: link.session_key().is_of_other_server(),
                lease: SessionLease::new(timeout, connect_sent),
                options: Arc::clone(options),
                timer: timer.clone(),
                link: Mutex::new(Some(link)),
                end: watch::Sender::new(None),
                connected: watch::Sender::new(false),
                in_flight: Arc::new(Semaphore::new(options.max_requests_in_flight)),
                turns: Arc::default(),
                connections: AtomicU64::new(1),
                held_nodes: Arc::default(),
                close_delays: watch::Sender::new(0),
                missing: KnownMissing::default(),
                #[cfg(feature = "zookeeper-client")]
                removals: Arc::default(),
            }),
        }
    }

    /// The number of this session among its client's sessions, counted from 1.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.inner.epoch
    }

    /// Whether `other` is a handle to this same session. Sessions of different ensembles can have
    /// the same id.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The session id, assigned by the server: the `ephemeralOwner` of the session's nodes.
    #[must_use]
    pub fn id(&self) -> i64 {
        self.inner.session_id
    }

    /// The session timeout that the server granted.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.inner.timeout
    }

    /// The lease: how long the session is certainly alive.
    #[must_use]
    pub fn lease(&self) -> &SessionLease {
        &self.inner.lease
    }

    /// Whether the session is certainly alive now. Reads the clock.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.end().is_none()
    }

    /// Why the session has ended; `None` if it has not.
    #[must_use]
    pub fn end(&self) -> Option<SessionEnd> {
        if self.inner.lease.is_valid() {
            return None;
        }
        if self.inner.lease.has_forked() {
            return Some(SessionEnd::Forked);
        }
        // `finish` revokes the lease while it holds this lock, so a caller that finds the lease
        // revoked also finds the reason.
        let recorded = *self.inner.end.borrow();
        Some(recorded.unwrap_or(SessionEnd::LeaseOver))
    }

    /// Waits until the session has ended. Does not depend on any other task: this returns when the
    /// lease runs out.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn ended(&self) -> SessionEnd {
        let mut ends = self.inner.end.subscribe();
        loop {
            if let Some(end) = self.end() {
                return end;
            }
            tokio::select! {
                // Poll the recorded end first: when the runtime ends, the session's end is recorded
                // before the timers end.
                biased;
                _ = ends.changed() => {}
                () = self.inner.timer.sleep(self.inner.lease.remaining()) => {}
            }
        }
    }

    /// Whether requests can be sent now.
    ///
    /// While the connection is down, a request fails immediately with
    /// [`Error::Disconnected`](crate::Error::Disconnected) and is not queued: a request sent later
    /// could be applied after its caller has stopped using the session.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        *self.inner.connected.borrow() && self.link().is_some_and(|link| link.end().is_none())
    }

    /// Waits until requests can be sent, however long that takes.
    ///
    /// # Errors
    ///
    /// The reason why the session ended, if it ended first.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn connected(&self) -> Result<(), SessionEnd> {
        let mut connected = self.inner.connected.subscribe();
        loop {
            connected.borrow_and_update();
            if let Some(end) = self.end() {
                return Err(end);
            }
            if self.is_connected() {
                return Ok(());
            }
            tokio::select! {
                biased;
                end = self.ended() => return Err(end),
                // The sender lives in `self`, so the channel cannot be closed.
                _ = connected.changed() => {}
            }
        }
    }

    /// Waits for a turn to send a pipeline of requests, and until the session is
    /// [`connected`](Self::connected).
    ///
    /// For code that many tasks may run at the same time: when a connection breaks, thousands of
    /// waiters read their nodes again at the same moment. With turns, granted first come, first
    /// served, they neither exceed the limit of requests in flight nor delay the session's probes.
    /// Dropping a turn ends it; [`Turn::until_answered`] ends it as soon as the replies have
    /// arrived, even if their future is not polled then.
    ///
    /// # Errors
    ///
    /// The reason why the session ended, if it ended first.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, its place in the queue for a turn is lost.
    pub async fn turn(&self) -> Result<Turn, SessionEnd> {
        loop {
            self.connected().await?;
            let turn = tokio::select! {
                biased;
                turn = self.inner.turns.enter() => turn,
                end = self.ended() => return Err(end),
            };
            if self.is_connected() {
                return Ok(turn);
            }
        }
    }

    /// Calls `send`, and writes the requests that it makes to the connection in one batch.
    ///
    /// Requests made one after another are pipelined in any case, and take one round trip. Requests
    /// made in `send` also wake the connection only once. A request is made when its method is
    /// called, not when its future is awaited.
    ///
    /// # Caveats
    ///
    /// `send` must neither block nor wait: until it returns, the connection of the session reads
    /// and writes nothing, so waiting for a reply inside `send` deadlocks.
    ///
    /// ```no_run
    /// # async fn example(client: curator_client::CuratorClient) -> Result<(), curator_client::Error> {
    /// let session = client.session().await?;
    /// let orders = client.resolve("/orders")?;
    /// let config = client.resolve("/config")?;
    /// let (orders, config) = session.pipelined(|| (session.get_children(&orders), session.get_data(&config)));
    /// println!("{} orders, {} bytes", orders.await?.len(), config.await?.0.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn pipelined<T>(&self, send: impl FnOnce() -> T) -> T {
        match self.link() {
            Some(link) => link.together(send),
            None => send(),
        }
    }

    /// Whether the server is known to lack an operation. Then requests that need it fail with
    /// [`Error::Unimplemented`](crate::Error::Unimplemented) without being sent, unless the client
    /// has another way to the same result.
    ///
    /// The client finds this out before it uses a session of a server other than ZooKeeper. A
    /// server of ZooKeeper is not asked: its reply to a request shows that it lacks the operation.
    /// What is found stays true for this session, even if the server is upgraded during it.
    ///
    /// Another server on which the session continues is not asked. (Of the servers that are asked, only
    /// `RaftKeeper` resumes sessions.) If it lacks more than the first one, it ignores the requests that
    /// need this. They fail with [`Error::OperationTimeout`](crate::Error::OperationTimeout) or
    /// [`Error::ConnectionLost`](crate::Error::ConnectionLost), and the session continues.
    ///
    /// The client recognizes other servers by small session ids, and by passwords of zeros. A
    /// ClickHouse Keeper that was converted from a ZooKeeper has large ids, and `zookeeper-client`
    /// hides the password: there, use `Transport::Native`.
    #[must_use]
    pub fn lacks(&self, operation: ServerOperation) -> bool {
        self.inner.missing.contains(operation)
    }

    /// Whether the server is not one of ZooKeeper, as far as is known.
    pub(crate) fn is_on_other_server(&self) -> bool {
        self.inner.is_on_other_server
    }

    /// Records the operations that the server of a new session lacks.
    pub(crate) fn set_missing(&self, missing: MissingOperations) {
        self.inner.missing.add(missing);
        if let Some(link) = self.link() {
            link.set_missing(missing);
        }
    }

    /// Checks a node of this session each time the session continues over another connection,
    /// before requests can be sent over that connection. Calls `on_missing` if the node does not
    /// exist: it was deleted while the session was not connected, or the ensemble has lost it (its
    /// data was restored from a backup, for example). Dropping the result ends the checks.
    ///
    /// All held nodes are checked in the round trip of the connection's first probe, up to 500 in
    /// one request; on servers without `multiRead`, each in a separate request. After this call, read
    /// the number of [connections](Self::connections): if it has changed since the node was
    /// created, the check over the current connection may have missed the node.
    ///
    /// `on_missing` is called on a thread of the runtime, and must not block.
    pub fn hold_node(
        &self,
        path: &ZPath,
        on_missing: impl Fn() + Send + Sync + 'static,
    ) -> HeldNode {
        self.inner.held_nodes.add(path, Arc::new(on_missing))
    }

    /// How many connections the session has had, including the current one.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.inner.connections.load(Ordering::SeqCst)
    }

    /// The time between two probes.
    pub(crate) fn probe_interval(&self) -> Duration {
        self.inner
            .lease
            .probe_interval()
            .min(self.inner.options.session_timeout / 6)
    }

    /// How long a connection may leave probes unanswered before it is closed, and how long a
    /// request waits for its reply by default: the granted or the requested session timeout,
    /// whichever is shorter.
    pub(crate) fn answer_limit(&self) -> Duration {
        self.inner.timeout.min(self.inner.options.session_timeout)
    }

    pub(crate) fn set_connected(&self, connected: bool) {
        self.set_connected_after(connected, || {});
    }

    /// Like [`set_connected`](Self::set_connected). Calls `announce` before the change is visible:
    /// a caller that reacts to the announcement waits for the lock, and then finds the change.
    pub(crate) fn set_connected_after(&self, connected: bool, announce: impl FnOnce()) {
        self.inner.connected.send_if_modified(|current| {
            announce();
            std::mem::replace(current, connected) != connected
        });
    }

    /// The session's connection; `None` if the session has ended, or in a forked child.
    pub(crate) fn link(&self) -> Option<Link> {
        if self.inner.lease.has_forked() {
            return None;
        }
        self.inner
            .link
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The number of watches that have not fired.
    pub(crate) fn watches(&self) -> usize {
        self.link().map(|link| link.watches()).unwrap_or_default()
    }

    /// The server of the current connection, or of the previous one while there is none; empty when
    /// the session has ended.
    pub(crate) fn server(&self) -> String {
        self.link()
            .map(|link| link.server().to_string())
            .unwrap_or_default()
    }

    /// Continues with another connection. If the session has ended, only drops `link`, which closes
    /// the session on the server.
    ///
    /// The server is not asked what it lacks: the session's nodes and watches cannot wait for that, and
    /// what [is missing](Self::lacks) stays missing.
    ///
    /// If `link` belongs to another session, this session has ended, and [`finish`](Self::finish)
    /// returns `link`.
    pub(crate) fn replace_link(&self, link: Link) {
        link.set_missing(self.inner.missing.get());
        self.granted(link.session_id(), link.session_timeout());
        let mut current = self
            .inner
            .link
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.inner.connections.fetch_add(1, Ordering::SeqCst);
        let (previous, unused) = match &mut *current {
            Some(current) => (Some(std::mem::replace(current, link)), None),
            None => (None, Some(link)),
        };
        drop(current);
        drop(unused);
        if let Some(previous) = previous {
            previous.abandon();
        }
    }

    /// Records the session and the timeout that a server has granted at a reconnect, which may
    /// [end](end_by_grant) this session.
    pub(crate) fn granted(&self, session_id: i64, timeout: Duration) {
        if let Some(end) = end_by_grant((self.id(), self.timeout()), (session_id, timeout)) {
            self.end_for_all(end);
        }
    }

    /// Ends the session for all handles. The first reason is kept.
    ///
    /// Returns the session's connection: the caller can close the session over it. Dropping the
    /// connection also closes it.
    pub(crate) fn finish(&self, end: SessionEnd) -> Option<Link> {
        self.end_for_all(end);
        let link = self
            .inner
            .link
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        #[cfg(feature = "zookeeper-client")]
        self.inner.removals.session_ended();
        link
    }

    fn end_for_all(&self, end: SessionEnd) {
        self.inner.end.send_if_modified(|current| {
            let first = current.is_none();
            current.get_or_insert(end);
            self.inner.lease.revoke();
            first
        });
    }
}
