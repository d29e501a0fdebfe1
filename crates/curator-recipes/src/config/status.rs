//! The status of a config.

use std::error::Error as _;
use std::time::Instant;

use curator_client::source;

use super::ConfigError;
use crate::engine::state_sender::ReportedState;

/// The status of a [`Config`](crate::Config): whether its value is that of the node, and if not,
/// why.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ConfigStatus {
    /// The value is that of the node, as the connected server has it.
    Current,
    /// The node does not exist. The value is the last valid one, or the
    /// [default](super::IfAbsent::Default).
    Absent,
    /// The decoder rejects the node's data. The value is the last valid one.
    Invalid {
        /// [`ConfigError::Invalid`], with the decoder's error.
        error: ConfigError,
    },
    /// The node cannot be read, for example because a permission is missing. The value is the last
    /// valid one. The read is retried about once a second.
    Unreadable {
        /// [`ConfigError::Client`].
        error: ConfigError,
    },
    /// There is no recently confirmed connection, or reads fail with connection errors. The value
    /// was current before.
    Stale {
        /// When the connection, or the first of these reads, failed.
        since: Instant,
    },
    /// The client has closed, or the decoder has panicked: [`Config::ended`](crate::Config::ended)
    /// returns the reason. The value no longer changes.
    Ended,
}

impl ConfigStatus {
    /// Whether the value is that of the node.
    #[must_use]
    pub fn is_current(&self) -> bool {
        matches!(self, Self::Current)
    }
}

impl ReportedState for ConfigStatus {
    fn unknown() -> Self {
        Self::Stale {
            since: source::now(),
        }
    }

    /// Keeps the first `since` of `Stale`.
    fn repeats(&self, reported: &Self) -> bool {
        match (self, reported) {
            (Self::Stale { .. }, Self::Stale { .. }) => true,
            // The error's own `Debug` output leaves out the cause.
            (Self::Invalid { error }, Self::Invalid { error: reported }) => {
                format!("{:?}", error.source()) == format!("{:?}", reported.source())
            }
            _ => format!("{self:?}") == format!("{reported:?}"),
        }
    }
}
