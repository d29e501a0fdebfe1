//! The errors of the entries of a typed cache.

use std::error::Error as StdError;
use std::sync::Arc;

use curator_client::{
    Error as ClientError, InvalidPath, Outcome, SessionEnd, ZPath, debug_as_text,
};

use crate::cache::CacheError;
use crate::codec::Suffix;

/// An error of an entry of a [`TypedCache`](crate::TypedCache).
///
/// Its text and its `Debug` output contain no data of the entry.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// An error of the client. Nothing was changed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An error of the cache, for callers that return one error type.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The codec rejects the data of the entry. The text leaves out a `cause` that may [quote the
    /// data](crate::CodecError).
    #[error("the data of the entry {path} are invalid{}", Suffix(&**cause))]
    Invalid {
        /// The node.
        path: ZPath,
        /// The codec's error.
        #[source]
        cause: Arc<dyn StdError + Send + Sync>,
    },
    /// This client cannot read the entry, or its directory.
    #[error("the entry {path} cannot be read: permission denied")]
    Unreadable {
        /// The node.
        path: ZPath,
    },
    /// It is not known whether there is such an entry: the cache is not loaded yet.
    #[error("the entry {path} is not loaded")]
    NotLoaded {
        /// The node.
        path: ZPath,
    },
    /// It is not known whether there is such an entry: the filter of the cache excludes the name.
    #[error("the filter of the cache excludes the entry {path}")]
    Excluded {
        /// The node.
        path: ZPath,
    },
    /// The entry does not have the expected version. Nothing was changed.
    #[error("the entry {path} does not have the expected version")]
    Conflict {
        /// The node.
        path: ZPath,
    },
    /// The reply was lost: the entry may or may not have been changed.
    #[error("it is unknown whether the entry {path} was changed: {cause}")]
    OutcomeUnknown {
        /// The node.
        path: ZPath,
        /// What happened.
        #[source]
        cause: ClientError,
    },
    /// The value was written, but over the value of a new entry: other clients have deleted the
    /// expected one, and created one with the same number of writes, between the read of the
    /// version and the write.
    #[error("the entry {path} was created again during the write, and its value was overwritten")]
    Overwritten {
        /// The node.
        path: ZPath,
    },
}

debug_as_text!(EntryError);

impl EntryError {
    /// Whether the call can succeed if repeated unchanged.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Client(error) => error.is_retryable(),
            Self::Cache(error) => error.is_retryable(),
            Self::NotLoaded { .. } => true,
            _ => false,
        }
    }

    /// Whether the cause is that this program has closed the client or the cache.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let closed = SessionEnd::Closed;
        match self {
            Self::Cache(error) => error.is_closed(),
            Self::Client(error) | Self::OutcomeUnknown { cause: error, .. } => {
                error.is_closed()
                    || matches!(error, ClientError::SessionEnded { end, .. } if *end == closed)
            }
            _ => false,
        }
    }

    /// Whether the entry may have been changed.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::OutcomeUnknown { .. } | Self::Overwritten { .. } => Outcome::Unknown,
            _ => Outcome::NotApplied,
        }
    }
}

impl From<InvalidPath> for EntryError {
    fn from(error: InvalidPath) -> Self {
        Self::Client(error.into())
    }
}
