//! What can go wrong in the test tools.

use std::{fmt, io, net::SocketAddr, path::PathBuf, time::Duration};

use crate::{real::NotFound, server::UnknownKind};

/// Why a server, an ensemble or a proxy could not do what a test asked for.
///
/// `Debug` gives the same text as `Display`: a test that calls `unwrap` should show the advice, and the server's log line by
/// line.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// ZooKeeper or Java was not found. The text says what to install or run.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// The environment variable that selects the kind of server has an unknown value.
    #[error(transparent)]
    Kind(#[from] UnknownKind),
    /// The embedded server does not have this setting, or does not support this value.
    #[error("the embedded server cannot be started with {key}={value}: {problem}; a real one may take it")]
    Property {
        /// The setting, as it was given.
        key: String,
        /// Its value.
        value: String,
        /// What is expected.
        problem: String,
    },
    /// An operation of the operating system failed.
    #[error("could not {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The server's process ended by itself. Only real servers have a process.
    #[error("ZooKeeper ended by itself ({how}); the end of its log:\n{log}")]
    Ended {
        /// Its exit code or signal.
        how: String,
        /// The last lines of the server's log.
        log: String,
    },
    /// The server was not ready in time.
    #[error("ZooKeeper at {address} was not ready within {waited:?}; the end of its log:\n{log}")]
    NotServing {
        /// The server.
        address: SocketAddr,
        /// How long we waited.
        waited: Duration,
        /// The last lines of the server's log. An embedded server has none.
        log: String,
    },
    /// The server is stopped, so it can neither be queried nor signalled.
    #[error("ZooKeeper at {0} is not running")]
    NotRunning(SocketAddr),
    /// A condition did not become true in time.
    #[error("timed out after {waited:?}, waiting for {what}")]
    Timeout {
        /// What was waited for.
        what: String,
        /// How long we waited.
        waited: Duration,
    },
    /// A peer did not follow ZooKeeper's protocol.
    #[error("unexpected answer: {0}")]
    Protocol(String),
    /// The server does not know the session, or not with that password.
    #[error("session {0:#x} is not alive on the server")]
    NoSession(i64),
    /// The server has no such node.
    #[error("the server has no node {0:?}")]
    NoNode(String),
    /// A snapshot on a real server's disk is not as expected.
    #[error("the snapshot {} cannot be changed: {problem}", file.display())]
    Snapshot {
        /// The file, or the directory in which none was found.
        file: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A certificate for a test could not be made.
    #[error("could not make {what}: {problem}")]
    Certificate {
        /// What was to be made.
        what: String,
        /// Why it could not be.
        problem: String,
    },
    /// An ensemble cannot have this many members.
    #[error("an ensemble of {0} members is not possible: choose 1 to 9")]
    Members(usize),
    /// The members of an ensemble talk to each other directly, so they cannot be cut off from each other.
    #[error("the members can only be cut off from each other if the cluster is built with `partitionable`")]
    NotPartitionable,
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// For `map_err`: an I/O error, and what was being tried.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    pub(crate) fn timeout(what: impl Into<String>, waited: Duration) -> Self {
        Self::Timeout { what: what.into(), waited }
    }
}
