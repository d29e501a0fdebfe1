//! Several operations, all or none.

use std::sync::Arc;

use futures_util::TryFutureExt as _;

use super::create::ensure_containers;
use super::{CreateMode, Created, NodeSpec, TransactionOperation, TransactionResult};
use crate::client::CuratorClient;
use crate::error::{Error, Outcome, Result};
use crate::path::ZPath;
use crate::retry::retry;
use crate::session::Session;

/// Operations that are applied together or not at all (ZooKeeper's `multi`); made by [`CuratorClient::transaction`].
#[derive(Debug, Clone)]
#[must_use = "nothing happens before `commit` is awaited"]
pub struct Transaction {
    client: CuratorClient,
    operations: Vec<TransactionOperation>,
}

impl Transaction {
    pub(crate) fn new(client: &CuratorClient) -> Self {
        Self { client: client.clone(), operations: Vec::new() }
    }

    /// The node must exist, with this version if one is given.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`].
    pub fn check(self, path: impl AsRef<str>, version: Option<i32>) -> Result<Self> {
        let path = self.client.resolve(path)?;
        Ok(self.and(TransactionOperation::Check { path, version }))
    }

    /// Creates a node with the client's default ACL.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`].
    pub fn create(self, path: impl AsRef<str>, data: impl AsRef<[u8]>, mode: CreateMode) -> Result<Self> {
        let path = self.client.resolve(path)?;
        let acl = Arc::clone(&self.client.shared().options.acl);
        Ok(self.and(TransactionOperation::Create(NodeSpec { path, data: data.as_ref().into(), mode, acl })))
    }

    /// Sets a node's data; with a version, only if the node has it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`].
    pub fn set_data(self, path: impl AsRef<str>, data: impl AsRef<[u8]>, version: Option<i32>) -> Result<Self> {
        let path = self.client.resolve(path)?;
        Ok(self.and(TransactionOperation::SetData { path, data: data.as_ref().into(), version }))
    }

    /// Deletes a node; with a version, only if the node has it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`].
    pub fn delete(self, path: impl AsRef<str>, version: Option<i32>) -> Result<Self> {
        let path = self.client.resolve(path)?;
        Ok(self.and(TransactionOperation::Delete { path, version }))
    }

    /// Applies all operations, or none. The results are in the order of the operations.
    ///
    /// # Errors
    ///
    /// [`Error::TransactionFailed`] names the operation that failed; nothing was applied. An unknown outcome is
    /// [`Error::Ambiguous`] and is not tried again. [`Error::RequestTooLarge`] counts all operations together.
    ///
    /// # Cancel safety
    ///
    /// A dropped transaction may still be applied, as a whole.
    pub async fn commit(self) -> Result<Vec<TransactionResult>> {
        let Some(first) = self.operations.first() else { return Ok(Vec::new()) };
        let path = first.path();
        let results = retry(self.client.shared(), |session| self.attempt(session, path)).await?;
        results.into_iter().map(|result| self.unresolve(result)).collect()
    }

    async fn attempt(&self, session: Session, path: &ZPath) -> Result<Vec<TransactionResult>> {
        let send = || {
            session.transact(self.operations.clone()).map_err(|error| match error.outcome() {
                Outcome::Unknown => Error::Ambiguous { path: path.clone(), cause: Box::new(error) },
                Outcome::NotApplied => error,
            })
        };
        let options = &self.client.shared().options;
        match send().await {
            Err(Error::TransactionFailed { cause, .. })
                if matches!(*cause, Error::NoNode { .. }) && !options.root.is_root() =>
            {
                // A namespace is created on first use.
                ensure_containers(&session, &options.root, &options.acl).await?;
                send().await
            }
            result => result,
        }
    }

    fn unresolve(&self, result: TransactionResult) -> Result<TransactionResult> {
        Ok(match result {
            TransactionResult::Created(Created { path, stat }) => {
                TransactionResult::Created(Created { path: self.client.unresolve(&path)?, stat })
            }
            other => other,
        })
    }

    fn and(mut self, operation: TransactionOperation) -> Self {
        self.operations.push(operation);
        self
    }
}
