//! The functions of a client that only recipes need.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::CuratorClient;
use super::containers::create_with_parents;
use super::watching::WatchingClient;
use crate::acl::Acl;
use crate::error::Result;
use crate::node::containers::{missing_parents, transact_with_containers};
use crate::node::protected::ProtectionId;
use crate::operation::{Created, NodeSpec, TransactionOperation, TransactionResult};
use crate::path::ZPath;
use crate::retrier::Retrier;
use crate::retry_policy::{Patient, RetryPolicy, Unlimited};
use crate::session::{Session, Turn};
use crate::state::ConnectionState;
use crate::timer::Deadline;

/// For recipes: pauses by the client's retry policy, timers that work outside the runtime, ACLs, and
/// creates of nodes with their parents in one request.
impl CuratorClient {
    /// A [`Retrier`] with this client's policy, for an operation whose next attempt makes a
    /// different call.
    #[must_use]
    pub fn retrier(&self) -> Retrier {
        self.retrier_with(Arc::clone(&self.retry_policy))
    }

    /// A [`Retrier`] with `policy`, for failures other than those of the connection.
    #[must_use]
    pub fn retrier_with(&self, policy: Arc<dyn RetryPolicy>) -> Retrier {
        Retrier::new(policy, &self.inner.timer, &self.inner.options.name).until(&self.inner.closing)
    }

    /// A [`Retrier`] that does not give up until the client closes, for work that must be done. It
    /// pauses for 50 ms to 1 s.
    #[must_use]
    pub fn persistent_retrier(&self) -> Retrier {
        self.retrier_with(Arc::new(Unlimited))
    }

    /// Like [`persistent_retrier`](Self::persistent_retrier), with pauses of up to 10 s: for a
    /// request that the server may refuse until a person has repaired the cause.
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

    /// Whether there is a connection over which the session was confirmed recently: the state is
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

    /// The ACL of a node that is about to be created at `path`, if the caller gives none: that of
    /// the [`AclProvider`](crate::AclProvider), or else the default one.
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

    /// The client's second session, for recursive watches; opened by the first call.
    ///
    /// # Errors
    ///
    /// [`Closed`](crate::Error::Closed), or the error with which the client has ended otherwise.
    pub fn watching_client(&self) -> Result<WatchingClient> {
        self.watching()
    }

    /// Creates a node in `session`, with its missing parents as containers; in one transaction, if
    /// any are missing. Does not retry.
    ///
    /// # Errors
    ///
    /// Those of [`Session::create`].
    ///
    /// # Cancel safety
    ///
    /// A dropped create may still be applied, with all the parents.
    pub async fn create_with_containers(
        &self,
        session: &Session,
        node: &NodeSpec,
    ) -> Result<Created> {
        create_with_parents(self, session, node, true, std::convert::identity).await
    }

    /// Sends `operations` as one transaction in `session` that first creates the nodes of `missing`
    /// as containers, from the top down. The request is sent by the call, before the future is
    /// polled, and is not retried.
    ///
    /// `missing` should be the [`missing_parents`](Self::missing_parents) of the nodes that the
    /// operations create. If this list is outdated (a listed parent exists, or a parent that is not
    /// listed is missing), nothing is applied, and the result is `None`.
    ///
    /// # Errors
    ///
    /// Those of [`Session::transact`]. The error of a container's create is returned without an
    /// index, because that create is not in `operations`.
    ///
    /// # Cancel safety
    ///
    /// A dropped transaction may still be applied, as a whole.
    pub fn transact_with_containers(
        &self,
        session: &Session,
        missing: &[ZPath],
        operations: Vec<TransactionOperation>,
    ) -> impl Future<Output = Result<Option<Vec<TransactionResult>>>> + Send + use<> {
        transact_with_containers(session, missing, operations, &self.inner.acls)
    }

    /// The missing parents of these nodes, including parents of parents, from the top down.
    ///
    /// Sends at most 16 requests at a time. With a turn, each of these pipelines takes one: the
    /// first one takes `turn`, and each other one waits for the next, also while the session has no
    /// connection.
    ///
    /// # Errors
    ///
    /// Those of the requests that it sends.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn missing_parents(
        &self,
        session: &Session,
        nodes: &[ZPath],
        turn: Option<Turn>,
    ) -> Result<Vec<ZPath>> {
        missing_parents(session, nodes, turn).await
    }
}
