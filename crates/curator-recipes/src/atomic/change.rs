//! Changes the node of an atomic value: reads it, computes the new data, and writes it if the
//! version is still the same.

use std::sync::Arc;

use curator_client::{
    Error as ClientError, Outcome, Result as ClientResult, Session, Stat, TransactionOperation,
    ZPath,
};

use super::receipt::{Receipt, Settlement};
use super::{AtomicValue, DistributedAtomicValue, Result};
use crate::error::{Error, ValueError, is_conflict};
use crate::shared::ANY_VERSION;
use crate::task::check_fork;

type Change<'a, T> = dyn Fn(&T) -> Result<T> + Send + Sync + 'a;

/// The values of an attempt that was applied; `None` if another client has changed the node since
/// the read.
type AttemptResult<T> = Option<AtomicValue<T>>;

/// An attempt that was sent with a receipt. Its reply may be lost.
struct Sent<T> {
    attempt: u64,
    values: AtomicValue<T>,
}

/// The data and stat that were read; `None` if the node does not exist.
type Read = Option<(Vec<u8>, Stat)>;

impl<T: Clone + Send + Sync + 'static> DistributedAtomicValue<T> {
    /// Applies the change, first without a lock. After too many conflicts, acquires the mutex, if
    /// there is one, and tries again.
    pub(super) async fn change(&self, change: &Change<'_, T>) -> Result<AtomicValue<T>> {
        check_fork(self.client())?;
        // The changes of a handle with a receipt run one after another.
        let mut receipt = match &self.receipt {
            Some(receipt) => Some(receipt.lock().await),
            None => None,
        };
        let mut attempts = 0;
        if let Some(values) = self
            .contend(change, receipt.as_deref_mut(), &mut attempts)
            .await?
        {
            return Ok(values);
        }
        let contended = |attempts| ValueError::Contended {
            path: self.path().clone(),
            attempts,
        };
        let Some(mutex) = &self.mutex else {
            return Err(contended(attempts));
        };
        let guard = mutex
            .acquire()
            .await
            .map_err(|cause| self.not_locked(cause))?;
        // Clients in their first attempts do not acquire the mutex, so there may still be
        // conflicts.
        let changed = self
            .contend(change, receipt.as_deref_mut(), &mut attempts)
            .await;
        // The mutex is released in the background, because the change does not depend on it.
        drop(guard);
        changed?.ok_or_else(|| contended(attempts))
    }

    pub(super) fn not_locked(&self, cause: Error) -> ValueError {
        ValueError::Lock {
            path: self.path().clone(),
            cause: Box::new(cause),
        }
    }

    /// Attempts the change until it is applied or fails. Returns `None` when the policy for
    /// conflicts stops.
    async fn contend(
        &self,
        change: &Change<'_, T>,
        mut receipt: Option<&mut Receipt>,
        attempts: &mut u32,
    ) -> Result<AttemptResult<T>> {
        let mut contention = self.client().retrier_with(Arc::clone(&self.contention));
        let mut failures = self.client().retrier();
        // The last attempt that was sent with a receipt.
        let mut sent = None;
        loop {
            match self
                .attempt(change, receipt.as_deref_mut(), *attempts > 0, &mut sent)
                .await
            {
                Ok(None) => {
                    *attempts += 1;
                    failures.reset();
                    if !contention.again().await? {
                        return Ok(None);
                    }
                }
                Err(ValueError::Client(error)) => {
                    failures
                        .pause(error)
                        .await
                        .map_err(|cause| match receipt.as_deref() {
                            Some(receipt) if sent.is_some() && receipt.is_in_doubt() => {
                                ValueError::OutcomeUnknown {
                                    path: self.path().clone(),
                                    cause,
                                }
                            }
                            _ => cause.into(),
                        })?;
                }
                done => return done,
            }
        }
    }

    async fn attempt(
        &self,
        change: &Change<'_, T>,
        mut receipt: Option<&mut Receipt>,
        needs_sync: bool,
        sent: &mut Option<Sent<T>>,
    ) -> Result<AttemptResult<T>> {
        let session = self.client().session().await?;
        if let Some(receipt) = receipt.as_deref_mut()
            && !receipt.is_settled()
            && let Some(values) = self.settle(receipt, &session, sent).await?
        {
            return Ok(Some(values));
        }
        let mut read = self.read(&session, needs_sync).await?;
        let (data, values) = match self.compute(&read, change) {
            Err(_) if !needs_sync => {
                // The change may have failed because the data is outdated.
                read = self.read(&session, true).await?;
                self.compute(&read, change)
            }
            computed => computed,
        }?;
        let version = read.map(|(_, stat)| stat.version);
        if version == Some(ANY_VERSION) {
            return Err(ValueError::VersionExhausted {
                path: self.path().clone(),
            });
        }
        match receipt {
            None => self.write(&session, version, &data, values).await,
            Some(receipt) => {
                self.write_with(receipt, &session, version, &data, values, sent)
                    .await
            }
        }
    }

    /// Returns the new data, and the values before and after the change.
    fn compute(&self, read: &Read, change: &Change<'_, T>) -> Result<(Vec<u8>, AtomicValue<T>)> {
        let pre_value = match read {
            Some((data, stat)) => {
                self.value.check(stat)?;
                self.value.decode(data)?
            }
            None => self.value.seed().clone(),
        };
        let data = self.value.encode(&change(&pre_value)?);
        // Decoded before the write, because a codec may reject the data that it has encoded.
        let post_value = self.value.decode(&data)?;
        Ok((
            data,
            AtomicValue {
                pre_value,
                post_value,
            },
        ))
    }

    /// Reads the node. If `needs_sync`, sends a `sync` first, because the last read may have been
    /// outdated.
    async fn read(&self, session: &Session, needs_sync: bool) -> ClientResult<Read> {
        let (synced, read) = session.pipelined(|| {
            (
                needs_sync.then(|| session.sync(self.path())),
                session.get_data(self.path()),
            )
        });
        if let Some(synced) = synced {
            synced.await?;
        }
        match read.await {
            Ok(read) => Ok(Some(read)),
            Err(ClientError::NoNode { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write(
        &self,
        session: &Session,
        version: Option<i32>,
        data: &[u8],
        values: AtomicValue<T>,
    ) -> Result<AttemptResult<T>> {
        let written = match version {
            Some(_) => session.set_data(self.path(), data, version).await.map(drop),
            None => self
                .client()
                .create_with_containers(session, &self.value.new_node(data))
                .await
                .map(drop),
        };
        match written {
            Ok(()) => Ok(Some(values)),
            Err(error) if is_conflict(&error) => Ok(None),
            Err(error) => Err(self.value.write_error(error)),
        }
    }

    /// Writes the node and the receipt in one transaction.
    async fn write_with(
        &self,
        receipt: &mut Receipt,
        session: &Session,
        version: Option<i32>,
        data: &[u8],
        values: AtomicValue<T>,
        sent: &mut Option<Sent<T>>,
    ) -> Result<AttemptResult<T>> {
        if receipt.is_exhausted() {
            return Err(ValueError::VersionExhausted {
                path: receipt.path.clone(),
            });
        }
        let mut operation = match version {
            Some(_) => TransactionOperation::SetData {
                path: self.path().clone(),
                data: data.into(),
                version,
            },
            None => TransactionOperation::Create(self.value.new_node(data)),
        };
        let mut has_created_parents = false;
        loop {
            let Some((attempt, receipt_write)) = receipt.attempt(self.client()) else {
                return Ok(None);
            };
            *sent = Some(Sent {
                attempt,
                values: values.clone(),
            });
            match session
                .transact(vec![operation.clone(), receipt_write])
                .await
            {
                Ok(results) => {
                    receipt.answered(results.get(RECEIPT_INDEX));
                    return Ok(Some(values));
                }
                Err(ClientError::TransactionFailed { index, cause }) if is_conflict(&cause) => {
                    receipt.answered(None);
                    if matches!(*cause, ClientError::NoNode { .. }) && !has_created_parents {
                        if version.is_none() && receipt.path.strip_prefix(self.path()).is_some() {
                            // The receipt is below the value. Create the value first, as a
                            // persistent node: a missing parent is created as a container.
                            let Some(seeded) = self.create_with_seed(session).await? else {
                                return Ok(None);
                            };
                            let path = self.path().clone();
                            let data = data.into();
                            let version = Some(seeded.version);
                            operation = TransactionOperation::SetData {
                                path,
                                data,
                                version,
                            };
                        }
                        self.ensure_parent(session, self.path()).await?;
                        self.ensure_parent(session, &receipt.path).await?;
                        has_created_parents = true;
                    } else if index == RECEIPT_INDEX {
                        // Another client has changed the receipt.
                        return self.settle(receipt, session, sent).await;
                    } else {
                        return Ok(None);
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

    /// Creates the node with the seed. Returns `None` if another client has created it.
    async fn create_with_seed(&self, session: &Session) -> Result<Option<Stat>> {
        let node = self.value.new_node(&self.value.encode(self.value.seed()));
        match self.client().create_with_containers(session, &node).await {
            Ok(created) => Ok(Some(created.stat)),
            Err(ClientError::NodeExists { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Determines whether the attempt in doubt has applied this change. If so, returns its values.
    async fn settle(
        &self,
        receipt: &mut Receipt,
        session: &Session,
        sent: &Option<Sent<T>>,
    ) -> Result<AttemptResult<T>> {
        match receipt.settle(self.client(), session).await? {
            Settlement::Applied(attempt) => {
                // Ignore an attempt of an earlier change whose future was dropped.
                let sent = sent.as_ref().filter(|sent| sent.attempt == attempt);
                Ok(sent.map(|sent| sent.values.clone()))
            }
            Settlement::NotApplied => Ok(None),
            Settlement::Unsuitable(cause) => Err(ValueError::Unsuitable {
                path: receipt.path.clone(),
                cause,
                is_written: false,
            }),
            Settlement::InUse { is_in_doubt } => {
                let path = self.path().clone();
                let receipt = receipt.path.clone();
                Err(ValueError::ReceiptInUse {
                    path,
                    receipt,
                    is_in_doubt: is_in_doubt && sent.is_some(),
                })
            }
        }
    }

    async fn ensure_parent(&self, session: &Session, path: &ZPath) -> ClientResult<()> {
        match path.parent() {
            Some(parent) => self.client().ensure_containers(session, &parent).await,
            None => Ok(()),
        }
    }
}

/// The index of the receipt's operation in the transaction.
const RECEIPT_INDEX: usize = 1;
