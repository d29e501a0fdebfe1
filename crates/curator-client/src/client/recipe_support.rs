//! The parts of a client that only recipes use: retriers, timers that work outside the runtime,
//! ACLs, and a second session for recursive watches. `containers.rs` creates nodes with their
//! parents.

use std::any::Any;
use std::future::Future;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::CuratorClient;
use super::builder::ValidOptions;
use super::connect::start;
use crate::acl::Acl;
use crate::error::Result;
use crate::node::find::ProtectionId;
use crate::options::SessionOptions;
use crate::path::ZPath;
use crate::retrier::Retrier;
use crate::retry_policy::{Patient, RetryPolicy, Unlimited};
use crate::session::WatchingSession;
use crate::state::{ConnectionState, ConnectionStates};
use crate::time::Deadline;

/// For recipes: pauses, timers and ACLs.
impl CuratorClient {
    /// A [`Retrier`] with this client's policy, for an operation whose next attempt makes a
    /// different call.
    #[must_use]
    pub fn retrier(&self) -> Retrier {
        self.retrier_with(Arc::clone(&self.retry_policy))
    }

    /// A [`Retrier`] with `policy`, for failures other than connection failures.
    #[must_use]
    pub fn retrier_with(&self, policy: Arc<dyn RetryPolicy>) -> Retrier {
        Retrier::new(policy, &self.inner.timer, &self.inner.options.name).until(&self.inner.closing)
    }

    /// A [`Retrier`] that allows retries until the client closes, for work that must be done. It
    /// pauses for 50 ms to 1 s.
    #[must_use]
    pub fn persistent_retrier(&self) -> Retrier {
        self.retrier_with(Arc::new(Unlimited))
    }

    /// Like [`persistent_retrier`](Self::persistent_retrier), with pauses of up to 10 s: for a
    /// request that the server may refuse until an operator has repaired the cause.
    #[must_use]
    pub fn patient_retrier(&self) -> Retrier {
        self.retrier_with(Arc::new(Patient))
    }

    /// Sleeps with the timers of this client's runtime; the future can be polled on any thread,
    /// even outside a runtime.
    ///
    /// The future also completes when the client has closed or that runtime has ended. Poll
    /// [`closing`](CuratorClient::closing) first to distinguish these cases.
    pub fn sleep_until(&self, deadline: Deadline) -> impl Future<Output = ()> + Send + use<> {
        self.inner.timer.sleep_until(deadline)
    }

    /// Starts a task on this client's [runtime](CuratorClient::runtime). In a simulation, the task
    /// belongs to the process that has started the client.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.inner.spawner.spawn(task);
    }

    /// Whether the session was confirmed recently over its current connection: the state is
    /// `Connected` or `Reconnected`.
    ///
    /// # Errors
    ///
    /// [`NotConnected`](crate::Error::NotConnected), or the error of a client that is closed or has
    /// ended.
    pub fn check_connected(&self) -> Result<()> {
        self.try_session()?;
        match self.connection_state() {
            ConnectionState::Connected | ConnectionState::Reconnected => Ok(()),
            _ => Err(self.inner.sessions.not_connected(Duration::ZERO)),
        }
    }

    /// The client's close timeout; see
    /// [`CuratorClientBuilder::close_timeout`](crate::CuratorClientBuilder::close_timeout).
    #[must_use]
    pub fn close_timeout(&self) -> Duration {
        self.inner.options.close_timeout
    }

    /// This client's value of the type `T`, created by the first call. A crate built on top of this
    /// one keeps its state for each client here. The value lives as long as the client.
    #[must_use]
    pub fn extension<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        self.inner.extensions.get()
    }

    /// The ACL of a node that is about to be created at `path`, if the caller gives none: from the
    /// [`AclProvider`](crate::AclProvider), or else the default one.
    ///
    /// The provider gets the path without a [protection mark](crate::ProtectionId) in the name.
    #[must_use]
    pub fn acl_for(&self, path: &ZPath) -> Arc<[Acl]> {
        let acls = &self.inner.acls;
        if acls.are_same() {
            return Arc::clone(&acls.default);
        }
        let name = ProtectionId::strip(path.name());
        let unmarked = if name == path.name() {
            None
        } else {
            path.parent().and_then(|dir| dir.child(name).ok())
        };
        acls.of(unmarked.as_ref().unwrap_or(path))
    }
}

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

    /// Whether the session was confirmed recently over its current connection.
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
    /// The client's second session, for recursive watches; opened by the first call.
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::Error::Closed), or the error of a client that has ended otherwise.
    pub fn watching_client(&self) -> Result<WatchingClient> {
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
        let with_suffix = |name: &str| Arc::from(format!("{name} (caches)"));
        let options = &*self.inner.options;
        let options = SessionOptions {
            name: with_suffix(self.name()),
            metrics_name: options.metrics_name.as_deref().map(with_suffix),
            ..options.clone()
        };
        let second_client = ValidOptions {
            options: Arc::new(options),
            ensemble: Arc::clone(&self.inner.ensemble),
            // The second session must have no one-shot watch; the first client reads the
            // configuration.
            reads_config: false,
            // Not the policy of this handle: other handles, with other policies, share the second
            // client. It sends no request that a policy would repeat.
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
