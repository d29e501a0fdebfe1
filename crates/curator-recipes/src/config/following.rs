//! Follows the node of a config through outages of any length: reads it and sets a watch, decodes
//! the data, and reports the value.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use curator_client::source::watch;
use curator_client::{
    CuratorClient, Error as ClientError, Recovery, Result, Session, Watch, WatchEvent, ZPath,
};
use futures_util::poll;

use super::decoder::{Decoder, IfAbsent};
use super::{ConfigError, ConfigStatus};
use crate::codec::unquoting;
use crate::task::follow::{Followed, Follower, fired};
use crate::task::report::{EventFailures, ReportedState as _, StateSender, Truncated};

/// A config's node, followed in the client's current session.
pub(super) struct Following<T> {
    pub(super) client: CuratorClient,
    pub(super) path: ZPath,
    pub(super) status: StateSender<ConfigStatus>,
    decoder: Decoder<T>,
    /// Whether the config is open. Until then, `open` returns the problems with the node;
    /// afterwards, they are logged.
    pub(super) is_open: bool,
    watch: Option<(Session, Watch)>,
    latest: Option<LastRead>,
    failures: Arc<EventFailures<ConfigStatus>>,
}

/// Identifies a connection: the epoch of its session, and how many connections the session has had.
type ConnectionId = (u64, u64);

/// The connection of the latest read, and the `mzxid` of the data.
struct LastRead {
    connection: ConnectionId,
    mzxid: i64,
}

impl<T: Send + Sync> Followed for Following<T> {
    /// The value, if it has changed, and the status.
    type State = (Option<Arc<T>>, ConfigStatus);

    async fn changed(&mut self) {
        if fired(&mut self.watch).await.is_some() {
            self.status.forget();
        }
    }

    async fn read(&mut self) -> Result<Self::State> {
        let session = self.client.session().await?;
        let connection = (session.epoch(), session.connections());
        // Each watch is kept until the next one is set: a drop would remove it from the server.
        let mut _until_created = None;
        loop {
            match session.watch_data(&self.path).await {
                Ok((data, stat, watch)) => {
                    self.check_order(connection, stat.mzxid)?;
                    self.watch = Some((session, watch));
                    return Ok(self.decoder.evaluate(Some(data)));
                }
                Err(ClientError::NoNode { .. }) => {}
                Err(error) => return Err(error),
            }
            let (stat, watch) = session.watch_exists(&self.path).await?;
            if stat.is_none() {
                self.watch = Some((session, watch));
                return Ok(self.decoder.evaluate(None));
            }
            _until_created = Some(watch);
        }
    }

    fn failed(&mut self, error: &ClientError) {
        if error.is_retryable() {
            self.status.set(ConfigStatus::unknown());
        } else {
            let status = ConfigStatus::Unreadable {
                error: error.clone().into(),
            };
            self.status.set(status.clone());
            if self.is_open {
                self.log(&status);
            }
        }
    }
}

impl<T> Following<T> {
    pub(super) fn new(client: &CuratorClient, path: ZPath, decoder: Decoder<T>) -> Self {
        let status = StateSender::new(client);
        Self {
            client: client.clone(),
            path,
            status,
            decoder,
            is_open: false,
            watch: None,
            latest: None,
            failures: Arc::new(EventFailures::new()),
        }
    }

    /// Logs that there is a problem with the node, or that the problem has ended. Call this after
    /// setting the status, because a log subscriber may read the status.
    fn log(&self, status: &ConfigStatus) {
        log(&self.client, &self.path, &self.failures, status);
    }

    /// Returns an error if the data is older than the data of an earlier read over the same
    /// connection.
    ///
    /// The first probe of each connection is a write, which proves that its server is up to date.
    /// So if a new connection yields older data than an earlier one, the ensemble has lost writes
    /// (it was restored from a backup, for example), and the older data is valid.
    fn check_order(&mut self, connection: ConnectionId, mzxid: i64) -> Result<()> {
        if let Some(LastRead {
            connection: earlier,
            mzxid: latest,
        }) = &self.latest
            && mzxid < *latest
            && connection == *earlier
        {
            let cause = format!(
                "its data are of transaction {mzxid:#x}, after data of {latest:#x} were read"
            );
            return Err(ClientError::Unexpected {
                operation: "watch data of",
                path: self.path.clone(),
                cause,
            });
        }
        self.latest = Some(LastRead { connection, mzxid });
        Ok(())
    }

