//! The client's errors: what failed, whether to retry, and whether the operation may have been
//! applied.

use std::sync::Arc;
use std::time::Duration;

use crate::connect_string::{HostPort, InvalidConnectString};
use crate::path::{InvalidPath, ZPath};
use crate::server_operations::ServerOperation;
use crate::text::debug_as_text;
#[cfg(feature = "tls")]
use crate::tls::InvalidTlsOptions;
use crate::tls::{TlsFailure, listed};

/// A result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whether a failed operation can have changed something on the server.
///
/// The idea comes from `zookeeper-client`, whose errors carry the same distinction, and from the
/// recovery rules of Curator's protected creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a question with two answers")]
pub enum Outcome {
    /// The server certainly did not apply the operation.
    NotApplied,
    /// The request may have been applied: its reply was lost, or has not arrived.
    Unknown,
}

/// Why a ZooKeeper session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum SessionEnd {
    /// The server reported that the session has expired, or that it was closed; or it opened
    /// another session when the client resumed this one.
    Expired,
    /// The session was not confirmed in time: from now on a server may expire it, so it counts as
    /// lost. See [`SessionLease`](crate::SessionLease).
    LeaseOver,
    /// The server refused the credentials of the session.
    AuthFailed,
    /// The session moved to a server that granted a shorter timeout than the session was opened
    /// with. The locks of a session rely on one timeout, so the client ends the session, and
    /// closes it on the servers. See [`SessionLease`](crate::SessionLease).
    TimeoutLowered {
        /// The timeout that this server granted.
        #[cfg_attr(feature = "serde", serde(serialize_with = "crate::text::serialize"))]
        granted: Duration,
    },
    /// [`CuratorClient::close`](crate::CuratorClient::close) was called, the last handle was
    /// dropped, or the runtime has shut down.
    Closed,
    /// This process was forked from the process that has the session. The session continues there,
    /// and cannot be used here.
    Forked,
}

/// Why a client has ended without being closed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientEnd {
    /// The client's runtime has shut down.
    RuntimeEnded,
    /// The task that keeps the client's session alive has panicked, which is a bug.
    Panicked {
        /// The panic's message.
        message: String,
    },
}

impl std::fmt::Display for ClientEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::RuntimeEnded => f.write_str("its runtime has shut down"),
            Self::Panicked { message } => write!(f, "its task has panicked: {message}"),
        }
    }
}

impl SessionEnd {
    /// Whether the client opens another session afterwards.
    #[must_use]
    pub fn is_followed_by_another(self) -> bool {
        !matches!(self, Self::Closed | Self::Forked)
    }
}

impl std::fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Expired => "the server ended it",
            Self::LeaseOver => "it could not be confirmed in time, so a server may have expired it",
            Self::TimeoutLowered { granted } => {
                return write!(
                    f,
                    "it moved to a server that granted a timeout of only {granted:?}"
                );
            }
            Self::AuthFailed => "the server refused its credentials",
            Self::Closed => "the client was closed, or has ended",
            Self::Forked => "this process was forked from the one that has the session",
        })
    }
}

