//! Several operations in one request: ZooKeeper's `multi` and `multiRead`.

use zookeeper_client::{Error as ZkError, MultiReadResult, MultiWriteError, MultiWriteResult};

use super::convert::{from_stat, to_acl};
use super::in_place::start;
use super::link::{Link, create_options, exists};
use crate::error::{Error, Result};
use crate::operation::{
    Created, MULTI_READ, ReadOperation, ReadResult, TRANSACTION, TransactionOperation,
    TransactionResult,
};
use crate::path::ZPath;
use crate::transport::{Answer, translate, with_stats};

impl Link {
    /// Applies all operations, or none. The outer error is about the request, the inner one about
    /// one of its operations.
    pub(crate) fn transact(
        &self,
        operations: Vec<TransactionOperation>,
    ) -> Answer<Result<Vec<TransactionResult>>> {
        let client = self.client.clone();
        let session_id = self.session_id();
        start(async move {
            let mut writer = client.new_multi_writer();
            for (index, operation) in operations.iter().enumerate() {
                let added = match operation {
                    TransactionOperation::Check { path, version } => {
                        writer.add_check_version(path.as_str(), version.unwrap_or(-1))
                    }
                    TransactionOperation::Create(node) => {
                        let acl = to_acl(&node.acl);
                        writer.add_create(
                            node.path.as_str(),
                            &node.data,
                            &create_options(node, &acl),
                        )
                    }
                    TransactionOperation::SetData {
                        path,
                        data,
                        version,
                    } => writer.add_set_data(path.as_str(), data, *version),
                    TransactionOperation::Delete { path, version } => {
                        writer.add_delete(path.as_str(), *version)
                    }
                };
                if let Err(error) = added {
                    return Ok(Err(failed(index, operation, error)));
                }
            }
            let results = match writer.commit().await {
                Ok(results) if results_fit(&operations, &results) => {
                    results.into_iter().map(written).collect()
                }
                Ok(results) => return Ok(Err(unexpected_results(&operations, &results))),
                Err(MultiWriteError::RequestFailed { source }) => return Err(source),
                Err(MultiWriteError::OperationFailed { index, source }) => {
                    match operations.get(index) {
                        Some(operation) => Err(failed(index, operation, source)),
                        None => return Err(source),
                    }
                }
            };
            Ok(match results {
                Ok(results) => {
                    with_stats(
                        |path| exists(&client, path),
                        session_id,
                        &operations,
                        results,
                    )
                    .await
                }
                failed => failed,
            })
        })
    }

    /// Returns one result for each operation. The middle error means that the number of results is
    /// wrong.
    pub(crate) fn read_all(
        &self,
        operations: Vec<ReadOperation>,
    ) -> Answer<Result<Vec<Result<ReadResult>>>> {
        let client = self.client.clone();
        start(async move {
            let mut reader = client.new_multi_reader();
            for operation in &operations {
                match operation {
                    ReadOperation::Children(path) => reader.add_get_children(path.as_str()),
                    ReadOperation::Data(path) => reader.add_get_data(path.as_str()),
                }?;
            }
            let results = reader.commit().await?;
            let expected = operations.len();
            let found = results.len();
            if found != expected {
                let path = operations
                    .first()
                    .map_or_else(ZPath::root, |operation| operation.path().clone());
                let cause = format!("{found} results for {expected} operations");
                return Ok(Err(Error::Unexpected {
                    operation: MULTI_READ,
                    path,
                    cause,
                }));
            }
            Ok(Ok(operations
                .iter()
                .zip(results)
                .map(|(operation, result)| read(operation, result))
                .collect()))
        })
    }
}

fn failed(index: usize, operation: &TransactionOperation, error: ZkError) -> Error {
    Error::TransactionFailed {
        index,
        cause: Box::new(translate(operation.name(), operation.path(), error.into())),
    }
}

/// Whether there is one result for each operation, and of the operation's kind. Callers that read
/// the results rely on that.
fn results_fit(operations: &[TransactionOperation], results: &[MultiWriteResult]) -> bool {
    operations.len() == results.len()
        && operations.iter().zip(results).all(
            |(operation, result): (&TransactionOperation, &MultiWriteResult)| {
                matches!(
                    (operation, result),
                    (TransactionOperation::Check { .. }, MultiWriteResult::Check)
                        | (
                            TransactionOperation::Create(_),
                            MultiWriteResult::Create { .. }
                        )
                        | (
                            TransactionOperation::SetData { .. },
                            MultiWriteResult::SetData { .. }
                        )
                        | (
                            TransactionOperation::Delete { .. },
                            MultiWriteResult::Delete
                        )
                )
            },
        )
}

/// The reply does not fit the operations, so the outcome is unknown.
fn unexpected_results(operations: &[TransactionOperation], results: &[MultiWriteResult]) -> Error {
    let path = operations
        .first()
        .map_or_else(ZPath::root, |operation| operation.path().clone());
    let cause = format!(
        "{} results that do not fit the {} operations",
        results.len(),
        operations.len()
    );
    Error::Unexpected {
        operation: TRANSACTION,
        path,
        cause,
    }
}

fn written(result: MultiWriteResult) -> Result<TransactionResult> {
    Ok(match result {
        MultiWriteResult::Create { path, stat } => TransactionResult::Created(Created {
            path: ZPath::on_server(&path)?,
            stat: from_stat(stat),
        }),
        MultiWriteResult::SetData { stat } => TransactionResult::DataSet(from_stat(stat)),
        MultiWriteResult::Delete => TransactionResult::Deleted,
        _ => TransactionResult::Checked,
    })
}

fn read(operation: &ReadOperation, result: MultiReadResult) -> Result<ReadResult> {
    match (operation, result) {
        (ReadOperation::Children(_), MultiReadResult::Children { children }) => {
            Ok(ReadResult::Children(children))
        }
        (ReadOperation::Data(_), MultiReadResult::Data { data, stat }) => Ok(ReadResult::Data {
            data,
            stat: from_stat(stat),
        }),
        (_, MultiReadResult::Error { err }) => {
            Err(translate(operation.name(), operation.path(), err.into()))
        }
        (_, other) => Err(Error::Unexpected {
            operation: operation.name(),
            path: operation.path().clone(),
            cause: format!("the server sent an unexpected answer: {other:?}"),
        }),
    }
}
