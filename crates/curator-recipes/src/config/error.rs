//! What can go wrong with a config.

use std::error::Error as StdError;
use std::sync::Arc;

use curator_client::{Outcome, ZPath};

use crate::engine::task::TaskError;

/// What can go wrong with a [`Config`](crate::Config).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// An error of the client.
    #[error(transparent)]
    Client(#[from] curator_client::Error),
    /// There is no such node, and the config may not be [opened](crate::ConfigBuilder::open) without one; or there was none before
    /// the timeout.
    #[error("the config {path} does not exist")]
    Absent {
        /// The node.
        path: ZPath,
    },
    /// The decoder refuses the node's data.
    #[error("the data of the config {path} are invalid: {cause}")]
    Invalid {
        /// The node.
        path: ZPath,
        /// The decoder's error.
        #[source]
        cause: Arc<dyn StdError + Send + Sync>,
    },
    /// The decoder has panicked. The config keeps its last value, and no longer follows its node.
    #[error("the decoder of the config {path} has panicked: {message}")]
    Panicked {
        /// The node.
        path: ZPath,
        /// The message of the panic.
        message: String,
    },
}

impl ConfigError {
    /// Whether the call can succeed if it is repeated, with nothing else changed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Client(error) if error.is_retryable())
    }

    /// Whether the cause is that this program has closed the client.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Client(curator_client::Error::Closed))
    }

    /// Whether the operation may have been applied. A config changes nothing on the servers.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        Outcome::NotApplied
    }
}

impl TaskError for ConfigError {
    fn panicked(path: ZPath, message: String) -> Self {
        Self::Panicked { path, message }
    }
}
