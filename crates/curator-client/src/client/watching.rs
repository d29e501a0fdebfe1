//! The second session of a client, for recursive watches.

use std::sync::{Arc, PoisonError};

use super::CuratorClient;
use super::builder::ValidOptions;
use super::connect::start;
use crate::error::Result;
use crate::options::SessionOptions;
use crate::retry_policy::Unlimited;
use crate::session::WatchingSession;
use crate::state::{ConnectionState, ConnectionStates};

/// The internal second client of a [`CuratorClient`], whose session holds the recursive watches of
/// all caches; made by [`CuratorClient::watching_client`](crate::CuratorClient::watching_client).
/// Clones are handles to it.
///
/// It is started when it is first requested, and closed with the client. Its session creates no
/// nodes, so no lock is lost when that session ends.
#[derive(Debug, Clone)]
pub struct WatchingClient {
    client: CuratorClient,
}

impl WatchingClient {
    /// Returns the second client's current session, once it has a connection; waits for the
    /// connection no longer than the connection timeout.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](crate::Error::NotConnected), [`Closed`](crate::Error::Closed).
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn session(&self) -> Result<WatchingSession> {
        Ok(WatchingSession::new(self.client.session().await?))
    }

    /// Whether there is a connection over which the session was confirmed recently.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        matches!(
            self.client.connection_state(),
            ConnectionState::Connected | ConnectionState::Reconnected
        )
    }

    /// A stream of every transition of this session's connection; the first item is its current
    /// state.
    #[must_use]
    pub fn connection_states(&self) -> ConnectionStates {
        self.client.connection_states()
    }
}

impl CuratorClient {
    /// The client with the second session, started by the first call.
    pub(super) fn watching(&self) -> Result<WatchingClient> {
        let mut watching = self
            .inner
            .watching
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = &*watching {
            return Ok(WatchingClient {
                client: client.clone(),
            });
        }
        if self.inner.closing.has_begun() {
            return Err(self.inner.closing.error());
        }
        let of_caches = |name: &str| Arc::from(format!("{name} (caches)"));
        let options = &*self.inner.options;
        let options = SessionOptions {
            name: of_caches(self.name()),
            metrics_name: options.metrics_name.as_deref().map(of_caches),
            ..options.clone()
        };
        let second_client = ValidOptions {
            options: Arc::new(options),
            // Not that of this handle: other handles, with other policies, share the second client.
            // It sends no request that a policy would repeat.
            retry_policy: Arc::new(Unlimited),
            acls: self.inner.acls.clone(),
            lock_data: None,
            root: self.root.clone(),
        };
        let client = start(second_client, self.inner.spawner.clone());
        *watching = Some(client.clone());
        Ok(WatchingClient { client })
    }

    /// Starts to close the second session, if there is one; returns its client.
    pub(super) fn close_watching(&self) -> Option<CuratorClient> {
        let watching = self
            .inner
            .watching
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()?;
        watching.inner.closing.begin();
        Some(watching)
    }
}
