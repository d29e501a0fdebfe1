//! The errors of a persistent node.

use std::time::Duration;

use curator_client::{InvalidPath, Outcome, ZPath};

use crate::debug::debug_as_text;
use crate::engine::task::TaskError;

/// An error of a [`PersistentNode`](crate::PersistentNode).
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PersistentNodeError {
    /// An error of the client.
    #[error(transparent)]
    Client(#[from] curator_client::Error),
    /// At the deadline, another owner had a node at the path. The persistent node waits until it is
    /// deleted.
    #[error("{path} was not created within {after:?}: the node belongs to {}", owner_text(*owner))]
    ForeignOwner {
        /// The node.
        path: ZPath,
        /// The session that it belongs to; 0 if it is not ephemeral.
        owner: i64,
        /// How long the call waited.
        after: Duration,
    },
    /// At the deadline, the server refused to create, read or adopt the node. The request is
    /// retried, in case the cause is repaired.
    #[error("{path} was not created within {after:?}: {cause}")]
    Refused {
        /// The node, without the number of a sequential one.
        path: ZPath,
        /// How long the call waited.
        after: Duration,
        /// Why.
        #[source]
        cause: curator_client::Error,
    },
    /// At the deadline, the node was not known to exist: there was no connection, or the create was
    /// still in flight.
    #[error("{path} was not created within {after:?}{}", cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default())]
    NotCreated {
        /// The node, without the number of a sequential one.
        path: ZPath,
        /// How long the call waited.
        after: Duration,
        /// Why there was no connection, if there was none.
        #[source]
        cause: Option<curator_client::Error>,
    },
    /// The node was not deleted within the client's close timeout. The deletion continues in the
    /// background while the client is open.
    #[error("{path} was not deleted within {after:?}; the deletion continues in the background")]
    DeletePending {
        /// The node, without a sequence number that is not known.
        path: ZPath,
        /// The client's close timeout.
        after: Duration,
    },
    /// The server refused to delete the node, for example because of its parent's ACL or its
    /// children. The node stays; an ephemeral one until its session ends.
    #[error("{path} cannot be deleted: {cause}")]
    DeleteRefused {
        /// The node.
        path: ZPath,
        /// Why.
        #[source]
        cause: curator_client::Error,
    },
    /// The persistent node was closed.
    #[error("the persistent node {path} is closed")]
    Closed {
        /// The node, as configured.
        path: ZPath,
    },
    /// The task of the persistent node has panicked, in user code (an ACL provider), or because of
    /// a defect.
    #[error("the task of the persistent node {path} has panicked: {message}")]
    Panicked {
        /// The node, as configured.
        path: ZPath,
        /// The panic's message.
        message: String,
    },
}

debug_as_text!(PersistentNodeError);

/// The owner of a node, as text.
pub(super) fn owner_text(owner: i64) -> String {
    match owner {
        0 => "another client (it is not ephemeral)".to_owned(),
        session => format!("session {session:#x}"),
    }
}

impl PersistentNodeError {
    /// Whether the call can succeed if repeated unchanged.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Client(error) => error.is_retryable(),
            Self::ForeignOwner { .. } | Self::NotCreated { .. } => true,
            _ => false,
        }
    }

    /// Whether the cause is that this program has closed the client, or the persistent node.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(
            self,
            Self::Client(curator_client::Error::Closed) | Self::Closed { .. }
        )
    }

    /// Whether the requested change may have been applied, or may be applied later: the node is
    /// kept until it is closed, and a request may have been in flight when the persistent node or
    /// its client ended.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Client(
                curator_client::Error::Closed | curator_client::Error::ClientEnded { .. },
            ) => Outcome::Unknown,
            Self::Client(error) => error.outcome(),
            Self::DeleteRefused { .. } => Outcome::NotApplied,
            _ => Outcome::Unknown,
        }
    }
}

impl From<InvalidPath> for PersistentNodeError {
    fn from(error: InvalidPath) -> Self {
        Self::Client(error.into())
    }
}

impl TaskError for PersistentNodeError {
    fn panicked(path: ZPath, message: String) -> Self {
        Self::Panicked { path, message }
    }
}
