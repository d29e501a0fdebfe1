//! A ZooKeeper server in this process, for tests, examples and first steps.
//!
//! | Module | |
//! |---|---|
//! | `family`, `protocol`, `operations` | how servers differ, and the requests that they know |
//! | `codec` | requests, replies and events, in the wire format of `curator-client` |
//! | `tree` | nodes, transactions, sequence numbers; no I/O, no clock |
//! | `acl` | ACLs and identities |
//! | `sessions` | sessions and their expiry, and the state of a connection |
//! | `watches` | which connections to notify of an event |
//! | `processor` | turns requests into replies and events; no I/O, no clock |
//! | `words` | four-letter words |
//! | `faults` | faults armed by a test |
//! | `shared`, `link` | sockets and time |

mod acl;
mod builder;
mod code;
mod codec;
mod family;
mod faults;
mod link;
mod operations;
mod processor;
mod protocol;
mod sessions;
mod shared;
mod tree;
mod watches;
pub(crate) mod words;

use std::{
    collections::BTreeMap,
    fmt,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

pub use builder::EmbeddedServerBuilder;
pub use faults::RequestInfo;
// For the simulation, whose servers have the same processor.
#[cfg(feature = "simulation")]
pub(crate) use {
    acl::{Acl, Id},
    builder::Settings,
    code::Code,
    codec::{Body, ConnectRequest, Control, Request, Write},
    family::Family,
    processor::{Arrived, Change, Entry, Incoming, Now, Output, Processor, Step},
    protocol::Protocol,
    sessions::{ConnectionId, Millis},
};

#[cfg(not(feature = "simulation"))]
use self::{builder::Settings, processor::Processor};
use self::{
    faults::Fault,
    shared::{Shared, Stage, now},
};
use crate::{
    OpCode,
    error::Error,
    ports::{LONGEST_DELAY, Port, ServingThread},
};
#[cfg(not(feature = "simulation"))]
pub(crate) use protocol::Protocol;

/// A ZooKeeper server in this process: in memory, on a port of the loopback interface, ready in
/// milliseconds.
///
/// It implements the client protocol of ZooKeeper 3.9, or of another server by its
/// [`Dialect`](crate::Dialect): sessions, ephemeral, sequential, container
/// and TTL nodes, transactions, ACLs, watches of all kinds, and the four-letter words `ruok`,
/// `srvr`, `mntr`, `cons`, `wchs` and `wchp`. Conformance tests compare it with real servers, byte
/// by byte wherever the bytes are deterministic. Any ZooKeeper client can connect to it.
///
/// It does not replace an ensemble: it is a single server, and its data is lost when it is dropped.
///
/// On demand it loses the reply to a chosen request, expires a session early, or freezes. The
/// effect of a method is in place when it returns. The methods can be called from any thread; the
/// server runs on a separate thread.
///
/// # Limitations
///
/// - SASL: like a real server without SASL, it replies with success and an empty token. A
///   `curator-client` that is configured to authenticate treats this as a refusal.
/// - TLS, quotas (their nodes can be created, but nothing is counted), the super user, `reconfig`,
///   and requests between servers. To an unknown request it replies `Unimplemented` and closes the
///   connection, as ZooKeeper does.
/// - Other four-letter words, the admin server, metrics, latencies.
/// - Limits on connections, requests in flight, and rates.
/// - Persistence: nothing is written to disk.
///
/// Dropping the server closes all connections and frees the port.
pub struct EmbeddedServer {
    shared: Arc<Shared>,
    thread: ServingThread,
    settings: Settings,
    begin: Instant,
    port: Port,
    /// Locked while the server starts or stops, as its stage and its port change together.
    control: Mutex<()>,
}

/// Shows only the port: the state holds the data of all nodes and the passwords of sessions.
impl fmt::Debug for EmbeddedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedServer")
            .field("port", &self.port.number())
            .finish_non_exhaustive()
    }
}

