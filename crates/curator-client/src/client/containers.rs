//! Creates containers, alone or together with the node below them.

use super::CuratorClient;
use crate::error::{Error, Result};
use crate::node::containers::{
    CREATE_ROUNDS, ensure_containers, missing_parents, transact_with_containers,
};
use crate::operation::{Created, NodeSpec, TransactionOperation, TransactionResult};
use crate::path::ZPath;
use crate::session::Session;

impl CuratorClient {
    /// Creates the missing nodes of `dir` (a path on the server) in `session`, as containers.
    ///
    /// # Errors
    ///
    /// Those of the requests that it sends; [`Error::KeepsChanging`] if others keep deleting nodes
    /// of `dir`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, some of the containers may have been created. The server removes
    /// empty containers only after they have had a child; so to create a node with its parents, use
    /// [`CreateBuilder::creating_parent_containers`](super::CreateBuilder::creating_parent_containers).
    pub async fn ensure_containers(&self, session: &Session, dir: &ZPath) -> Result<()> {
        ensure_containers(session, dir, &self.inner.acls).await
    }
}

/// Creates the node. If parents are missing and may be created, creates the parents and the node in
/// one transaction.
///
/// `explain` maps errors of the creates; errors of the reads of parents are returned unchanged. The
/// error is [`Error::KeepsChanging`] if other clients create or delete parents during each of
/// [`CREATE_ROUNDS`] attempts.
pub(super) async fn create_with_parents(
    client: &CuratorClient,
    session: &Session,
    spec: &NodeSpec,
    parents: bool,
    explain: impl Fn(Error) -> Error,
) -> Result<Created> {
    // A namespace is created on first use.
    let created = session.create(spec).await;
    if !matches!(created, Err(Error::NoNode { .. })) || !parents && client.root.is_root() {
        return created.map_err(explain);
    }
    for _ in 0..CREATE_ROUNDS {
        let missing = missing_parents(session, [&spec.path], None).await?;
        if !missing
            .iter()
            .all(|path: &ZPath| parents || client.root.strip_prefix(path).is_some())
        {
            return created;
        }
        let create = vec![TransactionOperation::Create(spec.clone())];
        let created =
            match transact_with_containers(session, &missing, create, &client.inner.acls).await {
                Ok(Some(results)) => created_by(results, &spec.path),
                // Other clients have created or deleted parents in the meantime.
                Ok(None) => continue,
                Err(Error::TransactionFailed { cause, .. }) => Err(*cause),
                Err(error) => Err(error),
            };
        return created.map_err(explain);
    }
    Err(Error::KeepsChanging {
        operation: "create",
        path: spec.path.clone(),
    })
}

fn created_by(results: Vec<TransactionResult>, path: &ZPath) -> Result<Created> {
    match results.into_iter().next() {
        Some(TransactionResult::Created(created)) => Ok(created),
        other => Err(Error::Unexpected {
            operation: "create",
            path: path.clone(),
            cause: format!("the result {other:?}"),
        }),
    }
}
