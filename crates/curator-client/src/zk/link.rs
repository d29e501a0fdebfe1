//! One session of the client crate, with requests that are sent by the call.

mod resume;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use zookeeper_client::{
    Acls, Client, Connector, CreateMode as ZkCreateMode, Error as ZkError, MultiReadResult, MultiWriteError,
    MultiWriteResult, OneshotWatcher, SessionState, Stat, StateWatcher,
};

use super::nodelay::Peers;
use super::started::{Started, start};
use super::task::{SessionTask, catch_task};
use super::watch::LinkMark;
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

/// What the crate says of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkState {
    Connected,
    Disconnected,
    Expired,
    AuthFailed,
    Closed,
}

/// An open session. Clones share it; it is closed when the last one is dropped.
#[derive(Clone)]
pub(crate) struct Link {
    client: Client,
    peers: Peers,
    task: SessionTask,
    /// Whether the servers that are talked to are certainly as new as those that were talked to before.
    caught_up: Arc<AtomicBool>,
}

/// How long the names of the servers may take to be looked up for a socket option, which is a nicety.
const NAMES: Duration = Duration::from_secs(1);

type Answer<T> = Started<Result<T, ZkError>>;

/// What failed in a transaction: one operation, or the request as a whole.
pub(crate) type FailedOperation = (Option<usize>, ZkError);

impl Link {
    /// Opens a session: one pass over the servers, and no longer than the session timeout.
    ///
    /// The crate waits 2/5 of the session timeout for a server that says nothing, whether it connects or is connected.
    /// That may be longer than the whole connect may take, so each server gets its share of that at most: a dead one
    /// leaves time for the others.
    pub(crate) async fn open(options: &LinkOptions) -> Result<Self, ZkError> {
        // Beside each other: slow names must not keep a session waiting that has begun to count its time.
        let servers = options.servers.hosts_string();
        let resolve = tokio::time::timeout(NAMES, Peers::resolve(&options.servers));
        let (connected, peers) = tokio::join!(catch_task(connector(options).connect(&servers)), resolve);
        Self::opened(connected, peers.unwrap_or_default(), true)
    }

    fn opened(
        (client, task): (Result<Client, ZkError>, Option<SessionTask>),
        peers: Peers,
        caught_up: bool,
    ) -> Result<Self, ZkError> {
        let client = client?;
        let task = task.ok_or_else(|| ZkError::UnexpectedError("the crate spawns its task elsewhere".to_owned()))?;
        peers.set_nodelay();
        Ok(Self { client, peers, task, caught_up: Arc::new(AtomicBool::new(caught_up)) })
    }

    /// The servers' addresses, to set the socket option anew on every connection of this session.
    pub(crate) fn peers(&self) -> Peers {
        self.peers.clone()
    }

    /// Whether trying again is pointless.
    pub(crate) fn is_refusal(error: &ZkError) -> bool {
        matches!(error, ZkError::AuthFailed | ZkError::BadArguments(_))
    }

    /// What the crate believes. It may be wrong, see the table in `zk/mod.rs`.
    pub(crate) fn is_connected(&self) -> bool {
        self.client.state() == SessionState::SyncConnected
    }

    pub(crate) fn session_id(&self) -> i64 {
        self.client.session_id().0
    }

    /// The timeout that the server granted.
    pub(crate) fn session_timeout(&self) -> Duration {
        self.client.session_timeout()
    }

    pub(crate) fn states(&self) -> LinkStates {
        LinkStates(self.client.state_watcher())
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
        start(self.client.get_data(path.as_str()))
    }

    /// Also the mark of the connection that the watch was asked for on.
    pub(crate) fn watch_data(&self, path: &ZPath) -> (LinkMark, Answer<(Vec<u8>, Stat, OneshotWatcher)>) {
        let (client, path) = (self.client.clone(), path.clone());
        let mark = LinkMark::new(client.state_watcher(), self.task.clone());
        (mark, start(async move { client.get_and_watch_data(path.as_str()).await }))
    }

    pub(crate) fn exists(&self, path: &ZPath) -> Answer<Option<Stat>> {
        start(self.client.check_stat(path.as_str()))
    }

    pub(crate) fn get_children(&self, path: &ZPath) -> Answer<Vec<String>> {
        let (client, path) = (self.client.clone(), path.clone());
        start(async move { client.list_children(path.as_str()).await })
    }

    pub(crate) fn watch_children(&self, path: &ZPath) -> (LinkMark, Answer<(Vec<String>, OneshotWatcher)>) {
        let (client, path) = (self.client.clone(), path.clone());
        let mark = LinkMark::new(client.state_watcher(), self.task.clone());
        (mark, start(async move { client.list_and_watch_children(path.as_str()).await }))
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
    ) -> Started<Result<Vec<LinkTransactionResult>, FailedOperation>> {
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
                .map_err(|error| (Some(index), error))?;
            }
            let results = writer.commit().await.map_err(|error| match error {
                MultiWriteError::RequestFailed { source } => (None, source),
                MultiWriteError::OperationFailed { index, source } => (Some(index), source),
            })?;
            Ok(results.into_iter().map(LinkTransactionResult::from).collect())
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

/// What every session of a client is opened with.
fn connector(options: &LinkOptions) -> Connector {
    let mut connector = Client::connector().with_session_timeout(options.session_timeout).with_fail_eagerly();
    let servers = u32::try_from(options.servers.hosts().len()).unwrap_or(u32::MAX);
    let share = options.connection_timeout / servers.max(1);
    if share < options.session_timeout / 5 * 2 {
        connector = connector.with_connection_timeout(share);
    }
    for Credentials { scheme, auth } in &options.auth {
        connector = connector.with_auth(scheme, auth);
    }
    connector
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

/// Follows the crate's states, which may be merged: a change to the same state is a flap.
pub(crate) struct LinkStates(StateWatcher);

impl LinkStates {
    /// Waits for a change. Pends for ever after a terminal state was returned.
    pub(crate) async fn changed(&mut self) -> LinkState {
        translate(self.0.changed().await)
    }

    /// Waits until the session is over for the client crate.
    pub(crate) async fn terminated(&mut self) {
        while !self.0.peek_state().is_terminated() {
            self.0.changed().await;
        }
    }
}

fn translate(state: SessionState) -> LinkState {
    match state {
        SessionState::SyncConnected => LinkState::Connected,
        // Read-only sessions are never asked for, and could not be confirmed by a probe.
        SessionState::Disconnected | SessionState::ConnectedReadOnly => LinkState::Disconnected,
        SessionState::AuthFailed => LinkState::AuthFailed,
        SessionState::Expired => LinkState::Expired,
        SessionState::Closed => LinkState::Closed,
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
