//! Several operations in one request.

use super::{Request, Session};
use crate::error::{Error, Result};
use crate::node::multi_read::{ReadOperation, ReadResult};
use crate::node::{Created, TransactionOperation, TransactionResult};
use crate::path::ZPath;
use crate::zk::created::FailedTransaction;
use crate::zk::error::{LinkError, translate};
use crate::zk::link::{LinkReadResult, LinkTransactionResult};

impl Session {
    /// All the operations, or none of them (ZooKeeper's `multi`). The results are in the order of the operations.
    ///
    /// # Errors
    ///
    /// [`Error::TransactionFailed`] names the operation that failed; nothing was applied. [`Error::RequestTooLarge`] counts
    /// all operations together. [`Error::StatUnknown`] can come of servers that do not tell when a node was created.
    ///
    /// # Caveats
    ///
    /// Servers before 3.7.2, and 3.8 before 3.8.2, do not tell the stats of new nodes. Where nothing else in the answer tells,
    /// a new node is looked at before the answer is given, in one more round trip: an ephemeral one, or else all. See
    /// [`Transaction::commit`](crate::Transaction::commit).
    pub fn transact(&self, operations: Vec<TransactionOperation>) -> Request<Vec<TransactionResult>> {
        const NAME: &str = "transaction on";
        let path = operations.first().map_or_else(ZPath::root, |operation| operation.path().clone());
        let size = operations.iter().map(TransactionOperation::size).sum();
        if let Err(error) = self.check_size(NAME, &path, size) {
            return Request::failed(error);
        }
        let names: Vec<_> = operations.iter().map(|each| (each.name(), each.path().clone())).collect();
        let failed_path = path.clone();
        let sent = self.send_with(
            NAME,
            &path,
            |link| link.transact(operations),
            move |failed| match failed {
                FailedTransaction::Request(index, error) => {
                    match index.and_then(|index| Some((index, names.get(index)?))) {
                        Some((index, (name, path))) => {
                            Error::TransactionFailed { index, cause: Box::new(translate(name, path, error)) }
                        }
                        None => translate(NAME, &failed_path, error),
                    }
                }
                FailedTransaction::Unseen { index, cause } => {
                    let path = names.into_iter().nth(index).map_or(failed_path, |(_, path)| path);
                    Error::StatUnknown { operation: NAME, path, cause: cause.to_string() }
                }
            },
        );
        sent.map(|results| results.into_iter().map(transaction_result).collect())
    }

    /// Deletes all the nodes, whatever their versions, or none of them.
    pub(crate) fn delete_all(&self, paths: &[ZPath]) -> Request<()> {
        let delete = |path: &ZPath| TransactionOperation::Delete { path: path.clone(), version: None };
        self.transact(paths.iter().map(delete).collect()).map(|_| Ok(()))
    }

    /// Several reads in one request (ZooKeeper's `multiRead`). Servers from 3.6 on.
    ///
    /// Each operation has a result of its own, in the order of the operations: one that fails, as with
    /// [`Error::NoNode`], takes nothing from the others. No operations are no request.
    ///
    /// # Errors
    ///
    /// Those of the request as a whole, as that its answer was lost. [`Error::RequestTooLarge`] counts all operations
    /// together.
    ///
    /// # Caveats
    ///
    /// ZooKeeper does not promise that all of them see the same moment.
    pub fn read_all(&self, operations: Vec<ReadOperation>) -> Request<Vec<Result<ReadResult>>> {
        const NAME: &str = "multi-read on";
        let Some(first) = operations.first() else { return Request::answered(Vec::new()) };
        let path = first.path().clone();
        let size = operations.iter().map(ReadOperation::size).sum();
        if let Err(error) = self.check_size(NAME, &path, size) {
            return Request::failed(error);
        }
        let sent = self.send(NAME, &path, |link| link.read_all(operations.clone()));
        sent.map(move |results| {
            let (expected, found) = (operations.len(), results.len());
            if found != expected {
                let cause = format!("{found} results for {expected} operations");
                return Err(Error::Unexpected { operation: NAME, path, cause });
            }
            Ok(operations.iter().zip(results).map(|(operation, result)| read_result(operation, result)).collect())
        })
    }
}

fn transaction_result(result: LinkTransactionResult) -> Result<TransactionResult> {
    Ok(match result {
        LinkTransactionResult::Checked => TransactionResult::Checked,
        LinkTransactionResult::DataSet { stat } => TransactionResult::DataSet(stat),
        LinkTransactionResult::Deleted => TransactionResult::Deleted,
        LinkTransactionResult::Created { path, stat } => {
            TransactionResult::Created(Created { path: ZPath::new(&path)?, stat })
        }
    })
}

fn read_result(operation: &ReadOperation, result: Result<LinkReadResult, LinkError>) -> Result<ReadResult> {
    match (operation, result) {
        (ReadOperation::Children(_), Ok(LinkReadResult::Children(names))) => Ok(ReadResult::Children(names)),
        (ReadOperation::Data(_), Ok(LinkReadResult::Data { data, stat })) => Ok(ReadResult::Data { data, stat }),
        (_, Err(error)) => Err(translate(operation.name(), operation.path(), error)),
        (_, Ok(other)) => Err(Error::Unexpected {
            operation: operation.name(),
            path: operation.path().clone(),
            cause: format!("the server answered something else: {other:?}"),
        }),
    }
}
