//! The node of an atomic value: reads it, and writes the changed data if the version is still the same.

use std::sync::Arc;

use curator_client::{
    CreateMode, CuratorClient, Error as ClientError, NodeSpec, Outcome, RecipeSupport as _, Result as ClientResult,
    RetryPolicy, Session, TransactionOperation, ZPath,
};

use super::error::AtomicValueError;
use super::receipt::{ANY_VERSION, Receipt, Settlement, is_conflict};
use crate::lock::InterProcessMutex;

type Result<T> = std::result::Result<T, AtomicValueError>;

/// See the module. Clones share the receipt.
#[derive(Debug, Clone)]
pub(super) struct AtomicNode {
    pub(super) client: CuratorClient,
    pub(super) path: ZPath,
    /// How often a change is retried after a conflict with another client.
    pub(super) contention: Arc<dyn RetryPolicy>,
    pub(super) mutex: Option<InterProcessMutex>,
    pub(super) receipt: Option<Arc<Receipt>>,
}

/// The result of a change function.
#[derive(Clone)]
pub(super) struct Changed<V> {
    /// The new data.
    pub(super) data: Vec<u8>,
    /// The result for the caller if the data is written.
    pub(super) values: V,
}

/// Computes the new data from the present data.
pub(super) type Change<'a, V> = dyn Fn(Option<&[u8]>) -> Result<Changed<V>> + Send + Sync + 'a;

/// The result of one attempt.
enum Tried<V> {
    Applied(V),
    /// Another client has changed the node since the read.
    Conflict,
}

/// An attempt with a receipt, whose reply may be lost.
struct Sent<V> {
    attempt: u64,
    values: V,
}

/// The data and version that were read; `None` if the node does not exist.
type Read = Option<(Vec<u8>, i32)>;

impl AtomicNode {
    /// Changes the node once.
    pub(super) async fn change<V: Clone + Send>(&self, change: &Change<'_, V>) -> Result<V> {
        let _turn = match &self.receipt {
            Some(receipt) => receipt.turn().await,
            None => None,
        };
        let mut attempts = 0;
        if let Some(values) = self.contend(change, &mut attempts).await? {
            return Ok(values);
        }
        let Some(mutex) = &self.mutex else { return Err(self.contended(attempts)) };
        let lock = |cause| AtomicValueError::Lock { path: self.path.clone(), cause: Box::new(cause) };
        let guard = mutex.acquire().await.map_err(lock)?;
        // Clients in their first attempts do not acquire the mutex, so there may still be conflicts.
        let changed = self.contend(change, &mut attempts).await;
        // Released in the background: the change does not depend on the mutex.
        drop(guard);
        changed?.ok_or_else(|| self.contended(attempts))
    }

    fn contended(&self, attempts: u32) -> AtomicValueError {
        AtomicValueError::Contended { path: self.path.clone(), attempts }
    }