    /// The error of `open_timeout` if there is no value at the timeout.
    pub(super) fn no_value(&self, after: Duration) -> ConfigError {
        let path = self.path.clone();
        let cause = match self.client.check_connected() {
            Err(cause) => cause,
            Ok(()) if matches!(*self.status.read.borrow(), ConfigStatus::Absent) => {
                return self.absent();
            }
            Ok(()) => ClientError::OperationTimeout {
                operation: "watch data of",
                path: path.clone(),
                after,
            },
        };
        ConfigError::TimedOut { path, after, cause }
    }

    fn absent(&self) -> ConfigError {
        ConfigError::Absent {
            path: self.path.clone(),
        }
    }
}

fn log(
    client: &CuratorClient,
    path: &ZPath,
    failures: &EventFailures<ConfigStatus>,
    status: &ConfigStatus,
) {
    let client = client.name();
    let path = Truncated(path);
    match status {
        ConfigStatus::Invalid {
            error: ConfigError::Invalid { cause, .. },
        } if failures.failed(cause, status) => {
            tracing::warn!(client, %path, error = unquoting(&**cause).map(tracing::field::display), "config: the data are invalid, and the last value stays");
        }
        ConfigStatus::Unreadable { error } if failures.failed(error, status) => {
            tracing::warn!(client, %path, error = %Truncated(error), "config: the node cannot be read, and the last value stays");
        }
        ConfigStatus::Current => {
            if let Some(Recovery {
                lasted, failures, ..
            }) = failures.recovered()
            {
                tracing::info!(client, %path, ?lasted, failures, "config: the value is current again");
            }
        }
        // Already logged.
        ConfigStatus::Invalid { .. } | ConfigStatus::Unreadable { .. } => {}
        _ => failures.superseded(),
    }
}

/// Logs each failure that was not logged when it began, once it has lasted.
async fn log_lasting_failures(
    client: CuratorClient,
    path: ZPath,
    failures: Arc<EventFailures<ConfigStatus>>,
) -> Infallible {
    loop {
        let status = failures.due(&client).await;
        log(&client, &path, &failures, &status);
    }
}

/// Reads until there is a value. If `once`, reads once, without waiting for a connection.
pub(super) async fn read_first_value<T: Send + Sync>(
    following: &mut Follower<Following<T>>,
    once: bool,
) -> Result<Arc<T>, ConfigError> {
    loop {
        let (value, read) = if once {
            let node = &mut following.node;
            node.client
                .check_connected()
                .map_err(|cause| ConfigError::TimedOut {
                    path: node.path.clone(),
                    after: Duration::ZERO,
                    cause,
                })?;
            node.read().await?
        } else {
            following.next().await?
        };
        // Not logged, because the caller gets the error.
        following.node.status.set(read.clone());
        match (value, read) {
            (Some(value), _) => return Ok(value),
            (None, ConfigStatus::Invalid { error }) => return Err(error),
            _ if once || matches!(following.node.decoder.if_absent, IfAbsent::Fail) => {
                return Err(following.node.absent());
            }
            _ => {}
        }
    }
}

impl<T> Drop for Following<T> {
    fn drop(&mut self) {
        self.status.report(ConfigStatus::Ended);
    }
}

/// Follows the node until the client closes, or the last handle and receiver is dropped.
pub(super) async fn follow<T: Send + Sync>(
    mut following: Follower<Following<T>>,
    values: watch::Sender<Arc<T>>,
) -> ConfigError {
    let Following { client, status, .. } = &following.node;
    let client = client.clone();
    let status = status.clone();
    let path = following.node.path.clone();
    let failures = Arc::clone(&following.node.failures);
    tokio::select! {
        biased;
        error = client.closing() => error.into(),
        // All handles and receivers were dropped, and only a handle can make new receivers. So no
        // caller can read this error.
        () = async { values.closed().await; status.reported.closed().await } => ClientError::Closed.into(),
        never = run(&mut following, &values) => match never {},
        never = status.follow_connection() => match never {},
        never = log_lasting_failures(client.clone(), path, failures) => match never {},
    }
}

async fn run<T: Send + Sync>(
    following: &mut Follower<Following<T>>,
    values: &watch::Sender<Arc<T>>,
) -> Infallible {
    loop {
        let (value, read) = following.next_lasting().await;
        let is_new = value.is_some();
        if let Some(value) = value {
            // Wakes no reader yet: when readers of the value are woken, the status is set too.
            values.send_if_modified(|current| {
                *current = value;
                false
            });
        }
        let fired = poll!(pin!(fired(&mut following.node.watch)));
        // If the session has ended since the reply, the value may be outdated.
        if !matches!(
            fired,
            Poll::Ready(Some(WatchEvent::Interrupted | WatchEvent::SessionEnded))
        ) {
            following.node.status.set(read.clone());
            following.node.log(&read);
        }
        if is_new {
            values.send_modify(|_| {});
        }
        if fired.is_ready() {
            following.node.status.forget();
        }
    }
}
