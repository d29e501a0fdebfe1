//! What a session needs of a connection. Nothing outside of `zk/` and `wire/` knows which of them a connection is.
//!
//! # The contract
//!
//! - A request is *sent by the call*: it is in the connection before the method returns, whether or not its [`Answer`]
//!   is polled. Dropping the answer does not cancel it.
//! - Replies arrive in the order of the requests, and events in the server's order between them: an event that the
//!   server has sent before a reply can be read when the reply can.
//! - A connection has one [end](LinkEnd), for all its handles. It never reconnects. With it, requests without a reply
//!   fail with [`RequestError::Lost`] or the end of the session, and watches are interrupted.
//! - Dropping the last [`Link`] closes the session, if the connection still works. A [`LinkTask`] does not keep the
//!   session open.
//! - A new connection proves nothing: its first [probe](Link::probe) does.

mod error;
mod error_code;
mod watch;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

pub(crate) use self::error::{RequestError, translate};
pub(crate) use self::error_code::ErrorCode;
pub use self::watch::{RecursiveWatch, TreeEvent, Watch, WatchEvent};
use crate::acl::Acl;
use crate::clock::ClockInstant;
use crate::connect_string::HostPort;
use crate::error::Result;
use crate::operation::{NodeSpec, ReadOperation, ReadResult, Stat, TransactionOperation, TransactionResult};
use crate::options::SessionOptions;
use crate::path::ZPath;
use crate::timer::Timer;
use crate::tls::TlsFailure;
#[cfg(feature = "simulation")]
use crate::wire;
use crate::zk;
pub(crate) use crate::zk::link::Diagnosis;
pub(crate) use crate::zk::reactor;
pub(crate) use crate::zk::recursive_watch::Removals;

/// The reply to a request that has been sent.
pub(crate) type Answer<T> = BoxFuture<'static, Result<T, RequestError>>;

/// Called with the id of the session that a server has granted, and its timeout. Must not block.
pub(crate) type Granted = Arc<dyn Fn(i64, Duration) + Send + Sync>;

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    /// The connection broke. The session may continue over another one.
    Lost,
    /// The server has ended the session.
    Expired,
    /// The server has refused the session's credentials, and ended the session.
    AuthFailed,
    /// The client closed the session.
    Closed,
}

/// Which servers have confirmed something over a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfirmedBy {
    /// A quorum: it has committed a write of this session that was sent over this connection.
    Quorum,
    /// A leader, which may be deposed without knowing it.
    Leader,
}

impl ConfirmedBy {
    /// What has confirmed the write of a [probe](Link::probe), by the reply to it. A failure has the index of the
    /// operation that has failed, if it was one of them.
    pub(crate) fn of_write(written: Result<(), (Option<usize>, RequestError)>) -> Result<Self, RequestError> {
        match written {
            Ok(()) => Ok(Self::Quorum),
            Err((Some(0), error)) if error.is_invalid_acl() => Err(error),
            // The leader reports an ended session as the failure of an operation.
            Err((Some(_), error)) if error.ends_session() => Err(error),
            // The leader checks the session before the operation, and proposes the failure of a transaction to the
            // quorum as well.
            Err((Some(_), error)) if error.is_reply() => Ok(Self::Quorum),
            // A reply without the results of the operations: no transaction was proposed.
            Err((None, error)) if !error.is_leader_reply() => Err(error),
            Err(_) => Ok(Self::Leader),
        }
    }
}

/// What the write of a [probe](Link::probe) creates if it must verify the identity, and nothing ever creates.
pub(crate) const IDENTITY_NODE: &str = "/curator-client-asks-who-it-is";
/// The version with which a check accepts any version.
pub(crate) const ANY_VERSION: i32 = -1;
/// The version that no node has.
pub(crate) const NO_VERSION: i32 = -2;

/// One connection of a session. Clones share it.
#[derive(Clone)]
pub(crate) enum Link {
    Crate(zk::link::Link),
    #[cfg(feature = "simulation")]
    Wire(wire::Link),
}

/// A handle to a connection that does not keep the session open.
#[derive(Clone)]
pub(crate) enum LinkTask {
    Crate(zk::task::SessionTask),
    #[cfg(feature = "simulation")]
    Wire(wire::LinkTask),
}

/// The key by which a session is resumed. Holding it does not keep the session open.
#[derive(Clone)]
pub(crate) enum SessionKey {
    Crate(zk::link::SessionKey),
    #[cfg(feature = "simulation")]
    Wire(wire::SessionKey),
}

/// Evaluates the expression with what the variant of `$self` contains.
macro_rules! of_either {
    ($self:expr, $inner:ident => $value:expr) => {
        match $self {
            Self::Crate($inner) => $value,
            #[cfg(feature = "simulation")]
            Self::Wire($inner) => $value,
        }
    };
}
pub(crate) use of_either;

