//! What can go wrong with a lock.

use curator_client::{Outcome, SessionEnd, ZPath};

/// A result with this crate's [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a lock that was held is not held any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The session that the lock belongs to is over, or may be over.
    SessionLost(SessionEnd),
    /// Somebody deleted the lock's node.
    NodeDeleted,
}

impl std::fmt::Display for LossReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SessionLost(end) => write!(f, "its session ended: {end}"),
            Self::NodeDeleted => f.write_str("somebody deleted its node"),
        }
    }
}

/// A lock that was held and is not any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the lock {path} is lost: {reason}")]
#[non_exhaustive]
pub struct LockLost {
    /// The lock's node, as it is called on the server.
    pub path: ZPath,
    /// Why.
    pub reason: LossReason,
}

/// An error of a lock.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client failed, and its retry policy gave up.
    #[error(transparent)]
    Client(#[from] curator_client::Error),
    /// The lock had been lost before it was released.
    #[error(transparent)]
    Lost(#[from] LockLost),
    /// The release could not be confirmed. The client goes on trying until the node is gone or the session is over.
    #[error("the release of {path} is not confirmed yet, and goes on in the background: {cause}")]
    ReleasePending {
        /// The lock's node, as it is called on the server.
        path: ZPath,
        /// What happened last.
        cause: curator_client::Error,
    },
    /// The server refuses the release, for want of permission for example. The node stays, and the lock is held by nobody
    /// and free for nobody, until the session is over or somebody else deletes the node.
    #[error("{path} cannot be released, and stays until its session is over: {cause}")]
    ReleaseRefused {
        /// The lock's node, as it is called on the server.
        path: ZPath,
        /// Why.
        cause: curator_client::Error,
    },
    /// While waiting, our node was deleted by somebody, again and again.
    #[error("waiting for {dir}: somebody deleted our place in the queue, and the retry policy gave up")]
    PlaceDeleted {
        /// The lock's directory, as it is called on the server.
        dir: ZPath,
    },
    /// The sequence counter of the lock's directory has overflowed (after about two thousand million nodes). The order
    /// of the queue is lost: delete the directory when it is empty, and it starts from zero.
    #[error("the sequence counter of {dir} has overflowed at {node:?}: delete the directory when it is empty")]
    SequenceOverflow {
        /// The lock's directory, as it is called on the server.
        dir: ZPath,
        /// The node that shows it.
        node: String,
    },
    /// A driver of the user's own that breaks a rule of [`LockInternalsDriver`](crate::LockInternalsDriver).
    #[error("the driver's node name {prefix:?} cannot be used: expected {expected}")]
    InvalidDriver {
        /// The beginning of the node's name.
        prefix: String,
        /// What it should be.
        expected: &'static str,
    },
    /// The server gave an answer that the protocol does not foresee.
    #[error("contending for {dir}: {cause}")]
    Protocol {
        /// The lock's directory, as it is called on the server.
        dir: ZPath,
        /// What was seen.
        cause: String,
    },
}

/// So that a service's set-up can use one `?` for everything.
impl From<curator_client::InvalidRetryPolicy> for Error {
    fn from(error: curator_client::InvalidRetryPolicy) -> Self {
        Self::Client(error.into())
    }
}

impl Error {
    /// Whether the same call can succeed when it is made again later, with nothing else changed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Client(error) => error.is_retryable(),
            Self::PlaceDeleted { .. } => true,
            _ => false,
        }
    }

    /// Whether the operation may have been applied. What a failed acquire may have left is cleaned up in the background; if
    /// the server refuses that, for want of permission, [`Janitor`](curator_client::Janitor) shows it.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Client(error) => error.outcome(),
            Self::ReleasePending { .. } => Outcome::Unknown,
            _ => Outcome::NotApplied,
        }
    }
}
