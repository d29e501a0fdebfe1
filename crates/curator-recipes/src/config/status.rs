//! How a config is doing, and how that is reported.

use std::time::Instant;

use curator_client::{CuratorClient, RecipeSupport as _};
use tokio::sync::watch;

use super::ConfigError;

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
    /// There is no connection that was confirmed recently, or reads fail as they do without one. The value was true at this time.
    Stale {
        /// Since when.
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

    /// Whether `self` says nothing that `reported` has not said.
    fn repeats(&self, reported: &Self) -> bool {
        match (self, reported) {
            (Self::Current, Self::Current) | (Self::Absent, Self::Absent) => true,
            // Since the first time.
            (Self::Stale { .. }, Self::Stale { .. }) => true,
            (Self::Invalid { error }, Self::Invalid { error: before })
            | (Self::Unreadable { error }, Self::Unreadable { error: before }) => {
                error.to_string() == before.to_string()
            }
            _ => false,
        }
    }
}

/// Reports the status.
#[derive(Clone)]
pub(super) struct StatusReporter {
    client: CuratorClient,
    pub(super) sender: watch::Sender<ConfigStatus>,
}

impl StatusReporter {
    pub(super) fn new(client: &CuratorClient) -> Self {
        Self { client: client.clone(), sender: watch::Sender::new(ConfigStatus::Stale { since: Instant::now() }) }
    }

    /// Reports what was read, unless there is no connection: then it is not the present. Returns whether that is news.
    pub(super) fn report(&self, read: &ConfigStatus) -> bool {
        if self.client.check_connected().is_ok() { self.send(read.clone()) } else { self.stale() }
    }

    pub(super) fn stale(&self) -> bool {
        self.send(ConfigStatus::Stale { since: Instant::now() })
    }

    pub(super) fn send(&self, status: ConfigStatus) -> bool {
        self.sender.send_if_modified(|reported| {
            let is_new = !status.repeats(reported);
            if is_new {
                *reported = status;
            }
            is_new
        })
    }
}
