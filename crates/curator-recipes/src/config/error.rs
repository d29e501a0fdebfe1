//! The errors of a config.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use curator_client::{Error as ClientError, ZPath};

use crate::codec::Suffix;
use crate::debug::debug_as_text;
use crate::engine::task::error_of_reads;

/// An error of a [`Config`](crate::Config).
///
/// Its text and its `Debug` output contain no data of the node.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// An error of the client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The node does not exist, and the config was [opened](crate::ConfigBuilder::open) with
    /// `IfAbsent::Fail`; or the node was still absent at the timeout.
    #[error("the config {path} does not exist")]
    Absent {
        /// The node.
        path: ZPath,
    },
    /// The node was not read before the timeout, although it may exist.
    #[error("the config {path} was not read within {after:?}: {cause}")]
    TimedOut {
        /// The node.
        path: ZPath,
        /// The timeout.
        after: Duration,
        /// Why there is no connection, such as [`NotConnected`](ClientError::NotConnected); or that
        /// the server has not replied.
        #[source]
        cause: ClientError,
    },
    /// The decoder rejects the node's data. The text leaves out a `cause` that may [quote
    /// them](crate::CodecError).
    #[error("the data of the config {path} are invalid{}", Suffix(&**cause))]
    Invalid {
        /// The node.
        path: ZPath,
        /// The decoder's error.
        #[source]
        cause: Arc<dyn StdError + Send + Sync>,
    },
    /// The decoder has panicked. The config keeps its last value, and no longer follows its node.
    #[error("the decoder of the config {path} has panicked")]
    Panicked {
        /// The node.
        path: ZPath,
        /// The message of the panic, which may quote the data.
        message: String,
    },
}

debug_as_text!(ConfigError);

error_of_reads!(
    ConfigError,
    error in Self::Client(error) | Self::TimedOut { cause: error, .. },
    closed: Self::Client(ClientError::Closed)
);
