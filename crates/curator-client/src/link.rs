//! The connection of a session, over one of the two transports. Both keep the
//! [contract](crate::transport).

mod watch;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, TryFutureExt as _};

pub use self::watch::{RecursiveWatch, Watch};
use crate::acl::Acl;
use crate::connect_string::HostPort;
use crate::diagnosis::Diagnosis;
use crate::error::Result;
use crate::operation::{
    NodeSpec, ReadOperation, ReadResult, Stat, TransactionOperation, TransactionResult,
};
use crate::options::SessionOptions;
#[cfg(feature = "native")]
use crate::options::Transport;
use crate::path::ZPath;
use crate::server_operations::{MissingOperations, is_other_server};
use crate::time::{ClockInstant, Timer};
use crate::transport::{Answer, ConfirmedBy, ConnectFailure, Granted, LinkEnd};
#[cfg(feature = "native")]
use crate::wire;
#[cfg(feature = "zookeeper-client")]
use crate::zk;
#[cfg(feature = "zookeeper-client")]
pub(crate) use crate::zk::recursive_watch::Removals;

/// One connection of a session. Clones share it.
#[derive(Clone)]
pub(crate) enum Link {
    #[cfg(feature = "zookeeper-client")]
    Crate(zk::link::Link),
    #[cfg(feature = "native")]
    Wire(wire::Link),
}

/// A handle to a connection that does not keep the session open.
#[derive(Clone)]
pub(crate) enum LinkTask {
    #[cfg(feature = "zookeeper-client")]
    Crate(zk::task::SessionTask),
    #[cfg(feature = "native")]
    Wire(wire::LinkTask),
}

/// The key that resumes a session. Holding it does not keep the session open.
#[derive(Clone)]
pub(crate) enum SessionKey {
    #[cfg(feature = "zookeeper-client")]
    Crate(zk::link::SessionKey),
    #[cfg(feature = "native")]
    Wire(wire::SessionKey),
}

/// Evaluates `$value`, where `$inner` is the content of `$self` for either transport.
macro_rules! of_either {
    ($self:expr, $inner:ident => $value:expr) => {
        match $self {
            #[cfg(feature = "zookeeper-client")]
            Self::Crate($inner) => $value,
            #[cfg(feature = "native")]
            Self::Wire($inner) => $value,
        }
    };
}
use of_either;

/// The transport that a client has chosen.
enum Chosen {
    #[cfg(feature = "zookeeper-client")]
    Crate,
    #[cfg(feature = "native")]
    Wire(wire::Route),
}

impl Chosen {
    #[cfg(feature = "native")]
    fn from_options(options: &SessionOptions) -> Self {
        #[cfg(feature = "simulation")]
        if let Some(network) = &options.network {
            return Self::Wire(wire::Route::Simulated(Arc::clone(network)));
        }
        match options.transport {
            #[cfg(feature = "zookeeper-client")]
            Transport::ZookeeperClient => Self::Crate,
            Transport::Native => Self::Wire(wire::Route::Tcp),
        }
    }

    #[cfg(not(feature = "native"))]
    fn from_options(_options: &SessionOptions) -> Self {
        Self::Crate
    }
}

/// The connection.
impl Link {
    /// Opens a session: one pass over the servers, each within the share of `diagnosis`. Also
    /// returns a time before its connect request was sent.
    ///
    /// Returns as soon as the session is opened, without another await.
    pub(crate) async fn open(
        options: &SessionOptions,
        timer: &Timer,
        diagnosis: &Diagnosis<'_>,
    ) -> Result<(Self, ClockInstant), ConnectFailure> {
        match Chosen::from_options(options) {
            #[cfg(feature = "zookeeper-client")]
            Chosen::Crate => {
                let (link, connect_sent) = zk::link::Link::open(options, timer, diagnosis).await?;
                Ok((Self::Crate(link), connect_sent))
            }
            #[cfg(feature = "native")]
            Chosen::Wire(route) => {
                let (link, connect_sent) = wire::open(&route, options, timer, diagnosis).await?;
                Ok((Self::Wire(link), connect_sent))
            }
        }
    }

    pub(crate) fn session_id(&self) -> i64 {
        of_either!(self, link => link.session_id())
    }

    /// The timeout that the server of this connection granted.
    pub(crate) fn session_timeout(&self) -> Duration {
        of_either!(self, link => link.session_timeout())
    }

    /// The key that resumes this connection's session.
    pub(crate) fn session_key(&self) -> SessionKey {
        match self {
            #[cfg(feature = "zookeeper-client")]
            Self::Crate(link) => SessionKey::Crate(link.session_key()),
            #[cfg(feature = "native")]
            Self::Wire(link) => SessionKey::Wire(link.session_key()),
        }
    }

    /// The server, as the connect string names it, or the ensemble's configuration.
    pub(crate) fn server(&self) -> &Arc<HostPort> {
        of_either!(self, link => link.server())
    }

