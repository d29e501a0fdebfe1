//! One connection of a session, with requests that are sent by the call.

mod open;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use zookeeper_client::{
    Acls, Client, CreateMode as ZkCreateMode, Error as ZkError, MultiReadResult, MultiWriteError, MultiWriteResult,
    OneshotWatcher, Stat,
};

pub(crate) use self::open::SessionKey;
use super::created::{FailedTransaction, with_stats};
use super::started::{Started, start, unwinding};
use super::task::{LinkEnd, SessionTask};
use crate::connect_string::ConnectString;
use crate::node::multi_read::ReadOperation;
use crate::node::{CreateMode, NodeSpec, TransactionOperation};
use crate::path::ZPath;

/// What is needed to open a session.
#[derive(Debug, Clone)]
pub(crate) struct LinkOptions {
    pub(crate) servers: ConnectString,
    pub(crate) session_timeout: Duration,
    /// How long one pass over the servers may take.
    pub(crate) connection_timeout: Duration,
    pub(crate) auth: Vec<Credentials>,
}

/// What a session authenticates with. Its `Debug` keeps the secret.
#[derive(Clone)]
pub(crate) struct Credentials {
    pub(crate) scheme: String,
    pub(crate) auth: Vec<u8>,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// A connection of a session. Clones share it; the session is closed when the last one is dropped, if the connection
/// stands then.
///
/// It breaks once and for all: the session goes on over another link.
#[derive(Clone)]
pub(crate) struct Link {
    client: Client,
    task: SessionTask,
    /// Whether the server that is talked to is certainly as new as those that the session was talked to by before.
    caught_up: Arc<AtomicBool>,
}

type Answer<T> = Started<Result<T, ZkError>>;

impl Link {
    pub(crate) fn session_id(&self) -> i64 {
        self.client.session_id().0
    }

    /// The timeout that the server of this connection granted.
    pub(crate) fn session_timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    /// The crate's task behind the connection. Holding it does not keep the session open.
    pub(crate) fn task(&self) -> &SessionTask {
        &self.task
    }

    /// Why the connection is over, if it is.
    pub(crate) fn end(&self) -> Option<LinkEnd> {
        self.task.end()
    }

    pub(crate) fn create(&self, node: &NodeSpec) -> Answer<(Stat, Option<i64>)> {
        let (client, node) = (self.client.clone(), node.clone());
        start(async move {
            let options = create_options(&node);
            let (stat, sequence) = client.create(node.path.as_str(), &node.data, &options).await?;
            Ok((stat, node.mode.is_sequential().then(|| sequence.into_i64())))
        })
    }

    pub(crate) fn delete(&self, path: &ZPath, version: Option<i32>) -> Answer<()> {
        start(self.client.delete(path.as_str(), version))
    }

    pub(crate) fn get_data(&self, path: &ZPath) -> Answer<(Vec<u8>, Stat)> {
        start(unwinding(self.client.get_data(path.as_str())))
    }

    pub(crate) fn watch_data(&self, path: &ZPath) -> Answer<(Vec<u8>, Stat, OneshotWatcher)> {
        let (client, path) = (self.client.clone(), path.clone());
        start(async move { unwinding(client.get_and_watch_data(path.as_str())).await })
    }

    pub(crate) fn exists(&self, path: &ZPath) -> Answer<Option<Stat>> {
        start(self.client.check_stat(path.as_str()))
    }

    pub(crate) fn get_children(&self, path: &ZPath) -> Answer<Vec<String>> {
        let (client, path) = (self.client.clone(), path.clone());
        start(async move { client.list_children(path.as_str()).await })
    }

    pub(crate) fn watch_children(&self, path: &ZPath) -> Answer<(Vec<String>, OneshotWatcher)> {
        let (client, path) = (self.client.clone(), path.clone());
        start(async move { client.list_and_watch_children(path.as_str()).await })
    }

    pub(crate) fn set_data(&self, path: &ZPath, data: &[u8], version: Option<i32>) -> Answer<Stat> {
        start(self.client.set_data(path.as_str(), data, version))
    }

    pub(crate) fn sync(&self, path: &ZPath) -> Answer<()> {
        let (client, path) = (self.client.clone(), path.clone());
        start(async move { client.sync(path.as_str()).await })
    }

