//! The errors of a cache.

use curator_client::{Error as ClientError, ZPath};

use crate::debug::debug_as_text;
use crate::engine::task::error_of_reads;

/// An error of a [`CuratorCache`](crate::CuratorCache).
#[derive(Clone, thiserror::Error)]
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
    /// There is more to cache than the options allow. The cache has ended: start another one with a
    /// higher limit, a filter, or fewer levels.
    #[error("the cache of {path} has ended: it found more than {limit} {what}")]
    TooLarge {
        /// The root of the cache.
        path: ZPath,
        /// The exceeded limit: `nodes`, or `bytes` of data.
        what: &'static str,
        /// The value of the limit.
        limit: usize,
    },
    /// The server rejects a request that a cache needs: a recursive watch, or several reads in one
    /// request. Both need ZooKeeper 3.6; a server with the watch manager `WatchManagerOptimized`
    /// has no recursive watches.
    #[error(
        "the cache of {path} has ended: it needs ZooKeeper 3.6 or newer with recursive watches: {cause}"
    )]
    WatchesRefused {
        /// The root of the cache.
        path: ZPath,
        /// The server's error.
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

debug_as_text!(CacheError);

error_of_reads!(CacheError, error in Self::Client(error), closed: Self::Closed { .. } | Self::Client(ClientError::Closed));
