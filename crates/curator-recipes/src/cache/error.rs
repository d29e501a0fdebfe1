//! What can go wrong with a cache.

use curator_client::{Error as ClientError, InvalidPath, Outcome, ZPath};

use crate::engine::task::TaskError;

/// What can go wrong with a [`CuratorCache`](crate::CuratorCache).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// An error of the client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The cache was closed.
    #[error("the cache of {path} is closed")]
    Closed {
        /// The root of the cache.
        path: ZPath,
    },
    /// There is more to cache than the options allow. The cache has ended: start another one with a higher limit, a filter, or
    /// fewer levels.
    #[error("the cache of {path} has ended: it found more than {limit} {what}")]
    TooLarge {
        /// The root of the cache.
        path: ZPath,
        /// What there is too much of: `nodes`, or `bytes` of data.
        what: &'static str,
        /// How much is allowed.
        limit: usize,
    },
    /// The server refuses a request that a cache needs: a recursive watch, or several reads in one request. Both need
    /// ZooKeeper 3.6; a server with another watch manager (`WatchManagerOptimized`) has no recursive watches.
    #[error("the cache of {path} has ended: it needs ZooKeeper 3.6 or newer with recursive watches: {cause}")]
    WatchesRefused {
        /// The root of the cache.
        path: ZPath,
        /// The refusal.
        cause: ClientError,
    },
    /// The filter panicked, or there is a defect. The cache has ended.
    #[error("the cache of {path} has panicked: {message}")]
    Panicked {
        /// The root of the cache.
        path: ZPath,
        /// The message of the panic.
        message: String,
    },
}

impl CacheError {
    /// Whether the call can succeed if it is repeated, with nothing else changed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Client(error) if error.is_retryable())
    }

    /// Whether the cause is that this program has closed the cache or the client.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. } | Self::Client(ClientError::Closed))
    }

    /// Whether the operation may have been applied. A cache changes nothing on the servers.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::NotApplied
    }
}

impl From<InvalidPath> for CacheError {
    fn from(error: InvalidPath) -> Self {
        Self::Client(error.into())
    }
}

impl TaskError for CacheError {
    fn panicked(path: ZPath, message: String) -> Self {
        Self::Panicked { path, message }
    }
}
