//! Transactions that are applied only while the lock is held.

use std::sync::Arc;

use curator_client::{CreateMode, NodePath, Transaction, TransactionOperation, TransactionResult};

use crate::engine::hold::Hold;
use crate::error::{Error, LockLost, LossReason, Result};

/// Operations that are applied together, and only if the lock is still held; made by
/// [`LockGuard::transaction`](super::LockGuard::transaction).
///
/// A ZooKeeper `multi` that starts with a check that every node of the guard still exists. The
/// server applies the checks and the operations atomically, so writes to ZooKeeper itself need no
/// [fencing token](crate::FencingToken).
///
/// Curator has no such feature (requested in its issue 1204).
#[must_use = "nothing happens before `commit` is awaited"]
pub struct GuardedTransaction<'a> {
    /// The holds that must still exist. At least one.
    holds: Vec<&'a Arc<Hold>>,
    transaction: Transaction,
    checks: usize,
}

impl std::fmt::Debug for GuardedTransaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GuardedTransaction")
            .field("transaction", &self.transaction)
            .finish_non_exhaustive()
    }
}

impl<'a> GuardedTransaction<'a> {
    pub(crate) fn new(holds: impl Iterator<Item = &'a Arc<Hold>>) -> Self {
        let holds: Vec<_> = holds.collect();
        let mut transaction = holds[0].client().transaction();
        let mut checks = 0;
        for path in holds.iter().flat_map(|hold| hold.paths()) {
            transaction = transaction.operation(TransactionOperation::Check {
                path: path.clone(),
                version: None,
            });
            checks += 1;
        }
        Self {
            holds,
            transaction,
            checks,
        }
    }

    /// Requires that the node exists, with this version if one is given.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn check(self, path: impl NodePath, version: Option<i32>) -> Result<Self> {
        let transaction = self.transaction.check(path, version)?;
        Ok(Self {
            transaction,
            ..self
        })
    }

    /// Creates a node with the client's default ACL.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn create(
        self,
        path: impl NodePath,
        data: impl AsRef<[u8]>,
        mode: CreateMode,
    ) -> Result<Self> {
        let transaction = self.transaction.create(path, data, mode)?;
        Ok(Self {
            transaction,
            ..self
        })
    }

    /// Sets a node's data; if a version is given, only if the node has that version.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn set_data(
        self,
        path: impl NodePath,
        data: impl AsRef<[u8]>,
        version: Option<i32>,
    ) -> Result<Self> {
        let transaction = self.transaction.set_data(path, data, version)?;
        Ok(Self {
            transaction,
            ..self
        })
    }

    /// Deletes a node; if a version is given, only if the node has that version.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn delete(self, path: impl NodePath, version: Option<i32>) -> Result<Self> {
        let transaction = self.transaction.delete(path, version)?;
        Ok(Self {
            transaction,
            ..self
        })
    }

    /// Applies all operations, or none. Returns the results in the order of the operations.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`]: the lock had already been lost; nothing was applied, and
    ///   [`LockGuard::is_valid`](super::LockGuard::is_valid) is false.
    /// - [`TransactionFailed`](curator_client::Error::TransactionFailed) in [`Error::Client`]: one
    ///   of *your* operations failed, numbered from 0; nothing was applied.
    /// - [`Ambiguous`](curator_client::Error::Ambiguous) in [`Error::Client`]: the reply was lost.
    ///   The transaction may have been applied; if it was, the lock was held at that time.
    /// - [`Error::SeveralSessions`]: the guard's locks do not all belong to one session.
    ///
    /// # Cancel safety
    ///
    /// A dropped transaction may still be applied, as a whole, while the lock is held.
    pub async fn commit(self) -> Result<Vec<TransactionResult>> {
        let Self {
            holds,
            transaction,
            checks,
        } = self;
        let known_loss = || holds.iter().find_map(|hold| hold.end());
        if let Some(lost) = known_loss() {
            return Err(lost.into());
        }
        let session = holds[0].session();
        // One session means one client, since a client has one live session at a time.
        if let Some(other) = holds.iter().find(|hold| !hold.session().is_same(session)) {
            return Err(Error::SeveralSessions {
                path: other.path().clone(),
            });
        }
        match transaction.commit_in(session).await {
            Ok(mut results) => Ok(results.split_off(checks.min(results.len()))),
            Err(curator_client::Error::TransactionFailed { index, cause }) => {
                match (
                    holds.iter().flat_map(|hold| hold.paths()).nth(index),
                    &*cause,
                ) {
                    (Some(path), curator_client::Error::NoNode { .. }) => {
                        holds
                            .iter()
                            .filter(|hold| hold.paths().contains(path))
                            .for_each(|hold| hold.note_deletion(path));
                        Err(LockLost {
                            path: path.clone(),
                            reason: LossReason::NodeDeleted,
                        }
                        .into())
                    }
                    (Some(_), _) => Err((*cause).into()),
                    (None, _) => {
                        let index = index.saturating_sub(checks);
                        Err(curator_client::Error::TransactionFailed { index, cause }.into())
                    }
                }
            }
            Err(error) if error.outcome() == curator_client::Outcome::NotApplied => {
                // If the session has ended, nothing was sent: report the loss.
                Err(known_loss().map_or_else(|| error.into(), Error::from))
            }
            Err(error) => Err(error.into()),
        }
    }
}
