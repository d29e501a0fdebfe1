//! Follows the node of a config: reads it and sets a watch, decodes what was read, and reports it, through outages of any length.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use curator_client::{CuratorClient, Error as ClientError, RecipeSupport as _, Result, Session, Watch, ZPath};
use futures_util::poll;
use tokio::sync::watch;

use super::decoder::{Decoder, IfAbsent};
use super::{ConfigError, ConfigStatus};
use crate::engine::follow::{Followed, Follower};
use crate::engine::known::{Known, KnownState as _};
use crate::engine::log::Truncated;

/// A config's node, in whichever session is the current one.
pub(super) struct WatchedNode {
    client: CuratorClient,
    path: ZPath,
    status: Known<ConfigStatus>,
    /// Whether there is a value.
    is_open: bool,
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
            self.watch = None;
            self.status.forget();
        }
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
        if error.is_retryable() {
            self.status.set(ConfigStatus::unknown());
        } else if self.status.set(ConfigStatus::Unreadable { error: error.clone().into() }) && self.is_open {
            tracing::warn!(client = self.client.name(), path = %Truncated(&self.path), error = %Truncated(error), "config: the node cannot be read, and the last value stays");
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
    node: Follower<WatchedNode>,
    decoder: Decoder<T>,
}

impl<T> Following<T> {
    pub(super) fn new(client: &CuratorClient, path: ZPath, decoder: Decoder<T>) -> Self {
        let status = Known::new(client);
        let node = WatchedNode { client: client.clone(), path, status, is_open: false, watch: None, latest: 0 };
        Self { node: Follower::new(client, node), decoder }
    }

    /// Reads until there is a value; `once`, if nothing may be waited for or retried.
    pub(super) async fn first(&mut self, once: bool) -> Result<Arc<T>, ConfigError> {
        loop {
            let data = if once {
                self.node.node.client.check_connected()?;
                self.node.node.read().await?
            } else {
                self.node.next().await?
            };
            let (value, read) = self.decoder.judge(data);
            self.node.node.status.set(read.clone());
            match (value, read) {
                (Some(value), _) => return Ok(value),
                (None, ConfigStatus::Invalid { error }) => return Err(error),
                _ if once || matches!(self.decoder.if_absent, IfAbsent::Fail) => return Err(self.absent()),
                _ => {}
            }
        }
    }

    /// From now on there is a value, and what is wrong with the node is logged.
    pub(super) fn open(&mut self) {
        self.node.node.is_open = true;
    }

    /// Why there is no value yet, when the time is up.
    pub(super) fn no_value(&self, after: Duration) -> ConfigError {
        let WatchedNode { client, path, status, .. } = &self.node.node;
        match (client.check_connected(), &*status.read.borrow()) {
            (Err(ClientError::NotConnected { connect_string, cause, .. }), _) => {
                ClientError::NotConnected { connect_string, after, cause }.into()
            }
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
        self.node.node.status.reported.subscribe()
    }
}

impl<T> Drop for Following<T> {
    fn drop(&mut self) {
        self.node.node.status.report(ConfigStatus::Ended);
    }
}

/// Follows until the client closes, or no handle or receiver is left.
pub(super) async fn follow<T>(mut following: Following<T>, values: watch::Sender<Arc<T>>) -> ConfigError {
    let WatchedNode { client, status, .. } = &following.node.node;
    let (client, status, unused) = (client.clone(), status.reported.clone(), values.clone());
    tokio::select! {
        biased;
        error = client.closing() => error.into(),
        // Only a handle has both, so no receiver of values can follow; and no handle is left that could ask why it has ended.
        () = async { unused.closed().await; status.closed().await } => ClientError::Closed.into(),
        never = run(&mut following, &values) => match never {},
    }
}

async fn run<T>(following: &mut Following<T>, values: &watch::Sender<Arc<T>>) -> Infallible {
    let Following { node, decoder } = following;
    let (status, mut connection) = (node.node.status.clone(), node.node.client.connection_states());
    status.refresh();
    loop {
        let data = {
            let mut reading = pin!(node.next_lasting());
            loop {
                tokio::select! {
                    biased;
                    data = &mut reading => break data,
                    Some(_) = connection.next() => { status.refresh(); }
                }
            }
        };
        let (value, read) = decoder.judge(data);
        if let Some(value) = value {
            values.send_replace(value);
        }
        // An answer that was read late may be of a session that is over.
        if poll!(pin!(node.node.changed())).is_pending() {
            status.set(read);
        }
    }
}