/// An error of the client.
///
/// Two questions matter after a failure: can the same call succeed later ([`Error::is_retryable`]),
/// and could it have been applied already ([`Error::outcome`])?
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A path that ZooKeeper does not accept.
    #[error(transparent)]
    InvalidPath(#[from] InvalidPath),
    /// A path on the server that is outside this client's chroot and namespace.
    #[error("{path} is not under {root}, the chroot and namespace of this client")]
    OutsideNamespace {
        /// The path on the server.
        path: ZPath,
        /// The node that all paths of this client are under: its chroot, and its namespace below
        /// that.
        root: ZPath,
    },
    /// A connect string that cannot be parsed.
    #[error(transparent)]
    InvalidConnectString(#[from] InvalidConnectString),
    /// A retry policy with invalid parameters.
    #[error(transparent)]
    InvalidRetryPolicy(#[from] InvalidRetryPolicy),
    /// Certificates or a key that cannot be used.
    #[cfg(feature = "tls")]
    #[error(transparent)]
    InvalidTlsOptions(#[from] InvalidTlsOptions),
    /// An option with an invalid value.
    #[error("invalid {option} {value}: expected {expected}")]
    InvalidOption {
        /// The name of the option.
        option: &'static str,
        /// The value given.
        value: String,
        /// What would have been accepted.
        expected: &'static str,
    },
    /// The client was not connected when its retry policy allowed no further attempt.
    #[error("no session with {connect_string:?} within {after:?}: {cause}")]
    ConnectFailed {
        /// Where the client tried to connect.
        connect_string: String,
        /// How long it tried.
        after: Duration,
        /// Why the last attempt failed: each server and its failure.
        cause: String,
    },
    /// A server was reached, but refuses this client: the client's credentials are wrong, or
    /// missing although the server requires them, or the server has accepted the client as
    /// anonymous although the client authenticates with SASL. Or every server was reached, and lacks
    /// an operation without which only a client with `Transport::Native` can use it.
    #[error("{connect_string:?} refuses this client: {cause}")]
    ConnectRefused {
        /// Where the client tried to connect.
        connect_string: String,
        /// Why the server refuses the client.
        cause: String,
    },
    /// TLS has failed with all servers: because of their certificates, or this client's, or because
    /// only one side uses TLS. Waiting does not help. A problem that may pass with time, such as a
    /// certificate that is not valid yet, is the cause of a [`ConnectFailed`](Self::ConnectFailed).
    #[error("no session with {connect_string:?}: {}", listed(failures))]
    TlsFailed {
        /// Where the client tried to connect.
        connect_string: String,
        /// Each server and its failure.
        failures: Vec<TlsFailure>,
    },
    /// There is no connection: it is down, or the client has no session yet, or has lost its
    /// session. The client continues to connect in the background.
    #[error("no session with {connect_string:?}{}: {cause}", within(*after))]
    NotConnected {
        /// Where the client tries to connect.
        connect_string: String,
        /// How long the call waited; zero if the call does not wait.
        after: Duration,
        /// Why the last attempt to open or to resume a session failed: each server and its failure.
        cause: String,
    },
    /// The connection broke before the reply arrived.
    #[error("{operation} {path}: the connection was lost before the reply arrived ({cause})")]
    ConnectionLost {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
        /// What the connection reported.
        cause: String,
    },
    /// The connection is down. The request was not sent, so it cannot be applied later.
    #[error("{operation} {path}: the connection is down, and nothing was sent")]
    Disconnected {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
    },
    /// No reply within the operation timeout.
    #[error("{operation} {path}: no reply within {after:?}")]
    OperationTimeout {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
        /// The operation timeout.
        after: Duration,
    },
    /// The session ended while the operation was under way.
    #[error("{operation} {path}: the session ended: {end}")]
    SessionEnded {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
        /// Why the session ended.
        end: SessionEnd,
        /// Whether the operation may have been applied.
        outcome: Outcome,
    },
    /// The client has been closed, or is closing.
    #[error("the client is closed")]
    Closed,
    /// The client has ended without being closed. It does not restart.
    #[error("the client has ended, and was not closed: {end}")]
    ClientEnded {
        /// Why the client ended.
        end: ClientEnd,
    },
    /// This process was forked from a process whose client had begun to connect. Neither that
    /// client nor a new one works here: they would share the connections of the other process.
    /// Start a program (`exec`), or fork before the first client starts.
    #[error(
        "this process was forked from a process with a client, so no client works here: start a program (exec), or fork \
         before the first client starts"
    )]
    Forked,
    /// The server did not confirm in time that the session is closed. The session then ends on the
    /// servers with its timeout.
    #[error(
        "the server did not confirm within {after:?} that the session is closed; it ends when its timeout expires"
    )]
    CloseUnconfirmed {
        /// How long the client waited, first for pending deletes and then for the server: at most
        /// about twice the close timeout.
        after: Duration,
    },
    /// There is no such node; or the node to create has no parent.
    #[error("{operation} {path}: {}", missing(operation))]
    NoNode {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
    },
    /// The node already exists.
    #[error("{operation} {path}: the node already exists")]
    NodeExists {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
    },
    /// The node to create or set, or nodes that it depends on, such as its parents, were created or
    /// deleted by other clients or by the server during each of several attempts. Nothing was
    /// applied.
    #[error(
        "{operation} {path}: during each attempt, the node or those that it depends on were created or deleted by others"
    )]
    KeepsChanging {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
    },
    /// The node does not have the expected version.
    #[error("{operation} {path}: the node does not have the expected version")]
    BadVersion {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
    },
    /// The node has children.
    #[error("{operation} {path}: the node has children")]
    NotEmpty {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
    },
    /// The parent is ephemeral, and therefore cannot have children.
    #[error("{operation} {path}: the parent is an ephemeral node, which cannot have children")]
    NoChildrenForEphemerals {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
    },
    /// The session is local to its server (`localSessionsEnabled`), and a local session cannot have
    /// ephemeral nodes. Set `localSessionsUpgradingEnabled` on the servers.
    #[error(
        "{operation} {path}: a local session cannot have ephemeral nodes: set localSessionsUpgradingEnabled on the servers"
    )]
    EphemeralOnLocalSession {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
    },
    /// The credentials of this session do not permit the operation. Creating or deleting a node
    /// requires permission from the ACL of its parent; other operations, from the node's own ACL.
    #[error(
        "{operation} {path}: permission denied by the {}'s ACL",
        checked_node(operation)
    )]
    NoAuth {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
    },
    /// The ACL is empty, or names a scheme that the server does not know.
    #[error("{operation} {path}: the server does not accept this ACL")]
    InvalidAcl {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
    },
    /// A quota on the path is exceeded.
    #[error("{operation} {path}: a quota is exceeded")]
    QuotaExceeded {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
    },
    /// The server throttles requests.
    #[error("{operation} {path}: the server is overloaded and refused the request")]
    Throttled {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
    },
    /// The server does not support the operation: it is too old, the operation is disabled, or the
    /// server is not ZooKeeper. If the client knew this, it has sent nothing.
    #[error("{operation} {path}: {}", unimplemented(*missing, server.as_deref()))]
    Unimplemented {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
        /// What the server lacks, if it is an operation of which that is known.
        missing: Option<ServerOperation>,
        /// The server, as the connect string names it, or the ensemble's configuration, if it is
        /// known.
        server: Option<Arc<HostPort>>,
    },
    /// The request is invalid, such as a request to delete the root. It was not sent.
    #[error("{operation} {path}: {reason}")]
    InvalidRequest {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
        /// What is wrong with it.
        reason: String,
    },
    /// The request is larger than a server accepts. It was not sent.
    #[error(
        "{operation} {path}: the request has {size} bytes, but the limit (jute.maxbuffer) is {limit}"
    )]
    RequestTooLarge {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
        /// The size of the request in bytes.
        size: usize,
        /// The largest size in bytes.
        limit: usize,
    },
    /// The client's limit of requests in flight is reached. This request was not sent.
    #[error("{operation} {path}: {limit} requests are already waiting for their answers")]
    TooManyRequests {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
        /// The maximum number of requests in flight.
        limit: usize,
    },
    /// The outcome is unknown, and another attempt could apply the operation twice.
    #[error("it is not known whether this was applied, and it cannot safely be retried: {cause}")]
    Ambiguous {
        /// The node.
        path: ZPath,
        /// What happened.
        #[source]
        cause: Box<Error>,
    },
    /// An attempt whose outcome is unknown was retried, and the last retry was not applied. The
    /// earlier attempt may have been applied.
    #[error("{in_doubt}; the outcome is unknown, and a retry failed: {cause}")]
    RetryFailed {
        /// The error of the attempt that may have been applied.
        in_doubt: Box<Error>,
        /// Why the last retry failed.
        #[source]
        cause: Box<Error>,
    },
    /// One operation of a transaction failed, so none was applied.
    #[error("operation {index} of the transaction failed: {cause}")]
    TransactionFailed {
        /// The index of the operation in the transaction, from 0.
        index: usize,
        /// Why it failed.
        #[source]
        cause: Box<Error>,
    },
    /// A transaction was applied, but an old server did not return the stat of a created node, and
    /// the node could not be read.
    #[error(
        "{operation} {path}: applied, but the server did not return the new node's stat, and reading it failed: {cause}"
    )]
    StatUnknown {
        /// The operation.
        operation: &'static str,
        /// The node, without the sequence number of a sequential one.
        path: ZPath,
        /// Why the stat could not be read.
        cause: String,
    },
    /// A reply that the protocol does not allow.
    #[error("{operation} {path}: {cause}")]
    Unexpected {
        /// The operation.
        operation: &'static str,
        /// Its path.
        path: ZPath,
        /// What was received.
        cause: String,
    },
}