/// The connection.
impl Link {
    /// Opens a session: one pass over the servers, no longer than the connection timeout. Also returns a time before
    /// its connect request was sent.
    ///
    /// Nothing is awaited after the session is opened.
    pub(crate) async fn open(
        options: &SessionOptions,
        timer: &Timer,
        diagnosis: &Diagnosis<'_>,
    ) -> Result<(Self, ClockInstant), ConnectFailure> {
        #[cfg(feature = "simulation")]
        if let Some(network) = &options.network {
            let (link, connect_sent) = wire::open(network, options, timer, diagnosis).await?;
            return Ok((Self::Wire(link), connect_sent));
        }
        let (link, connect_sent) = zk::link::Link::open(options, timer, diagnosis).await?;
        Ok((Self::Crate(link), connect_sent))
    }

    pub(crate) fn session_id(&self) -> i64 {
        of_either!(self, link => link.session_id())
    }

    /// The timeout that the server of this connection granted.
    pub(crate) fn session_timeout(&self) -> Duration {
        of_either!(self, link => link.session_timeout())
    }

    /// The key by which this connection's session can be resumed.
    pub(crate) fn session_key(&self) -> SessionKey {
        match self {
            Self::Crate(link) => SessionKey::Crate(link.session_key()),
            #[cfg(feature = "simulation")]
            Self::Wire(link) => SessionKey::Wire(link.session_key()),
        }
    }

    /// The server, as the connect string names it.
    pub(crate) fn server(&self) -> &Arc<HostPort> {
        of_either!(self, link => link.server())
    }

    /// The address of the server, if it is known.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        of_either!(self, link => link.address())
    }

    pub(crate) fn task(&self) -> LinkTask {
        match self {
            Self::Crate(link) => LinkTask::Crate(link.task().clone()),
            #[cfg(feature = "simulation")]
            Self::Wire(link) => LinkTask::Wire(link.task().clone()),
        }
    }

    /// Why the connection is over, if it is.
    pub(crate) fn end(&self) -> Option<LinkEnd> {
        of_either!(self, link => link.task().end())
    }

    /// The number of watches that have not fired; 0 once the connection is over.
    pub(crate) fn watches(&self) -> usize {
        of_either!(self, link => link.task().watches())
    }

    /// Calls `send`, and writes all requests that it makes in one batch.
    pub(crate) fn together<T>(&self, send: impl FnOnce() -> T) -> T {
        of_either!(self, link => link.task().together(send))
    }

    /// Keeps the connection for this long from now, and replaces the previous time. After that time the connection ends
    /// as soon as it is polled: a client that is stuck must not keep its session alive.
    pub(crate) fn keep(&self, time: Duration) {
        of_either!(self, link => link.task().keep(time));
    }

    /// Ends the connection without closing the session.
    pub(crate) fn abandon(self) {
        of_either!(self, link => link.abandon());
    }
}

/// The requests.
impl Link {
    /// Returns the stat, and the number of a sequential node.
    pub(crate) fn create(&self, node: &NodeSpec) -> Answer<(Stat, Option<i64>)> {
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

    /// Callers set the recursive watches of a session one after another, by `removals`.
    pub(crate) fn watch_recursive(&self, path: &ZPath, removals: &Arc<Removals>) -> Answer<RecursiveWatch> {
        match self {
            Self::Crate(link) => link.watch_recursive(path, removals),
            #[cfg(feature = "simulation")]
            Self::Wire(link) => link.watch_recursive(path),
        }
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

    /// Applies all operations, or none. The outer error is about the request, the inner one about one of its
    /// operations.
    pub(crate) fn transact(&self, operations: Vec<TransactionOperation>) -> Answer<Result<Vec<TransactionResult>>> {
        of_either!(self, link => link.transact(operations))
    }

    /// Returns one result for each operation. The middle error means that the number of results is wrong.
    pub(crate) fn read_all(&self, operations: Vec<ReadOperation>) -> Answer<Result<Vec<Result<ReadResult>>>> {
        of_either!(self, link => link.read_all(operations))
    }

    /// Sends a request that only the leader can answer: a `sync` of `/`.
    ///
    /// A server rejects a session that has seen newer state than the server has; but `zookeeper-client` resumes a
    /// session as one that has seen nothing. So the first probe after a resume includes a write, which changes nothing:
    /// a quorum has confirmed everything the session has seen, so a quorum confirms only a write that comes after it.
    /// That quorum also proves the lease, see `session_lease.rs`.
    ///
    /// A server without SASL accepts an authenticating client as anonymous. So for such a client, the write includes a
    /// create whose ACL is for authenticated clients, followed by a check that always fails, so that no node is created
    /// (3.6 closes the connection on `whoAmI`). If the session is not authenticated, the reply is the error
    /// `InvalidAcl`.
    ///
    /// Returns what has confirmed the session over this connection, in this probe or an earlier one.
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
    /// Waits until the connection is over.
    pub(crate) async fn ended(&self) -> LinkEnd {
        of_either!(self, task => task.ended().await)
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

    /// Opens another connection for the session, whose previous one has ended: one pass over the servers, no longer
    /// than `limit`.
    ///
    /// Also returns a time before its connect request was sent. The server negotiates the session's timeout again, and
    /// may open another session instead, as ClickHouse Keeper does (its issue 116690): `granted` is called with both as
    /// soon as they are known, on the thread that has read them. Use the result without awaiting anything in between:
    /// dropping the result closes its session.
    pub(crate) async fn resume(
        &self,
        options: &SessionOptions,
        timer: &Timer,
        limit: Duration,
        diagnosis: &Diagnosis<'_>,
        granted: &Granted,
    ) -> Result<(Link, ClockInstant), ConnectFailure> {
        match self {
            Self::Crate(key) => {
                let (link, connect_sent) = key.resume(options, timer, limit, diagnosis, granted).await?;
                Ok((Link::Crate(link), connect_sent))
            }
            #[cfg(feature = "simulation")]
            Self::Wire(key) => {
                let (link, connect_sent) = key.resume(options, timer, limit, diagnosis, granted).await?;
                Ok((Link::Wire(link), connect_sent))
            }
        }
    }
}

/// The id, in the format of ZooKeeper's own logs. Not the password.
impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.session_id())
    }
}

