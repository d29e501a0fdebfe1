//! The node of an atomic value, changed by reading it and writing it back if nobody has written in between.

use std::sync::Arc;

use curator_client::{
    CreateMode, CuratorClient, Error as ClientError, NodeSpec, Outcome, RecipeSupport as _, Result as ClientResult,
    RetryPolicy, Session, TransactionOperation, ZPath,
};

use super::error::AtomicValueError;
use super::receipt::{Receipt, Said};
use crate::lock::InterProcessMutex;

type Result<T> = std::result::Result<T, AtomicValueError>;

/// See the module. Clones share the receipt.
#[derive(Debug, Clone)]
pub(super) struct AtomicNode {
    pub(super) client: CuratorClient,
    pub(super) path: ZPath,
    /// How often it is tried again if others are first.
    pub(super) contention: Arc<dyn RetryPolicy>,
    pub(super) mutex: Option<InterProcessMutex>,
    pub(super) receipt: Option<Arc<Receipt>>,
}

/// The data before a change, if the node existed, and after it.
#[derive(Debug, Clone)]
pub(super) struct Changed {
    pub(super) before: Option<Vec<u8>>,
    pub(super) after: Vec<u8>,
}

/// Makes the new data of the present one.
pub(super) type Change<'a> = dyn Fn(Option<&[u8]>) -> Result<Vec<u8>> + Send + Sync + 'a;

/// One attempt.
enum Tried {
    Applied(Changed),
    /// Another client was first.
    Conflict,
}

/// What is known of a node that was read.
type Read = Option<(Vec<u8>, i32)>;

impl AtomicNode {
    /// Changes the node once.
    pub(super) async fn change(&self, change: &Change<'_>) -> Result<Changed> {
        let _turn = match &self.receipt {
            Some(receipt) => receipt.turn().await,
            None => None,
        };
        let mut attempts = 0;
        if let Some(changed) = self.contend(change, &mut attempts).await? {
            return Ok(changed);
        }
        let Some(mutex) = &self.mutex else { return Err(self.contended(attempts)) };
        let lock = |cause| AtomicValueError::Lock { path: self.path.clone(), cause: Box::new(cause) };
        let guard = mutex.acquire().await.map_err(lock)?;
        // Those that are in their first attempts do not ask for the mutex.
        let changed = self.contend(change, &mut attempts).await;
        // What was changed is changed, whatever becomes of the mutex: it is given up in the background.
        drop(guard);
        changed?.ok_or_else(|| self.contended(attempts))
    }

    fn contended(&self, attempts: u32) -> AtomicValueError {
        AtomicValueError::Contended { path: self.path.clone(), attempts }
    }