debug_as_text!(Error);

fn within(after: Duration) -> String {
    if after.is_zero() {
        String::new()
    } else {
        format!(" within {after:?}")
    }
}

/// The node whose ACL the server checks: the operation's node, or its parent.
fn checked_node(operation: &str) -> &'static str {
    match operation {
        "create" | "delete" => "parent",
        _ => "node",
    }
}

/// Which server lacks what, and which servers have it.
fn unimplemented(missing: Option<ServerOperation>, server: Option<&HostPort>) -> String {
    let server = server.map_or_else(|| "the server".to_owned(), HostPort::to_string);
    match missing {
        Some(missing) => format!(
            "{server} does not implement {missing}: {}",
            missing.requirement()
        ),
        None => format!("{server} does not implement this operation"),
    }
}

impl Error {
    /// Whether the same call can succeed later, with nothing else changed.
    ///
    /// The retry loop checks this before it calls the [`RetryPolicy`](crate::RetryPolicy).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::ConnectFailed { .. }
            | Self::NotConnected { .. }
            | Self::ConnectionLost { .. }
            | Self::Disconnected { .. }
            | Self::OperationTimeout { .. }
            | Self::StatUnknown { .. }
            | Self::TooManyRequests { .. }
            | Self::KeepsChanging { .. }
            | Self::Throttled { .. } => true,
            Self::SessionEnded { end, .. } => end.is_followed_by_another(),
            Self::TransactionFailed { cause, .. } | Self::RetryFailed { cause, .. } => {
                cause.is_retryable()
            }
            _ => false,
        }
    }

    /// Whether the cause is that this program has closed the client.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Closed
            | Self::SessionEnded {
                end: SessionEnd::Closed,
                ..
            } => true,
            Self::RetryFailed { cause, .. } | Self::Ambiguous { cause, .. } => cause.is_closed(),
            _ => false,
        }
    }

    /// Whether the operation may have been applied.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::ConnectionLost { .. }
            | Self::OperationTimeout { .. }
            | Self::StatUnknown { .. }
            | Self::Ambiguous { .. }
            | Self::RetryFailed { .. }
            | Self::Unexpected { .. } => Outcome::Unknown,
            Self::SessionEnded { outcome, .. } => *outcome,
            _ => Outcome::NotApplied,
        }
    }

    /// The error of an operation that must not be repeated: [`Ambiguous`](Self::Ambiguous) if the
    /// outcome is unknown, and otherwise unchanged. It ends the attempts of
    /// [`CuratorClient::retry`](crate::CuratorClient::retry).
    #[must_use]
    pub fn of_unrepeatable(self, path: &ZPath) -> Self {
        match self.outcome() {
            Outcome::Unknown => Self::Ambiguous {
                path: path.clone(),
                cause: Box::new(self),
            },
            Outcome::NotApplied => self,
        }
    }
}