    /// The address of the server, if it is known.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        of_either!(self, link => link.address())
    }

    pub(crate) fn task(&self) -> LinkTask {
        match self {
            #[cfg(feature = "zookeeper-client")]
            Self::Crate(link) => LinkTask::Crate(link.task().clone()),
            #[cfg(feature = "native")]
            Self::Wire(link) => LinkTask::Wire(link.task().clone()),
        }
    }

    /// Why the connection has ended, if it has.
    pub(crate) fn end(&self) -> Option<LinkEnd> {
        of_either!(self, link => link.task().end())
    }

    /// The number of watches that have not fired; 0 once the connection has ended.
    pub(crate) fn watches(&self) -> usize {
        of_either!(self, link => link.task().watches())
    }

    /// Calls `send`, and writes all requests that it makes in one batch.
    pub(crate) fn together<T>(&self, send: impl FnOnce() -> T) -> T {
        of_either!(self, link => link.task().together(send))
    }

    /// Keeps the connection for this long from now, replacing the previous time. The first poll
    /// after that time ends the connection: a client that is stuck must not keep its session alive.
    pub(crate) fn keep(&self, time: Duration) {
        of_either!(self, link => link.task().keep(time));
    }

    /// Records the operations that the server lacks, before the link is used. The link then sends
    /// none of those that callers do not request themselves: `create2`, which is replaced by
    /// `create`, and `removeWatches`. (`zookeeper-client` is not used if one of these is missing.)
    #[cfg_attr(
        not(feature = "native"),
        expect(unused_variables, reason = "only this crate's own transport needs it")
    )]
    pub(crate) fn set_missing(&self, missing: MissingOperations) {
        match self {
            #[cfg(feature = "zookeeper-client")]
            Self::Crate(_) => {}
            #[cfg(feature = "native")]
            Self::Wire(link) => link.set_missing(missing),
        }
    }

    /// Ends the connection without closing the session.
    pub(crate) fn abandon(self) {
        of_either!(self, link => link.abandon());
    }
}

/// The requests.
impl Link {
    /// Returns the stat, and the number of a sequential node. The inner error says that the node
    /// was created, but its stat is not known.
    pub(crate) fn create(&self, node: &NodeSpec) -> Answer<Result<(Stat, Option<i64>)>> {
        of_either!(self, link => link.create(node))
    }

    pub(crate) fn delete(&self, path: &ZPath, version: Option<i32>) -> Answer<()> {
        of_either!(self, link => link.delete(path, version))
    }

    pub(crate) fn get_data(&self, path: &ZPath) -> Answer<(Vec<u8>, Stat)> {
        of_either!(self, link => link.get_data(path))
    }

    pub(crate) fn watch_data(&self, path: &ZPath) -> Answer<(Vec<u8>, Stat, Watch)> {
        of_either!(self, link => link.watch_data(path))
    }

    pub(crate) fn exists(&self, path: &ZPath) -> Answer<Option<Stat>> {
        of_either!(self, link => link.exists(path))
    }

    pub(crate) fn watch_exists(&self, path: &ZPath) -> Answer<(Option<Stat>, Watch)> {
        of_either!(self, link => link.watch_exists(path))
    }

    pub(crate) fn get_children(&self, path: &ZPath) -> Answer<Vec<String>> {
        of_either!(self, link => link.get_children(path))
    }

    pub(crate) fn watch_children(&self, path: &ZPath) -> Answer<(Vec<String>, Watch)> {
        of_either!(self, link => link.watch_children(path))
    }

    /// Callers must set the recursive watches of a session one after another, with `removals`.
    pub(crate) fn watch_recursive(
        &self,
        path: &ZPath,
        #[cfg(feature = "zookeeper-client")] removals: &Arc<Removals>,
    ) -> Answer<RecursiveWatch> {
        match self {
            #[cfg(feature = "zookeeper-client")]
            Self::Crate(link) => link
                .watch_recursive(path, removals)
                .map_ok(Into::into)
                .boxed(),
            #[cfg(feature = "native")]
            Self::Wire(link) => link.watch_recursive(path).map_ok(Into::into).boxed(),
        }
    }

    /// Removes a watch on the existence of a node, to find out whether the server has
    /// `removeWatches`. Any reply, such as the error `NoWatcher`, shows that it has.
    pub(crate) fn remove_watches(&self, path: &ZPath) -> Answer<()> {
        of_either!(self, link => link.remove_watches(path))
    }

    pub(crate) fn set_data(&self, path: &ZPath, data: &[u8], version: Option<i32>) -> Answer<Stat> {
        of_either!(self, link => link.set_data(path, data, version))
    }

    pub(crate) fn get_acl(&self, path: &ZPath) -> Answer<(Vec<Acl>, Stat)> {
        of_either!(self, link => link.get_acl(path))
    }