/// The time limit for one server, if all of them together may take `limit`.
pub(crate) fn share(options: &SessionOptions, limit: Duration) -> Duration {
    let servers = u32::try_from(options.servers.hosts().len()).unwrap_or(u32::MAX);
    let share = (limit / servers.max(1)).min(options.session_timeout / 5 * 2);
    // In whole milliseconds, because error messages contain it.
    let rest = Duration::from_nanos(u64::from(share.subsec_nanos() % 1_000_000));
    share.saturating_sub(rest).max(Duration::from_millis(1))
}

/// Why no connection was opened.
#[derive(Debug)]
pub(crate) enum ConnectFailure {
    /// A server has answered, and the others would answer the same.
    Answered { server: HostPort, error: RequestError },
    /// Each server and its failure.
    NoServer(String),
    /// Like `NoServer`, if TLS has failed with all servers in a way that waiting does not solve.
    Tls(String, Vec<TlsFailure>),
}

impl ConnectFailure {
    /// Whether a server refuses this client, independently of its session.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Answered { error, .. } => error.is_refusal(),
            Self::NoServer(_) => false,
            Self::Tls(..) => true,
        }
    }

    /// How the session has ended, if a failed [resume](SessionKey::resume) shows that it has.
    pub(crate) fn end_of_session(&self) -> Option<LinkEnd> {
        match self {
            Self::Answered { error, .. } if error.ends_session() => Some(LinkEnd::Expired),
            Self::Answered { error, .. } if error.is_auth_failed() => Some(LinkEnd::AuthFailed),
            _ => None,
        }
    }

    /// The TLS failure of each server, if TLS has failed with all of them.
    pub(crate) fn into_tls(self) -> Vec<TlsFailure> {
        if let Self::Tls(_, failures) = self { failures } else { Vec::new() }
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { server, error } => write!(f, "{server}: {error}"),
            Self::NoServer(problems) | Self::Tls(problems, _) => f.write_str(problems),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_committed_transaction_counts_as_confirmed_by_a_quorum() {
        let lost = || RequestError::Lost("?".to_owned());
        let failed = |index, error| Err((Some(index), RequestError::Code(error)));
        let refused = |error| Err((None, error));
        let code = RequestError::Code;
        for (written, by) in [
            (Ok(()), Ok(ConfirmedBy::Quorum)),
            // The check that always fails, and a root that this client may not read.
            (failed(1, ErrorCode::BAD_VERSION), Ok(ConfirmedBy::Quorum)),
            (failed(0, ErrorCode::NO_AUTH), Ok(ConfirmedBy::Quorum)),
            (failed(0, ErrorCode::INVALID_ACL), Err(code(ErrorCode::INVALID_ACL))),
            (failed(0, ErrorCode::SESSION_EXPIRED), Err(code(ErrorCode::SESSION_EXPIRED))),
            (failed(0, ErrorCode::SESSION_MOVED), Err(code(ErrorCode::SESSION_MOVED))),
            (failed(0, ErrorCode::UNKNOWN_SESSION), Err(code(ErrorCode::UNKNOWN_SESSION))),
            (failed(0, ErrorCode::new(-77).unwrap()), Ok(ConfirmedBy::Leader)),
            (refused(code(ErrorCode::UNIMPLEMENTED)), Ok(ConfirmedBy::Leader)),
            (refused(code(ErrorCode::NO_AUTH)), Ok(ConfirmedBy::Leader)),
            // An overloaded server sends it without asking the leader.
            (refused(code(ErrorCode::THROTTLED)), Err(code(ErrorCode::THROTTLED))),
            (refused(lost()), Err(lost())),
        ] {
            let case = format!("{written:?}");
            assert_eq!(ConfirmedBy::of_write(written), by, "{case}");
        }
    }
}
