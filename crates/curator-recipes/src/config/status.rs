//! How a config is doing.

use std::time::Instant;

use super::ConfigError;
use crate::engine::known::KnownState;

/// How a [`Config`](crate::Config) is doing, and so what its value is worth.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ConfigStatus {
    /// The value is that of the node, as the connected server has it.
    Current,
    /// There is no node. The value is the last good one, or the [default](super::IfAbsent::Default).
    Absent,
    /// The decoder refuses the node's data. The value is the last good one.
    Invalid {
        /// [`ConfigError::Invalid`], with the decoder's error.
        error: ConfigError,
    },
    /// The node cannot be read, for example because a permission is missing. The value is the last good one. The node is read again
    /// about once a second.
    Unreadable {
        /// [`ConfigError::Client`].
        error: ConfigError,
    },
    /// There is no connection that was confirmed recently, or reads fail as they do without one. The value was current before.
    Stale {
        /// When the connection, or the first of these reads, failed.
        since: Instant,
    },
    /// The client has closed, or the decoder has panicked: [`Config::ended`](crate::Config::ended) says which. The value changes no
    /// more.
    Ended,
}

impl ConfigStatus {
    /// Whether the value is that of the node.
    #[must_use]
    pub fn is_current(&self) -> bool {
        matches!(self, Self::Current)
    }
}

impl KnownState for ConfigStatus {
    fn unknown() -> Self {
        Self::Stale { since: Instant::now() }
    }

    /// Errors are compared by their texts.
    fn repeats(&self, reported: &Self) -> bool {
        match (self, reported) {
            // Since the first time.
            (Self::Stale { .. }, Self::Stale { .. }) => true,
            _ => format!("{self:?}") == format!("{reported:?}"),
        }
    }
}