    /// All or nothing. The error of one operation names its index.
    pub(crate) fn transact(
        &self,
        operations: Vec<TransactionOperation>,
    ) -> Started<Result<Vec<LinkTransactionResult>, FailedTransaction>> {
        let client = self.client.clone();
        start(async move {
            let mut writer = client.new_multi_writer();
            for (index, operation) in operations.iter().enumerate() {
                match operation {
                    TransactionOperation::Check { path, version } => {
                        writer.add_check_version(path.as_str(), version.unwrap_or(-1))
                    }
                    TransactionOperation::Create(node) => {
                        writer.add_create(node.path.as_str(), &node.data, &create_options(node))
                    }
                    TransactionOperation::SetData { path, data, version } => {
                        writer.add_set_data(path.as_str(), data, *version)
                    }
                    TransactionOperation::Delete { path, version } => writer.add_delete(path.as_str(), *version),
                }
                .map_err(|error| FailedTransaction::Request(Some(index), error))?;
            }
            let results = writer.commit().await.map_err(|error| match error {
                MultiWriteError::RequestFailed { source } => FailedTransaction::Request(None, source),
                MultiWriteError::OperationFailed { index, source } => FailedTransaction::Request(Some(index), source),
            })?;
            with_stats(&client, &operations, results.into_iter().map(LinkTransactionResult::from).collect()).await
        })
    }

    /// A result for each operation, or none if the request as a whole failed.
    pub(crate) fn read_all(&self, operations: Vec<ReadOperation>) -> Answer<Vec<Result<LinkReadResult, ZkError>>> {
        let client = self.client.clone();
        start(async move {
            let mut reader = client.new_multi_reader();
            for operation in &operations {
                match operation {
                    ReadOperation::Children(path) => reader.add_get_children(path.as_str()),
                    ReadOperation::Data(path) => reader.add_get_data(path.as_str()),
                }?;
            }
            Ok(reader.commit().await?.into_iter().map(read_result).collect())
        })
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Link({})", self.client.session_id())
    }
}

/// The result of one operation of a transaction, with the path as the server wrote it.
#[derive(Debug)]
pub(crate) enum LinkTransactionResult {
    Checked,
    Created { path: String, stat: Stat },
    DataSet { stat: Stat },
    Deleted,
}

impl From<MultiWriteResult> for LinkTransactionResult {
    fn from(result: MultiWriteResult) -> Self {
        match result {
            MultiWriteResult::Create { path, stat } => Self::Created { path, stat },
            MultiWriteResult::SetData { stat } => Self::DataSet { stat },
            MultiWriteResult::Delete => Self::Deleted,
            _ => Self::Checked,
        }
    }
}

/// The result of one operation of a multi-read.
#[derive(Debug)]
pub(crate) enum LinkReadResult {
    Children(Vec<String>),
    Data { data: Vec<u8>, stat: Stat },
}

fn read_result(result: MultiReadResult) -> Result<LinkReadResult, ZkError> {
    match result {
        MultiReadResult::Children { children } => Ok(LinkReadResult::Children(children)),
        MultiReadResult::Data { data, stat } => Ok(LinkReadResult::Data { data, stat }),
        MultiReadResult::Error { err } => Err(err),
        other => Err(ZkError::UnexpectedError(format!("an unknown result of a read: {other:?}"))),
    }
}

fn create_options(node: &NodeSpec) -> zookeeper_client::CreateOptions<'_> {
    let acls = Acls::new(&node.acl);
    let (mode, ttl) = match node.mode {
        CreateMode::Persistent => (ZkCreateMode::Persistent, None),
        CreateMode::PersistentSequential => (ZkCreateMode::PersistentSequential, None),
        CreateMode::Ephemeral => (ZkCreateMode::Ephemeral, None),
        CreateMode::EphemeralSequential => (ZkCreateMode::EphemeralSequential, None),
        CreateMode::Container => (ZkCreateMode::Container, None),
        CreateMode::PersistentWithTtl(ttl) => (ZkCreateMode::Persistent, Some(ttl)),
        CreateMode::PersistentSequentialWithTtl(ttl) => (ZkCreateMode::PersistentSequential, Some(ttl)),
    };
    let options = mode.with_acls(acls);
    match ttl {
        // The crate rounds down to milliseconds, and takes none for "no TTL" where it refuses zero.
        Some(ttl) if ttl < Duration::from_millis(1) => options.with_ttl(Duration::ZERO),
        Some(ttl) => options.with_ttl(ttl),
        None => options,
    }
}
