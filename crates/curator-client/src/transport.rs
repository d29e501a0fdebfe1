//! What a session requires of a connection: the contract of a [`Link`](crate::link::Link).
//! `zk/` and `wire/` implement it, and only `link.rs` knows which of them a connection uses.
//!
//! # The contract
//!
//! - A request is *sent by the call*: it is in the connection before the method returns, whether or
//!   not its [`Answer`] is polled. Dropping the answer does not cancel it.
//! - Replies arrive in the order of the requests, and events in the server's order between them:
//!   when a reply can be read, so can every event that the server has sent before it.
//! - A connection ends once, with one [reason](LinkEnd) for all its handles, and never reconnects.
//!   When it ends, requests without a reply fail with [`RequestError::Lost`] or the end of the
//!   session, and watches are interrupted.
//! - Dropping the last `Link` closes the session, if the connection still works. A `LinkTask` does
//!   not keep the session open.
//! - A new connection proves nothing: its first [probe](crate::link::Link::probe) does.

mod error;
mod missing_stats;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;

pub(crate) use self::error::{ErrorCode, RequestError, translate};
#[cfg(feature = "native")]
pub(crate) use self::missing_stats::MISSING_STAT;
pub(crate) use self::missing_stats::with_stats;
use crate::connect_string::HostPort;
use crate::error::SessionEnd;
use crate::path::ZPath;
use crate::text::debug_line;
use crate::tls::TlsFailure;

/// The reply to a request that has been sent.
pub(crate) type Answer<T> = BoxFuture<'static, Result<T, RequestError>>;

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkEnd {
    /// The connection broke. The session may continue over another connection.
    Lost,
    /// The server has ended the session.
    Expired,
    /// The server has refused the session's credentials, and ended the session.
    AuthFailed,
    /// The client closed the session.
    Closed,
}

/// Which servers have confirmed a session over a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfirmedBy {
    /// A quorum: it has committed a write of this session that was sent over this connection.
    Quorum,
    /// A leader, which may be deposed without knowing it.
    Leader,
}

impl ConfirmedBy {
    /// Derives from the reply to the write of a [probe](crate::link::Link::probe) which servers
    /// have confirmed the session. A failure contains the index of the operation that has failed,
    /// if one of them has.
    pub(crate) fn from_write(
        written: Result<(), (Option<usize>, RequestError)>,
    ) -> Result<Self, RequestError> {
        match written {
            Ok(()) => Ok(Self::Quorum),
            Err((Some(0), error)) if error.is_invalid_acl() => Err(error),
            // The leader reports an ended session as the failure of an operation.
            Err((Some(_), error)) if error.ends_session() => Err(error),
            // The leader checks the session before the operation, and proposes the failure of a
            // transaction to the quorum as well.
            Err((Some(_), error)) if error.is_reply() => Ok(Self::Quorum),
            // A reply without the results of the operations: no transaction was proposed.
            Err((None, error)) if !error.is_leader_reply() => Err(error),
            Err(_) => Ok(Self::Leader),
        }
    }
}

/// The node in the write of a [probe](crate::link::Link::probe) that must verify the identity. It
/// is never created, because that transaction always fails.
pub(crate) const IDENTITY_NODE: &str = "/curator-client-asks-who-it-is";
/// The version that makes a check accept any version.
#[cfg(feature = "zookeeper-client")]
pub(crate) const ANY_VERSION: i32 = -1;
/// The version that no node has.
pub(crate) const NO_VERSION: i32 = -2;

/// Which side is not authenticated, although the client uses SASL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unauthenticated {
    /// The client: the server has accepted it as anonymous.
    Client,
    /// The server: it has not proven its identity, or that it knows the client's password.
    #[cfg_attr(
        not(all(
            feature = "native",
            any(feature = "sasl-digest-md5", feature = "sasl-gssapi")
        )),
        expect(
            dead_code,
            reason = "only this crate's own transport has servers authenticate themselves"
        )
    )]
    Server,
}