    /// Retries until the policy gives up.
    async fn contend<V: Clone + Send>(&self, change: &Change<'_, V>, attempts: &mut u32) -> Result<Option<V>> {
        let mut contention = self.client.retrier_with(Arc::clone(&self.contention));
        let mut failures = self.client.retrier();
        // The last attempt with a receipt.
        let mut sent = None;
        loop {
            match self.attempt(change, *attempts > 0, &mut sent).await {
                Ok(Tried::Applied(values)) => return Ok(Some(values)),
                Ok(Tried::Conflict) => {
                    *attempts += 1;
                    failures.reset();
                    if !contention.again().await? {
                        return Ok(None);
                    }
                }
                Err(AtomicValueError::Client(error)) => {
                    failures.pause(error).await.map_err(|error| self.failed(error, sent.is_some()))?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The error of a request that is not retried.
    fn failed(&self, cause: ClientError, was_sent: bool) -> AtomicValueError {
        if was_sent && self.receipt.as_ref().is_some_and(|receipt| receipt.is_in_doubt()) {
            return AtomicValueError::OutcomeUnknown { path: self.path.clone(), cause };
        }
        cause.into()
    }

    async fn attempt<V: Clone + Send>(
        &self,
        change: &Change<'_, V>,
        is_behind: bool,
        sent: &mut Option<Sent<V>>,
    ) -> Result<Tried<V>> {
        let session = self.client.session().await?;
        if let Some(receipt) = &self.receipt
            && !receipt.is_settled()
            && let Some(values) = self.settle(receipt, &session, sent).await?
        {
            return Ok(Tried::Applied(values));
        }
        let mut read = self.read(&session, is_behind).await?;
        let make = |read: &Read| change(read.as_ref().map(|(data, _)| &data[..]));
        let changed = match make(&read) {
            Err(_) if !is_behind => {
                // Rules out that the change failed on data of a server that lags behind.
                read = self.read(&session, true).await?;
                make(&read)
            }
            changed => changed,
        }?;
        let version = read.map(|(_, version)| version);
        if version == Some(ANY_VERSION) {
            return Err(AtomicValueError::VersionExhausted { path: self.path.clone() });
        }
        match &self.receipt {
            None => self.write(&session, version, changed).await,
            Some(receipt) => self.write_with(receipt, &session, version, changed, sent).await,
        }
    }

    /// Reads the node. If `is_behind`, after a `sync`: the last attempt has shown that there is newer data.
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

    async fn write<V>(&self, session: &Session, version: Option<i32>, changed: Changed<V>) -> Result<Tried<V>> {
        let written = match version {
            Some(_) => session.set_data(&self.path, &changed.data, version).await.map(drop),
            None => self.client.create_with_containers(session, &self.new_node(&changed.data)).await.map(drop),
        };
        match written {
            Ok(()) => Ok(Tried::Applied(changed.values)),
            Err(error) if is_conflict(&error) => Ok(Tried::Conflict),
            Err(cause) if cause.outcome() == Outcome::Unknown => {
                Err(AtomicValueError::OutcomeUnknown { path: self.path.clone(), cause })
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn write_with<V: Clone + Send>(
        &self,
        receipt: &Receipt,
        session: &Session,
        version: Option<i32>,
        changed: Changed<V>,
        sent: &mut Option<Sent<V>>,
    ) -> Result<Tried<V>> {
        if receipt.is_exhausted() {
            return Err(AtomicValueError::VersionExhausted { path: receipt.path.clone() });
        }
        let operation = match version {
            Some(_) => {
                TransactionOperation::SetData { path: self.path.clone(), data: changed.data.as_slice().into(), version }
            }
            None => TransactionOperation::Create(self.new_node(&changed.data)),
        };
        let mut are_there = false;
        loop {
            let Some((attempt, of_receipt)) = receipt.attempt(&self.client) else { return Ok(Tried::Conflict) };
            *sent = Some(Sent { attempt, values: changed.values.clone() });
            match session.transact(vec![operation.clone(), of_receipt]).await {
                Ok(results) => {
                    receipt.answered(results.get(OF_RECEIPT));
                    return Ok(Tried::Applied(changed.values));
                }
                Err(ClientError::TransactionFailed { index, cause }) if is_conflict(&cause) => {
                    receipt.answered(None);
                    if matches!(*cause, ClientError::NoNode { .. }) && !are_there {
                        self.ensure_parent(session, &self.path).await?;
                        self.ensure_parent(session, &receipt.path).await?;
                        are_there = true;
                    } else if index == OF_RECEIPT {
                        // The receipt has changed: another handle uses it.
                        let values = self.settle(receipt, session, sent).await?;
                        return Ok(values.map_or(Tried::Conflict, Tried::Applied));
                    } else {
                        return Ok(Tried::Conflict);
                    }
                }
                Err(error) => {
                    if error.outcome() != Outcome::Unknown {
                        receipt.answered(None);
                    }
                    return Err(error.into());
                }
            }
        }
    }

    /// Determines whether the attempt in doubt has applied this change.
    async fn settle<V: Clone + Send>(
        &self,
        receipt: &Receipt,
        session: &Session,
        sent: &Option<Sent<V>>,
    ) -> Result<Option<V>> {
        match receipt.settle(&self.client, session).await? {
            Settlement::Applied(attempt) => {
                // Ignore an attempt of an earlier change whose future was dropped.
                let sent = sent.as_ref().filter(|sent| sent.attempt == attempt);
                Ok(sent.map(|sent| sent.values.clone()))
            }
            Settlement::NotApplied => Ok(None),
            Settlement::InUse { is_in_doubt } => {
                let (path, receipt) = (self.path.clone(), receipt.path.clone());
                Err(AtomicValueError::ReceiptInUse { path, receipt, is_in_doubt: is_in_doubt && sent.is_some() })
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

/// The index of the receipt's operation in the transaction.
const OF_RECEIPT: usize = 1;