/// What is missing if the server replies that there is no node.
fn missing(operation: &str) -> &'static str {
    match operation {
        "create" => "its parent does not exist",
        _ => "there is no such node",
    }
}

/// The error for an invalid parameter of a retry policy.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {parameter} {value}: expected {expected}")]
#[non_exhaustive]
pub struct InvalidRetryPolicy {
    /// The name of the parameter.
    pub parameter: &'static str,
    /// The value that was given.
    pub value: String,
    /// The values that are accepted.
    pub expected: &'static str,
}

debug_as_text!(InvalidRetryPolicy);

/// Implements the methods of an error that can be the error of a part, such as the client's, and
/// its conversion from an invalid path. Every other variant is permanent, and nothing was changed.
#[doc(hidden)]
#[macro_export]
macro_rules! error_of_parts {
    ($error:ident: $($part:ident),+) => {
        impl $error {
            /// Whether the call can succeed if repeated unchanged.
            #[must_use]
            pub fn is_retryable(&self) -> bool {
                match self {
                    $(Self::$part(error) => error.is_retryable(),)+
                    _ => false,
                }
            }

            /// Whether the cause is that this program has closed the client or the recipe.
            #[must_use]
            pub fn is_closed(&self) -> bool {
                match self {
                    $(Self::$part(error) => error.is_closed(),)+
                    _ => false,
                }
            }

            /// Whether the call may have changed something on the servers.
            #[must_use]
            pub fn outcome(&self) -> $crate::Outcome {
                match self {
                    $(Self::$part(error) => error.outcome(),)+
                    _ => $crate::Outcome::NotApplied,
                }
            }
        }

        impl From<$crate::InvalidPath> for $error {
            fn from(error: $crate::InvalidPath) -> Self {
                Self::Client(error.into())
            }
        }
    };
}
