//! Follows the node of a config: reads it and sets a watch, decodes what was read, and reports it, through outages of any length.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use curator_client::{
    ConnectionState, CuratorClient, Error as ClientError, RecipeSupport as _, Result, Session, Watch, ZPath,
};
use futures_util::poll;
use tokio::sync::watch;

use super::decoder::{Decoder, IfAbsent};
use super::status::StatusReporter;
use super::{ConfigError, ConfigStatus};
use crate::engine::follow::{Followed, Follower};
use crate::engine::log::Truncated;

/// A config's node, in whichever session is the current one.
pub(super) struct WatchedNode {
    client: CuratorClient,
    path: ZPath,
    status: StatusReporter,
    watch: Option<(Session, Watch)>,
    /// The transaction of the latest data that were read.
    latest: i64,
}

impl Followed for WatchedNode {
    /// The data, if the node exists.
    type State = Option<Vec<u8>>;

    async fn changed(&mut self) {
        if let Some((session, watch)) = &mut self.watch {
            tokio::select! {
                biased;
                // The connection of a session that is over may look open for a while.
                _ = session.ended() => {}
                _ = watch.fired() => {}
            }
        }
        self.watch = None;
    }

    async fn read(&mut self) -> Result<Self::State> {
        let session = self.client.session().await?;
        // Kept until the next one is set, and so not removed from the server.
        let mut _until_created = None;
        loop {
            match session.watch_data(&self.path).await {
                Ok((data, stat, watch)) => {
                    self.check_order(stat.mzxid)?;
                    self.watch = Some((session, watch));
                    return Ok(Some(data));
                }
                Err(ClientError::NoNode { .. }) => {}
                Err(error) => return Err(error),
            }
            let (stat, watch) = session.watch_exists(&self.path).await?;
            if stat.is_none() {
                self.watch = Some((session, watch));
                return Ok(None);
            }
            _until_created = Some(watch);
        }
    }

    fn failed(&mut self, error: &ClientError) {
        // The value may have changed since. An error that ends the follower has a status of its own.
        if error.is_retryable() {
            self.status.stale();
        }
    }
}

impl WatchedNode {
    /// A server that lags behind cannot answer the probe of a new connection, so only an ensemble that has lost data fails here.
    fn check_order(&mut self, mzxid: i64) -> Result<()> {
        let latest = self.latest;
        if mzxid < latest {
            let cause = format!("its data are of transaction {mzxid:#x}, after those of {latest:#x} were read");
            return Err(ClientError::Unexpected { operation: "watch data of", path: self.path.clone(), cause });
        }
        self.latest = mzxid;
        Ok(())
    }
}

/// What the task of a config owns.
pub(super) struct Following<T> {
    client: CuratorClient,
    node: Follower<WatchedNode>,
    decoder: Decoder<T>,
    status: StatusReporter,
    /// What was read last.
    read: ConfigStatus,
}

impl<T> Following<T> {
    pub(super) fn new(client: &CuratorClient, path: ZPath, decoder: Decoder<T>) -> Self {
        let status = StatusReporter::new(client);
        let read = status.sender.borrow().clone();
        let node = WatchedNode { client: client.clone(), path, status: status.clone(), watch: None, latest: 0 };
        Self { client: client.clone(), node: Follower::new(client, node), decoder, status, read }
    }

    /// Reads until there is a value; `once`, if nothing may be waited for or retried.
    pub(super) async fn first(&mut self, once: bool) -> Result<Arc<T>, ConfigError> {
        loop {
            let data = if once {
                self.client.check_connected()?;
                self.node.node.read().await?
            } else {
                self.node.next().await?
            };
            let (value, read) = self.decoder.judge(data);
            self.read = read;
            self.status.report(&self.read);
            match (value, &self.read) {
                (Some(value), _) => return Ok(value),
                (None, ConfigStatus::Invalid { error }) => return Err(error.clone()),
                _ if once || matches!(self.decoder.if_absent, IfAbsent::Fail) => return Err(self.absent()),
                _ => {}
            }
        }
    }

    /// Why there is no value yet, when the time is up.
    pub(super) fn no_value(&self, after: std::time::Duration) -> ConfigError {
        let path = &self.node.node.path;
        match (self.client.check_connected(), &self.read) {
            (Err(error), _) => error.into(),
            (Ok(()), ConfigStatus::Absent) => self.absent(),
            (Ok(()), _) => {
                ClientError::OperationTimeout { operation: "watch data of", path: path.clone(), after }.into()
            }
        }
    }

    fn absent(&self) -> ConfigError {
        ConfigError::Absent { path: self.node.node.path.clone() }
    }

    pub(super) fn status(&self) -> watch::Receiver<ConfigStatus> {
        self.status.sender.subscribe()
    }
}

impl<T> Drop for Following<T> {
    fn drop(&mut self) {
        self.status.send(ConfigStatus::Ended);
    }
}

/// Follows until the client closes, or no handle or receiver is left.
pub(super) async fn follow<T>(mut following: Following<T>, values: watch::Sender<Arc<T>>) -> ConfigError {
    let (client, path) = (following.client.clone(), following.node.node.path.clone());
    let (status, unused) = (following.status.sender.clone(), values.clone());
    tokio::select! {
        biased;
        error = client.closing() => error.into(),
        // Only a handle has both, so no receiver of values can follow.
        () = async { unused.closed().await; status.closed().await } => ConfigError::Closed { path },
        never = run(&mut following, &values) => match never {},
    }
}

async fn run<T>(following: &mut Following<T>, values: &watch::Sender<Arc<T>>) -> Infallible {
    let Following { client, node, decoder, status, read } = following;
    let mut connection = client.connection_states();
    let mut retrier = client.persistent_retrier();
    loop {
        {
            let mut changed = pin!(node.node.changed());
            // An answer that was read late may be of a session that is over.
            if poll!(&mut changed).is_pending() {
                status.report(read);
                loop {
                    tokio::select! {
                        biased;
                        () = &mut changed => break,
                        // It is true until the watch fires.
                        Some(_) = connection.next() => { status.report(read); }
                    }
                }
            }
        }
        let data = {
            let mut reading = pin!(node.next());
            loop {
                tokio::select! {
                    biased;
                    data = &mut reading => break data,
                    // What was read before may not be true any more.
                    Some(state) = connection.next() => {
                        if matches!(state, ConnectionState::Suspended | ConnectionState::Lost) {
                            status.stale();
                        }
                    }
                }
            }
        };
        match data {
            Ok(data) => {
                retrier.reset();
                let (value, now) = decoder.judge(data);
                *read = now;
                if let Some(value) = value {
                    values.send_replace(value);
                }
            }
            Err(error) => {
                let path = &node.node.path;
                let unreadable = ConfigStatus::Unreadable { error: error.clone().into() };
                if status.report(&unreadable) {
                    tracing::warn!(client = client.name(), path = %Truncated(path), error = %Truncated(error), "config: the node cannot be read, and the last value stays");
                }
                if retrier.again().await.is_err() {
                    // The client closes, and this task with it.
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}