impl EmbeddedServer {
    /// Starts a server. It is ready when this returns.
    ///
    /// # Errors
    ///
    /// When there is no free port, or when the system cannot start a thread.
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// Configures a server.
    pub fn builder() -> EmbeddedServerBuilder {
        EmbeddedServerBuilder::default()
    }

    pub(crate) fn start_with(settings: Settings) -> Result<Self, Error> {
        let port = Port::reserve()?;
        let begin = Instant::now();
        let shared = Arc::new(Shared::new(
            begin,
            processor(settings, begin, port.number()),
        ));
        let serve = {
            let shared = Arc::clone(&shared);
            move |client| link::serve(client, Arc::clone(&shared))
        };
        let clock = {
            let shared = Arc::clone(&shared);
            async move { shared.keep_time().await }
        };
        let thread = ServingThread::start("embedded-zookeeper", port.address(), serve, clock)?;
        Ok(Self {
            shared,
            thread,
            settings,
            begin,
            port,
            control: Mutex::default(),
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

    /// Whether the server is running. A [paused](Self::pause) server counts as running, a
    /// [stopped](Self::stop) one does not.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.shared.lock().stage != Stage::Stopped
    }

    /// Closes the port and all connections. Nodes and sessions are kept, and no time passes for
    /// them. In the dialect of ClickHouse Keeper, the sessions of connected clients end. Does nothing
    /// on a stopped server.
    pub fn stop(&self) {
        let _controlled = self.control();
        self.shut_down();
    }

    /// Stops the server if it is running, and starts it again on the same port. Nodes and sessions
    /// are kept, and the sessions' timeouts restart. As on a real server, watches end with their
    /// connections.
    ///
    /// # Errors
    ///
    /// When the port cannot be bound again. Then the server stays stopped.
    pub fn restart(&self) -> Result<(), Error> {
        let _controlled = self.control();
        self.shut_down();
        self.start_up()
    }

    /// Like [`restart`](Self::restart), but all nodes and sessions are lost.
    ///
    /// A client that reconnects is notified that its session has ended. A client that has seen a
    /// later transaction is disconnected, because the server's zxids start at 1 again; a real
    /// server that has lost its data does the same. Armed faults, the delay and the counts are
    /// kept.
    ///
    /// # Errors
    ///
    /// See [`restart`](Self::restart).
    pub fn restart_empty(&self) -> Result<(), Error> {
        let _controlled = self.control();
        self.shut_down();
        let empty = processor(self.settings, self.begin, self.port.number());
        self.shared
            .update(|state, _| state.processor.replace(empty));
        self.start_up()
    }

    /// Freezes the server: connections stay open and the system accepts new ones, but the server
    /// sends no reply. Time passes: sessions whose timeout expires have ended when the server is
    /// [resumed](Self::resume). Does nothing on a stopped server.
    pub fn pause(&self) {
        self.shared.update(|state, _| {
            if state.stage == Stage::Running {
                state.stage = Stage::Paused;
            }
        });
    }

    /// Resumes a paused server.
    pub fn resume(&self) {
        self.shared.update(|state, now| {
            if state.stage == Stage::Paused {
                state.stage = Stage::Running;
                state.processor.tick(now);
            }
        });
    }

    /// Closes all connections; clients read EOF. New connections are accepted.
    pub fn cut(&self) {
        self.shared.update(|state, _| state.drop_connections());
    }

    /// If `refuse` is true, the server stops listening, so new connections are refused
    /// (ECONNREFUSED). Current connections stay open. If `refuse` is false, and after a
    /// [restart](Self::restart), a running server listens again.
    ///
    /// # Errors
    ///
    /// When the port cannot be bound again.
    pub fn refuse(&self, refuse: bool) -> Result<(), Error> {
        let _controlled = self.control();
        self.thread.listen(!refuse && self.is_running())
    }

    /// Whether the server has a quorum; it has one at first. Without one, it closes all connections,
    /// and turns each handshake away, as a server of its [`Dialect`](crate::Dialect) does: ZooKeeper
    /// does not reply; ClickHouse Keeper and RaftKeeper reply with the version 42 of the protocol,
    /// and RaftKeeper also reports that the client's session has ended.
    pub fn set_quorum(&self, has_quorum: bool) {
        self.shared.update(|state, _| {
            state.processor.has_quorum = has_quorum;
            if !has_quorum {
                state.drop_connections();
            }
        });
    }

    /// Writes the members of an ensemble to `/zookeeper/config`, by the addresses for their clients,
    /// and fires the watches on it, as a reconfiguration of ZooKeeper does. At first, the node is
    /// empty, as on a server without an ensemble. The data is lost in
    /// [`restart_empty`](Self::restart_empty).
    ///
    /// The server stays alone: this is for clients that follow the members. A server in the dialect
    /// of ClickHouse Keeper writes to `/keeper/config`, in its format, which does not contain the
    /// addresses for clients.
    pub fn set_ensemble(&self, members: &[SocketAddr]) {
        let members = members.iter().map(SocketAddr::to_string).collect();
        self.shared
            .update(|state, now| state.processor.set_ensemble(members, now));
    }

    /// Delays each reply and each event by `delay`, at most a year. They keep their order, and the
    /// delays do not add up.
    pub fn set_delay(&self, delay: Duration) {
        self.shared
            .update(|state, _| state.faults.delay = delay.min(LONGEST_DELAY));
    }

    /// The next matching request is applied, but its reply is lost. The connection stays open.
    ///
    /// Each request, including pings and handshakes, is compared with the faults, oldest first,
    /// and uses up the first that matches.
    ///
    /// The server calls `matches` and waits for it. Calling a method of the server in `matches` is
    /// a deadlock.
    pub fn swallow_reply(&self, matches: impl Fn(&RequestInfo) -> bool + Send + 'static) {
        self.shared
            .update(|state, _| state.faults.arm(Box::new(matches), Fault::Swallow));
    }

    /// The next matching request is applied, but instead of the reply, its connection is closed.
    ///
    /// The request is chosen as in [`swallow_reply`](Self::swallow_reply).
    pub fn cut_before_reply(&self, matches: impl Fn(&RequestInfo) -> bool + Send + 'static) {
        self.shared
            .update(|state, _| state.faults.arm(Box::new(matches), Fault::Drop));
    }

    /// Changes the bounds of session timeouts, as if sessions moved to another server. Existing
    /// sessions keep their timeout until they reconnect. A [restart](Self::restart) keeps the new
    /// bounds.
    ///
    /// # Errors
    ///
    /// [`Error::Property`] when `min` is longer than `max`.
    pub fn set_session_timeouts(&self, min: Duration, max: Duration) -> Result<(), Error> {
        let mut settings = self.settings;
        settings.session_timeouts = (Some(min), max);
        settings.check()?;
        self.shared
            .update(|state, _| state.processor.settings = settings);
        Ok(())
    }

    /// Expires a session early, in this order: its connection is closed; when its client
    /// reconnects, the reply reports that the session has expired; one or two ticks after the
    /// client has read that reply and closed the connection, its ephemeral nodes are deleted. The
    /// first step is done when this returns.
    ///
    /// If the client does not reconnect, the nodes are deleted when the session's timeout has
    /// passed since its last request. So, as in production, another client cannot create the nodes
    /// before this client is notified or its timeout has passed.
    /// [`close_session`](crate::close_session) deletes the nodes immediately, without notice to a
    /// client that still relies on them.
    ///
    /// In the dialect of ClickHouse Keeper, the client gets a new session when it reconnects, as after
    /// each lost connection, and the nodes stay until the timeout.
    ///
    /// # Errors
    ///
    /// [`Error::NoSession`] when the session does not exist, or was expired by this method before.
    pub fn expire_session(&self, session_id: i64) -> Result<(), Error> {
        let is_alive = self
            .shared
            .update(|state, _| state.processor.end_for_client(session_id));
        if is_alive {
            Ok(())
        } else {
            Err(Error::NoSession(session_id))
        }
    }

    /// Sets the number of a node's next sequential child: the server's count of all children that
    /// were ever created. It is the real server's `cversion`.
    ///
    /// At `i32::MAX` the counter is exhausted. As on the real server it stays there, so each child
    /// that is created alone gets that number; within one transaction, the second child gets
    /// `i32::MIN`, and so on.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`] when the node does not exist.
    pub fn set_create_counter(&self, path: &str, counter: i32) -> Result<(), Error> {
        let is_there = self
            .shared
            .update(|state, _| state.processor.set_create_counter(path, counter));
        if is_there {
            Ok(())
        } else {
            Err(Error::NoNode(path.to_owned()))
        }
    }

    /// How many requests of each kind have arrived. Pings and handshakes are counted separately.
    #[must_use]
    pub fn requests(&self) -> BTreeMap<OpCode, u64> {
        let mut counts = self.shared.lock().counts.clone();
        counts.remove(&OpCode::Ping);
        counts.remove(&OpCode::CreateSession);
        counts
    }

    /// How many pings have arrived.
    #[must_use]
    pub fn pings(&self) -> u64 {
        self.count(OpCode::Ping)
    }

    /// How many handshakes have arrived: one for each connection of a client.
    #[must_use]
    pub fn handshakes(&self) -> u64 {
        self.count(OpCode::CreateSession)
    }

    /// Sets all counts to zero.
    pub fn reset_counts(&self) {
        self.shared.update(|state, _| state.counts.clear());
    }

    /// The sessions that exist, connected or not, the oldest first. A session that was
    /// [expired](Self::expire_session) is included until its nodes are deleted.
    #[must_use]
    pub fn session_ids(&self) -> Vec<i64> {
        self.shared.lock().processor.sessions.ids().collect()
    }

    /// The reply to a four-letter word, without a connection. It does not count as a packet.
    pub(crate) fn four_letter_word(&self, word: &str) -> Result<String, Error> {
        let known = words::parse(word)?;
        let state = self.shared.lock();
        match state.stage {
            Stage::Running => Ok(words::answer(known, &state.processor)),
            Stage::Paused => Err(Error::timeout(
                format!("a reply to `{word}` from a paused server"),
                Duration::ZERO,
            )),
            Stage::Stopped => Err(Error::NotRunning(self.address())),
        }
    }

    fn count(&self, op: OpCode) -> u64 {
        self.shared
            .lock()
            .counts
            .get(&op)
            .copied()
            .unwrap_or_default()
    }

    fn control(&self) -> MutexGuard<'_, ()> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shut_down(&self) {
        // A single update, because a request that a paused server has not read must not be applied
        // in between.
        self.shared.update(|state, now| {
            state.stage = Stage::Stopped;
            state.processor.shut_down(now);
            state.drop_connections();
        });
        // If the thread does not reply, it has ended and does not listen.
        drop(self.thread.listen(false));
    }

    /// Starts the server, which must be stopped.
    fn start_up(&self) -> Result<(), Error> {
        // The stage changes before the server listens, since a stopped server disconnects its
        // clients.
        self.shared.update(|state, now| {
            state.processor.resume(now);
            state.stage = Stage::Running;
        });
        self.thread.listen(true).inspect_err(|_| self.shut_down())
    }
}

/// An empty server. Its passwords differ from other servers' passwords.
fn processor(settings: Settings, begin: Instant, port: u16) -> Processor {
    let now = now(begin);
    Processor::new(
        settings,
        now.wall.cast_unsigned() ^ (u64::from(port) << 48),
        now,
    )
}