impl fmt::Display for Unauthenticated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => {
                "connected, but the server accepted this client as anonymous (SASL is not set up there, or it admits \
                 clients whose authentication failed)"
            }
            Self::Server => {
                "connected, but the server has not proven by SASL who it is (it may be an impostor that does not know \
                 this client's password)"
            }
        })
    }
}

/// Why no connection was opened.
#[derive(Debug)]
pub(crate) enum ConnectFailure {
    /// A server has answered, and the other servers would answer the same.
    Answered {
        server: HostPort,
        error: RequestError,
    },
    /// A server does not authenticate the client, or itself.
    Unauthenticated {
        server: HostPort,
        problem: Unauthenticated,
    },
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
            Self::Unauthenticated { .. } | Self::Tls(..) => true,
        }
    }

    /// How the session has ended, if a failed [resume](crate::link::SessionKey::resume) shows that
    /// it has.
    pub(crate) fn end_of_session(&self) -> Option<LinkEnd> {
        match self {
            Self::Answered { error, .. } if error.ends_session() => Some(LinkEnd::Expired),
            Self::Answered { error, .. } if error.is_auth_failed() => Some(LinkEnd::AuthFailed),
            Self::Unauthenticated {
                problem: Unauthenticated::Client,
                ..
            } => Some(LinkEnd::AuthFailed),
            // A wrong proof does not end the session: the other servers may continue it. In a
            // network without TLS, an impostor can still end it by answering that the session has
            // expired, or that the server has no SASL.
            _ => None,
        }
    }

    /// The TLS failure of each server, if TLS has failed with all of them.
    pub(crate) fn into_tls(self) -> Vec<TlsFailure> {
        if let Self::Tls(_, failures) = self {
            failures
        } else {
            Vec::new()
        }
    }
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { server, error } => write!(f, "{server}: {error}"),
            Self::Unauthenticated { server, problem } => write!(f, "{server}: {problem}"),
            Self::NoServer(problems) | Self::Tls(problems, _) => f.write_str(problems),
        }
    }
}

/// What a watch saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WatchEvent {
    /// The node was created.
    Created,
    /// The node was deleted.
    Deleted,
    /// The node's data changed.
    DataChanged,
    /// A child of the node was created or deleted.
    ChildrenChanged,
    /// The watch is gone because its connection is broken, and changes may have been missed. The
    /// session may continue over another connection; if so, read the node again, and set a new
    /// watch.
    Interrupted,
    /// The session has ended, and the watch with it.
    SessionEnded,
}

/// What a [`RecursiveWatch`](crate::RecursiveWatch) saw.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TreeEvent {
    /// This node was created.
    Created(ZPath),
    /// This node was deleted.
    Deleted(ZPath),
    /// The data of this node changed.
    DataChanged(ZPath),
    /// The connection of the watch has ended, and the watch with it. Changes since then are not
    /// reported: set a new watch, then read everything again.
    Interrupted,
}

/// How a session with this id and timeout ends when a server grants `granted` at a reconnect;
/// `None` if the session continues. The id of another session means that the server has not resumed
/// this one, and no longer renews it. A shorter timeout than before ends the session, because the
/// lease was computed for the longer one.
pub(crate) fn end_by_grant(
    (session_id, timeout): (i64, Duration),
    granted: (i64, Duration),
) -> Option<SessionEnd> {
    if granted.0 != session_id {
        Some(SessionEnd::Expired)
    } else if granted.1 < timeout {
        Some(SessionEnd::TimeoutLowered { granted: granted.1 })
    } else {
        None
    }
}

/// Receives the id and the timeout of the session that a server has granted.
#[derive(Clone)]
pub(crate) struct Granted {
    report: Arc<dyn Fn(i64, Duration) + Send + Sync>,
    #[cfg_attr(
        not(feature = "native"),
        expect(dead_code, reason = "the other transports read at once")
    )]
    awaited: Arc<AwaitedGrant>,
}

