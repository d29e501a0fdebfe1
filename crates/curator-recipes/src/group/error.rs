//! The errors of a group member.

use curator_client::{InvalidPath, Outcome};

use crate::cache::CacheError;
use crate::persistent::PersistentNodeError;

/// An error of a [`GroupMember`](crate::GroupMember): of its node, or of the cache of all members.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum GroupMemberError {
    /// An error of the member's node.
    #[error(transparent)]
    Node(#[from] PersistentNodeError),
    /// An error of the cache of all members.
    #[error(transparent)]
    Members(#[from] CacheError),
}

impl GroupMemberError {
    /// Whether the call can succeed if repeated unchanged.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Node(error) => error.is_retryable(),
            Self::Members(error) => error.is_retryable(),
        }
    }

    /// Whether the cause is that this program has closed the client, or the member.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Node(error) => error.is_closed(),
            Self::Members(error) => error.is_closed(),
        }
    }

    /// Whether the requested change may have been applied, or may be applied later.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Node(error) => error.outcome(),
            Self::Members(error) => error.outcome(),
        }
    }
}

impl From<curator_client::Error> for GroupMemberError {
    fn from(error: curator_client::Error) -> Self {
        Self::Node(error.into())
    }
}

impl From<InvalidPath> for GroupMemberError {
    fn from(error: InvalidPath) -> Self {
        Self::Node(error.into())
    }
}
