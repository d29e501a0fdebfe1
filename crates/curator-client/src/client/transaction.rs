//! Transactions: several operations, applied all or not at all.

use futures_util::TryFutureExt as _;

use super::CuratorClient;
use crate::error::{Error, Outcome, Result};
use crate::operation::{
    CreateMode, NodeSpec, TRANSACTION, TransactionOperation, TransactionResult,
};
use crate::path::{NodePath, ZPath};
use crate::session::Session;

/// Operations that are applied together or not at all (ZooKeeper's `multi`); made by
/// [`CuratorClient::transaction`].
#[derive(Clone)]
#[must_use = "nothing happens before `commit` is awaited"]
pub struct Transaction {
    client: CuratorClient,
    operations: Vec<TransactionOperation>,
}

/// Prints the operations and their paths, without the data.
impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let operations: Vec<_> = self
            .operations
            .iter()
            .map(|operation: &TransactionOperation| {
                format!("{} {}", operation.name(), operation.path())
            })
            .collect();
        f.debug_struct("Transaction")
            .field("operations", &operations)
            .finish_non_exhaustive()
    }
}

impl Transaction {
    pub(super) fn new(client: &CuratorClient) -> Self {
        Self {
            client: client.clone(),
            operations: Vec::new(),
        }
    }

    /// Requires that the node exists, with this version if one is given.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`].
    pub fn check(self, path: impl NodePath, version: Option<i32>) -> Result<Self> {
        let path = self.client.resolve(path)?;
        Ok(self.operation(TransactionOperation::Check { path, version }))
    }

    /// Creates a node with the ACL that the client's [`AclProvider`](crate::AclProvider) returns,
    /// or else its default ACL.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`].
    pub fn create(
        self,
        path: impl NodePath,
        data: impl AsRef<[u8]>,
        mode: CreateMode,
    ) -> Result<Self> {
        let path = self.client.resolve(path)?;
        let acl = self.client.acl_for(&path);
        Ok(self.operation(TransactionOperation::Create(NodeSpec {
            path,
            data: data.as_ref().into(),
            mode,
            acl,
        })))
    }

    /// Sets a node's data; if a version is given, only if the node has that version.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`].
    pub fn set_data(
        self,
        path: impl NodePath,
        data: impl AsRef<[u8]>,
        version: Option<i32>,
    ) -> Result<Self> {
        let path = self.client.resolve(path)?;
        Ok(self.operation(TransactionOperation::SetData {
            path,
            data: data.as_ref().into(),
            version,
        }))
    }

    /// Deletes a node; if a version is given, only if the node has that version.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`].
    pub fn delete(self, path: impl NodePath, version: Option<i32>) -> Result<Self> {
        let path = self.client.resolve(path)?;
        Ok(self.operation(TransactionOperation::Delete { path, version }))
    }

    /// Adds any operation.
    pub fn operation(mut self, operation: TransactionOperation) -> Self {
        self.operations.push(operation);
        self
    }

    /// Applies all operations, or none. Returns the results in the order of the operations.
    ///
    /// # Errors
    ///
    /// [`Error::TransactionFailed`] names the operation that failed; nothing was applied. An
    /// unknown outcome is [`Error::Ambiguous`] and is not retried. [`Error::RequestTooLarge`]
    /// refers to all operations together.
    ///
    /// # Caveats
    ///
    /// Servers older than 3.7.2, and 3.8.0 to 3.8.1, return the stats of new nodes only for
    /// containers and for nodes with a time to live. If the transaction creates no such node and
    /// sets no data, the reply does not contain the transaction's zxid. This method then reads the
    /// stat of one new ephemeral node before it returns, or, if there is none, the stats of all new
    /// nodes. The stats of the new nodes, and so the zxid, cannot be determined if the read fails,
    /// if another client has deleted or replaced a node that is read, or if the transaction itself
    /// has deleted all its new nodes. The transaction was applied, but this method then returns
    /// [`Error::Ambiguous`], caused by [`Error::StatUnknown`]. If the only new node is persistent,
    /// and is deleted and created again before the read, this method returns the stat of the second
    /// node.
    ///
    /// # Cancel safety
    ///
    /// A dropped transaction may still be applied, as a whole.
    pub async fn commit(self) -> Result<Vec<TransactionResult>> {
        let Some(path) = self.path() else {
            return Ok(Vec::new());
        };
        self.client
            .retry(|session| self.attempt(session, path))
            .await
    }

    /// Like [`commit`](Self::commit), but only in this session: for operations that are correct
    /// only while the session lasts.
    ///
    /// Each attempt waits for a connection of the session, no longer than the connection timeout.
    /// Only attempts that were certainly not applied are retried, according to the client's policy.
    ///
    /// # Errors
    ///
    /// The same as [`commit`](Self::commit), and [`Error::SessionEnded`] if the session ends before
    /// an attempt or between two attempts: nothing was applied. If the session ends while a request
    /// waits for its reply, the outcome is unknown: [`Error::Ambiguous`].
    ///
    /// # Cancel safety
    ///
    /// A dropped transaction may still be applied, as a whole.
    pub async fn commit_in(self, session: &Session) -> Result<Vec<TransactionResult>> {
        let Some(path) = self.path() else {
            return Ok(Vec::new());
        };
        self.client
            .retry_in(
                session,
                |end| {
                    let operation = TRANSACTION;
                    let path = path.clone();
                    Error::SessionEnded {
                        operation,
                        path,
                        end,
                        outcome: Outcome::NotApplied,
                    }
                },
                || self.attempt(session.clone(), path),
            )
            .await
    }

    /// The path that errors name: the path of the first operation.
    fn path(&self) -> Option<&ZPath> {
        self.operations.first().map(TransactionOperation::path)
    }

    async fn attempt(&self, session: Session, path: &ZPath) -> Result<Vec<TransactionResult>> {
        let send = || {
            session
                .transact(self.operations.clone())
                .map_err(|error| error.of_unrepeatable(path))
        };
        let root = &self.client.root;
        match send().await {
            Err(Error::TransactionFailed { cause, .. })
                if !root.is_root()
                    && matches!(&*cause, Error::NoNode { path, .. } if path.strip_prefix(root).is_some()) =>
            {
                // A namespace is created on first use.
                self.client.ensure_containers(&session, root).await?;
                send().await
            }
            result => result,
        }
    }
}