    /// Tries until the policy gives up.
    async fn contend(&self, change: &Change<'_>, attempts: &mut u32) -> Result<Option<Changed>> {
        let mut contention = self.client.retrier_with(Arc::clone(&self.contention));
        let mut failures = self.client.retrier();
        // What each attempt of a receipt's number does.
        let mut sent = Vec::new();
        loop {
            match self.attempt(change, *attempts > 0, &mut sent).await {
                Ok(Tried::Applied(changed)) => return Ok(Some(changed)),
                Ok(Tried::Conflict) => {
                    *attempts += 1;
                    failures.reset();
                    if !contention.again().await? {
                        return Ok(None);
                    }
                }
                Err(AtomicValueError::Client(error)) => {
                    failures.pause(error).await.map_err(|error| self.failed(error))?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The error of a request that is not repeated. Of a change with a receipt, all attempts were looked after.
    fn failed(&self, cause: ClientError) -> AtomicValueError {
        let is_in_doubt = self.receipt.as_ref().is_some_and(|receipt| receipt.is_in_doubt());
        if is_in_doubt || cause.outcome() == Outcome::Unknown {
            return AtomicValueError::OutcomeUnknown { path: self.path.clone(), cause };
        }
        cause.into()
    }

    async fn attempt(&self, change: &Change<'_>, is_behind: bool, sent: &mut Vec<(u64, Changed)>) -> Result<Tried> {
        let session = self.client.session().await?;
        if let Some(receipt) = &self.receipt
            && receipt.is_to_be_read()
            && let Some(changed) = self.settled(receipt, receipt.read(&session).await?, sent)?
        {
            return Ok(Tried::Applied(changed));
        }
        let read = self.read(&session, is_behind).await?;
        let before = read.as_ref().map(|(data, _)| data.clone());
        let changed = Changed { after: change(before.as_deref())?, before };
        let version = read.map(|(_, version)| version);
        match &self.receipt {
            None => self.write(&session, version, changed).await,
            Some(receipt) => self.write_with(receipt, &session, version, changed, sent).await,
        }
    }

    /// If the server may be behind, waits for it: the answer to the last attempt said that there is something newer.
    async fn read(&self, session: &Session, is_behind: bool) -> ClientResult<Read> {
        let sync = || is_behind.then(|| session.sync(&self.path));
        let (synced, read) = session.pipelined(|| (sync(), session.get_data(&self.path)));
        if let Some(synced) = synced {
            synced.await?;
        }
        match read.await {
            Ok((data, stat)) => Ok(Some((data, stat.version))),
            Err(ClientError::NoNode { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write(&self, session: &Session, version: Option<i32>, changed: Changed) -> Result<Tried> {
        let written = match version {
            Some(_) => session.set_data(&self.path, &changed.after, version).await.map(drop),
            None => self.client.create_with_containers(session, &self.new_node(&changed.after)).await.map(drop),
        };
        match written {
            Ok(()) => Ok(Tried::Applied(changed)),
            Err(error) if is_conflict(&error) => Ok(Tried::Conflict),
            Err(cause) if cause.outcome() == Outcome::Unknown => {
                Err(AtomicValueError::OutcomeUnknown { path: self.path.clone(), cause })
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn write_with(
        &self,
        receipt: &Receipt,
        session: &Session,
        version: Option<i32>,
        changed: Changed,
        sent: &mut Vec<(u64, Changed)>,
    ) -> Result<Tried> {
        let operation = match version {
            Some(_) => TransactionOperation::SetData {
                path: self.path.clone(),
                data: changed.after.as_slice().into(),
                version,
            },
            None => TransactionOperation::Create(self.new_node(&changed.after)),
        };
        let (attempt, of_receipt) = receipt.attempt(&self.client);
        sent.push((attempt, changed.clone()));
        match session.transact(vec![operation, of_receipt]).await {
            Ok(_) => {
                receipt.applied();
                Ok(Tried::Applied(changed))
            }
            Err(ClientError::TransactionFailed { index, cause }) if is_conflict(&cause) => {
                receipt.refused();
                if matches!(*cause, ClientError::NoNode { .. }) {
                    self.ensure_parent(session, &self.path).await?;
                    self.ensure_parent(session, &receipt.path).await?;
                }
                if !receipt.explains(index == OF_RECEIPT) {
                    return Ok(Tried::Conflict);
                }
                let said = receipt.read(session).await?;
                Ok(self.settled(receipt, said, sent)?.map_or(Tried::Conflict, Tried::Applied))
            }
            Err(error) => {
                if error.outcome() != Outcome::Unknown {
                    receipt.refused();
                }
                Err(error.into())
            }
        }
    }

    /// What the receipt says of this change: that it was applied by one of the attempts that were sent, or not.
    fn settled(&self, receipt: &Receipt, said: Said, sent: &[(u64, Changed)]) -> Result<Option<Changed>> {
        match said {
            Said::Applied(attempt) => {
                Ok(sent.iter().find(|(number, _)| *number == attempt).map(|(_, changed)| changed.clone()))
            }
            Said::Unchanged => Ok(None),
            Said::InUse { is_in_doubt } => {
                let (path, receipt) = (self.path.clone(), receipt.path.clone());
                // A change that was dropped before is not this one.
                Err(AtomicValueError::ReceiptInUse { path, receipt, is_in_doubt: is_in_doubt && !sent.is_empty() })
            }
        }
    }

    async fn ensure_parent(&self, session: &Session, path: &ZPath) -> ClientResult<()> {
        match path.parent() {
            Some(parent) => self.client.ensure_containers(session, &parent).await,
            None => Ok(()),
        }
    }

    pub(super) fn new_node(&self, data: &[u8]) -> NodeSpec {
        let acl = self.client.acl_for(&self.path);
        NodeSpec { path: self.path.clone(), data: data.into(), mode: CreateMode::Persistent, acl }
    }
}

/// The place of the receipt's operation in the transaction.
const OF_RECEIPT: usize = 1;

/// Whether another client has changed, created or deleted the node since it was read.
fn is_conflict(error: &ClientError) -> bool {
    matches!(error, ClientError::BadVersion { .. } | ClientError::NodeExists { .. } | ClientError::NoNode { .. })
}
