//! Errors of the test tools.

use std::{fmt, io, net::SocketAddr, path::PathBuf, time::Duration};

use crate::{dialect::UnknownDialect, distribution::NotFound, server_kind::UnknownKind};

/// Why an operation of a server, an ensemble or a proxy failed.
///
/// `Debug` prints the same text as `Display`, so that `unwrap` in a test shows what to do, and the
/// server's log line by line.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// ZooKeeper or Java was not found. The text says what to do.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// The environment variable that selects the kind of server has an unknown value.
    #[error(transparent)]
    Kind(#[from] UnknownKind),
    /// The environment variable that selects the dialect has an unknown value.
    #[error(transparent)]
    Dialect(#[from] UnknownDialect),
    /// A simulated server was requested, but this crate was built without the feature `simulation`.
    #[error(
        "there are no simulated servers: enable the feature `simulation` of the crate `curator-test`"
    )]
    NoSimulation,
    /// The embedded server does not support this setting, or this value.
    #[error(
        "the embedded server cannot be started with {key}={value}: {problem}; a real server may accept it"
    )]
    Property {
        /// The name of the setting.
        key: String,
        /// The value of the setting.
        value: String,
        /// Why it is refused.
        problem: String,
    },
    /// An operation of the operating system failed.
    #[error("could not {what}: {source}")]
    Io {
        /// The attempted operation.
        what: String,
        /// The reason.
        source: io::Error,
    },
    /// The server's process ended unexpectedly. Only real servers have a process.
    #[error("ZooKeeper ended unexpectedly ({how}); the end of its log:\n{log}")]
    Ended {
        /// The exit code or signal of the process.
        how: String,
        /// The last lines of the server's log.
        log: String,
    },
    /// The server was not ready in time.
    #[error("ZooKeeper at {address} was not ready within {waited:?}; the end of its log:\n{log}")]
    NotServing {
        /// The address of the server.
        address: SocketAddr,
        /// How long the caller waited.
        waited: Duration,
        /// The last lines of the server's log. An embedded server has none.
        log: String,
    },
    /// The server is stopped, so it can be neither queried nor signalled.
    #[error("ZooKeeper at {0} is not running")]
    NotRunning(SocketAddr),
    /// A condition did not become true in time.
    #[error("timed out after {waited:?}, waiting for {what}")]
    Timeout {
        /// The condition.
        what: String,
        /// How long the caller waited.
        waited: Duration,
    },
    /// A peer did not follow ZooKeeper's protocol.
    #[error("unexpected reply: {0}")]
    Protocol(String),
    /// The server does not know the session, or the password is wrong.
    #[error("session {0:#x} is not alive on the server")]
    NoSession(i64),
    /// The node does not exist on the server.
    #[error("the server has no node {0:?}")]
    NoNode(String),
    /// A snapshot on a real server's disk does not have the expected format.
    #[error("the snapshot {} cannot be changed: {problem}", file.display())]
    Snapshot {
        /// The file, or the directory without a snapshot.
        file: PathBuf,
        /// The problem with the snapshot.
        problem: String,
    },
    /// A certificate, an authority or a revocation list for a test could not be made.
    #[error("could not make {what}: {problem}")]
    Certificate {
        /// The item.
        what: String,
        /// The reason.
        problem: String,
    },
    /// An ensemble cannot have this many members.
    #[error("an ensemble of {0} members is not possible: choose 1 to 9")]
    Members(usize),
    /// The members of the ensemble are connected directly, so they cannot be cut off from each
    /// other.
    #[error(
        "the members can only be cut off from each other if the cluster is built with `partitionable`"
    )]
    NotPartitionable,
    /// The cluster was not built for changes of its members.
    #[error(
        "members can only be added and removed if the cluster is built with `reconfigurable`, and without \
         `partitionable`"
    )]
    NotReconfigurable,
    /// The ensemble has refused a change of its members.
    #[error("the ensemble has refused to {change}: error {code}")]
    Reconfig {
        /// The change.
        change: String,
        /// ZooKeeper's error code.
        code: i32,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// For `map_err`: wraps an I/O error with the attempted operation.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    pub(crate) fn timeout(what: impl Into<String>, waited: Duration) -> Self {
        Self::Timeout {
            what: what.into(),
            waited,
        }
    }
}