    pub(crate) fn set_acl(&self, path: &ZPath, acl: &[Acl], version: Option<i32>) -> Answer<Stat> {
        of_either!(self, link => link.set_acl(path, acl, version))
    }

    pub(crate) fn sync(&self, path: &ZPath) -> Answer<()> {
        of_either!(self, link => link.sync(path))
    }

    /// Applies all operations, or none. The outer error is about the request, the inner one about
    /// one of its operations.
    pub(crate) fn transact(
        &self,
        operations: Vec<TransactionOperation>,
    ) -> Answer<Result<Vec<TransactionResult>>> {
        of_either!(self, link => link.transact(operations))
    }

    /// Returns one result for each operation. The middle error means that the number of results is
    /// wrong.
    pub(crate) fn read_all(
        &self,
        operations: Vec<ReadOperation>,
    ) -> Answer<Result<Vec<Result<ReadResult>>>> {
        of_either!(self, link => link.read_all(operations))
    }

    /// Sends a request that only the leader can answer: a `sync` of `/`.
    ///
    /// A server rejects a session that has seen newer state than the server has; but
    /// `zookeeper-client` resumes a session without saying what it has seen. So the first probe
    /// after a resume includes a write, which changes nothing: a quorum has confirmed everything
    /// the session has seen, so a quorum confirms only a write that comes after it. That quorum
    /// also proves the lease, see `session_lease.rs`.
    ///
    /// A server without SASL accepts an authenticating client as anonymous. So for such a client,
    /// the write includes a create whose ACL is for authenticated clients, followed by a check that
    /// always fails, so that no node is created (3.6 closes the connection on `whoAmI`). If the
    /// session is not authenticated, the reply is the error `InvalidAcl`.
    ///
    /// Returns which servers have confirmed the session over this connection, in this probe or an
    /// earlier one.
    pub(crate) fn probe(&self) -> Answer<ConfirmedBy> {
        of_either!(self, link => link.probe())
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({:#x})", self.session_id())
    }
}

impl LinkTask {
    /// Waits until the connection has ended.
    pub(crate) async fn ended(&self) -> LinkEnd {
        of_either!(self, task => task.ended().await)
    }

    /// Waits until the server has removed every recursive watch that was dropped here, or the
    /// connection has ended.
    #[cfg(feature = "native")]
    pub(crate) async fn recursive_watches_settled(&self) {
        match self {
            // The session orders these removals itself, with `Removals`.
            #[cfg(feature = "zookeeper-client")]
            Self::Crate(_) => {}
            Self::Wire(task) => task.recursive_watches_settled().await,
        }
    }

    /// Drops the connection without closing the session.
    pub(crate) fn abort(&self, end: LinkEnd) {
        of_either!(self, task => task.abort(end));
    }
}

impl SessionKey {
    pub(crate) fn session_id(&self) -> i64 {
        of_either!(self, key => key.session_id())
    }

    /// Whether the session's server is not one of ZooKeeper, as far as the session's id and password
    /// show. `zookeeper-client` hides the password, so that with it, a ClickHouse Keeper that
    /// continues the session ids of a ZooKeeper is not recognized.
    pub(crate) fn is_of_other_server(&self) -> bool {
        match self {
            #[cfg(feature = "zookeeper-client")]
            Self::Crate(key) => is_other_server(key.session_id(), None),
            #[cfg(feature = "native")]
            Self::Wire(key) => is_other_server(key.session_id(), Some(key.password())),
        }
    }

    /// Opens another connection for the session, whose previous connection has ended: one pass over
    /// the servers, each within the share of `diagnosis`.
    ///
    /// Also returns a time before its connect request was sent. The server negotiates the session's
    /// timeout again, and may open another session instead, as ClickHouse Keeper does (its issue
    /// 116690): the granted id and timeout are reported to `granted` as soon as they are known, on
    /// the thread that has read them. Use the result without awaiting anything in between: dropping
    /// the result closes its session.
    pub(crate) async fn resume(
        &self,
        options: &SessionOptions,
        timer: &Timer,
        diagnosis: &Diagnosis<'_>,
        granted: &Granted,
    ) -> Result<(Link, ClockInstant), ConnectFailure> {
        match self {
            #[cfg(feature = "zookeeper-client")]
            Self::Crate(key) => {
                let (link, connect_sent) = key.resume(options, timer, diagnosis, granted).await?;
                Ok((Link::Crate(link), connect_sent))
            }
            #[cfg(feature = "native")]
            Self::Wire(key) => {
                let (link, connect_sent) = key.resume(options, timer, diagnosis, granted).await?;
                Ok((Link::Wire(link), connect_sent))
            }
        }
    }
}

/// Prints the id in the format of ZooKeeper's logs, and no password.
impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.session_id())
    }
}