impl Granted {
    /// `report` must not block. It may be called several times for one reply, and on any thread.
    pub(crate) fn new(
        report: impl Fn(i64, Duration) + Send + Sync + 'static,
        awaited: Arc<AwaitedGrant>,
    ) -> Self {
        Self {
            report: Arc::new(report),
            awaited,
        }
    }

    /// For a new session, or a session that is resumed only to close it.
    pub(crate) fn unused() -> Self {
        Self::new(|_, _| {}, Arc::default())
    }

    pub(crate) fn report(&self, session_id: i64, timeout: Duration) {
        (self.report)(session_id, timeout);
    }

    /// Until the result is dropped, a thread that reads the lease first calls `read`, which must
    /// read the reply if it has arrived.
    #[cfg(feature = "native")]
    pub(crate) fn awaiting(&self, read: impl Fn() + Send + Sync + 'static) -> Awaiting {
        self.awaited.set(Some(Arc::new(read)));
        Awaiting(Arc::clone(&self.awaited))
    }
}

/// See [`Granted::awaiting`].
#[cfg(feature = "native")]
pub(crate) struct Awaiting(Arc<AwaitedGrant>);

#[cfg(feature = "native")]
impl Drop for Awaiting {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

/// A grant that may have arrived without having been read.
///
/// A server may grant a session a shorter timeout than before, which ends its lease. If the runtime
/// is blocked, the task that reads the reply does not run; then a thread that reads the lease reads
/// the reply first.
#[derive(Default)]
pub(crate) struct AwaitedGrant {
    is_awaited: AtomicBool,
    read: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
}

impl AwaitedGrant {
    /// Reads the grant, if one is awaited. Otherwise takes no lock.
    pub(crate) fn read(&self) {
        if !self.is_awaited.load(Ordering::Acquire) {
            return;
        }
        let read = self
            .read
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(read) = read {
            read();
        }
    }

    #[cfg(feature = "native")]
    fn set(&self, read: Option<Arc<dyn Fn() + Send + Sync>>) {
        let is_awaited = read.is_some();
        // Dropped after the lock is released.
        let _previous = std::mem::replace(
            &mut *self.read.lock().unwrap_or_else(PoisonError::into_inner),
            read,
        );
        self.is_awaited.store(is_awaited, Ordering::Release);
    }
}

debug_line!(AwaitedGrant, |this| is_awaited: this.is_awaited);

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
            // The check that always fails, and a root that this client is not permitted to read.
            (failed(1, ErrorCode::BAD_VERSION), Ok(ConfirmedBy::Quorum)),
            (failed(0, ErrorCode::NO_AUTH), Ok(ConfirmedBy::Quorum)),
            (
                failed(0, ErrorCode::INVALID_ACL),
                Err(code(ErrorCode::INVALID_ACL)),
            ),
            (
                failed(0, ErrorCode::SESSION_EXPIRED),
                Err(code(ErrorCode::SESSION_EXPIRED)),
            ),
            (
                failed(0, ErrorCode::SESSION_MOVED),
                Err(code(ErrorCode::SESSION_MOVED)),
            ),
            (
                failed(0, ErrorCode::UNKNOWN_SESSION),
                Err(code(ErrorCode::UNKNOWN_SESSION)),
            ),
            (
                failed(0, ErrorCode::new(-77).unwrap()),
                Ok(ConfirmedBy::Leader),
            ),
            (
                refused(code(ErrorCode::UNIMPLEMENTED)),
                Ok(ConfirmedBy::Leader),
            ),
            (refused(code(ErrorCode::NO_AUTH)), Ok(ConfirmedBy::Leader)),
            // An overloaded server sends this code without asking the leader.
            (
                refused(code(ErrorCode::THROTTLED)),
                Err(code(ErrorCode::THROTTLED)),
            ),
            (refused(lost()), Err(lost())),
        ] {
            let case = format!("{written:?}");
            assert_eq!(ConfirmedBy::from_write(written), by, "{case}");
        }
    }
}
