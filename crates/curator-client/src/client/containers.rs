//! Creating missing parents as containers, for callers that have a session.

use std::future::Future;

use super::CuratorClient;
use super::create::create_with_parents;
use crate::error::Result;
use crate::node::containers::{ensure_containers, missing_parents, transact_with_containers};
use crate::operation::{Created, NodeSpec, TransactionOperation, TransactionResult};
use crate::path::ZPath;
use crate::session::Session;

impl CuratorClient {
    /// Creates the missing nodes of `dir` (a path on the server) in `session`, as containers.
    ///
    /// # Errors
    ///
    /// Those of the requests that it sends.
    ///
    /// # Cancel safety
    ///
    /// Some of the containers may already exist. The server removes empty containers only after they have had a child; so to
    /// create a node with its parents, use [`create_with_containers`](Self::create_with_containers).
    pub async fn ensure_containers(&self, session: &Session, dir: &ZPath) -> Result<()> {
        ensure_containers(session, dir, &self.inner.acls).await
    }

    /// Creates a node in `session`, with its missing parents as containers: in one transaction, if any are missing. Retries
    /// nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Session::create`].
    ///
    /// # Cancel safety
    ///
    /// A dropped create may still be applied, with all the parents.
    pub async fn create_with_containers(&self, session: &Session, node: &NodeSpec) -> Result<Created> {
        create_with_parents(self, session, node, true, std::convert::identity).await
    }

    /// Sends `operations` as one transaction in `session` that first creates the nodes of `missing` as containers, from the top
    /// down. Sent by the call; retries nothing.
    ///
    /// They should be the [`missing_parents`](Self::missing_parents) of the nodes that the operations create. If they turn out
    /// to be others, because one of them exists or another one does not, nothing is applied, and the result is `None`.
    ///
    /// # Errors
    ///
    /// Those of [`Session::transact`]; about a container, the error alone, since its place is none of the operations'.
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

    /// The parents of these nodes that do not exist now, and theirs, from the top down.
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
        nodes: impl IntoIterator<Item = &ZPath>,
    ) -> Result<Vec<ZPath>> {
        missing_parents(session, nodes).await
    }
}
