//! The settings of a service: the data of one node, decoded, and kept up to date.

mod decoder;
mod following;

use std::error::Error as StdError;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use curator_client::source::watch;
use curator_client::text::panic_message;
use curator_client::{
    CuratorClient, Deadline, Error as ClientError, NodePath, ZPath, debug_as_text, debug_line,
};
use futures_util::future::FutureExt as _;

pub use self::decoder::{ConfigStatus, IfAbsent};
use self::decoder::{Decode, Decoder};
use self::following::{Following, follow, read_first_value};
use crate::changes::Latest;
use crate::codec::{CodecError, Suffix};
use crate::task::follow::Follower;
use crate::task::{RecipeTask, TaskError as _, error_of_reads};

/// The settings of a service: the data of one node, decoded, and kept up to date while the service
/// runs.
///
/// [`open`](ConfigBuilder::open) reads the node and starts a task on the client's runtime, which
/// follows the node through outages of any length and lost sessions. Clones are handles to the same
/// task. It ends when the client closes, or when the last handle and receiver is dropped.
///
/// ```no_run
/// use curator_recipes::client::CuratorClient;
/// use curator_recipes::{Config, ConfigError};
///
/// #[derive(Debug, serde::Deserialize)]
/// struct Settings {
///     workers: usize,
/// }
///
/// # async fn example() -> Result<(), ConfigError> {
/// let client = CuratorClient::builder("127.0.0.1:2181").connect().await?;
/// let decode = |data: &[u8]| serde_json::from_slice::<Settings>(data);
/// let config = Config::builder(&client, "/settings/billing", decode)?.open().await?;
/// println!("{} workers", config.current().workers);
///
/// let mut values = config.values();
/// while values.changed().await.is_ok() {
///     let settings = values.get_and_update();
///     println!("now {} workers", settings.workers);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// - *Always a value*: data that the decoder rejects never replaces a valid value. It is reported
///   by [`status`](Self::status), and its path is logged, at `warn`.
/// - *Never backwards*: no value is replaced by an older one, even in a new session or by a server
///   that lags behind, unless the ensemble itself has lost writes.
/// - *No change is missed*: after each event, each broken connection and each lost session, the
///   node is read again. The config compares data, not versions, so it detects a node that was
///   deleted and created again with the same version. Changes between two reads are merged into the
///   latest value.
/// - *Only new values are signalled*: a write of the same bytes, a lost connection and invalid data
///   signal nothing, even if the last valid data is written again after invalid data.
///
/// # Caveats
///
/// The value is what the connected server had at the last read: another process may have a newer
/// one. Without a connection, the value stays, and the status is [`Stale`](ConfigStatus::Stale).
///
/// If the permission to read the node is withdrawn, most servers send no more events for it: the
/// config becomes [`Unreadable`](ConfigStatus::Unreadable) only at its next connection.
///
/// If the ensemble is restored from an old backup, the config adopts the older data at its next
/// connection.
///
/// A config, or one of its receivers, keeps the client open.
///
/// Curator's `NodeCache`, or a `CuratorCache` of one node. To write the node, use
/// [`CuratorClient::set_data`](curator_client::CuratorClient::set_data).
pub struct Config<T> {
    values: watch::Receiver<Arc<T>>,
    status: watch::Receiver<ConfigStatus>,
    task: RecipeTask<ConfigError>,
}

debug_line!(Config<T>, |config| path: config.path(), status: *config.status.borrow());

impl<T> Clone for Config<T> {
    fn clone(&self) -> Self {
        let Self {
            values,
            status,
            task,
        } = self;
        Self {
            values: values.clone(),
            status: status.clone(),
            task: task.clone(),
        }
    }
}

impl<T> Config<T> {
    /// The present value: the last valid one, or the [default](IfAbsent::Default) while the node is
    /// absent. Neither sends nor waits.
    #[must_use]
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.values.borrow())
    }

    /// The value and its changes. The first call of [`changed`](Latest::changed) returns
    /// immediately if the value has changed since [`open`](ConfigBuilder::open).
    ///
    /// When the client closes, and in a forked child, the last value no longer changes.
    #[must_use]
    pub fn values(&self) -> Latest<Arc<T>> {
        Latest::new(&self.values)
    }

    /// The status and its changes: whether the value is the node's, and if not, why. A new value is
    /// set before the status becomes [`Current`](ConfigStatus::Current), and readers of
    /// [`values`](Self::values) are woken after both.
    #[must_use]
    pub fn status(&self) -> Latest<ConfigStatus> {
        Latest::new(&self.status)
    }

    /// Waits until the config no longer follows its node, and returns why: the client has closed or
    /// ended, or the decoder has panicked.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn ended(&self) -> ConfigError {
        self.task.ended().await
    }

    /// The node's full path on the server, including chroot and namespace.
    #[must_use]
    pub fn path(&self) -> &ZPath {
        &self.task.path
    }
}

/// Configures a [`Config`].
#[must_use = "nothing is read before `open` or `start`"]
pub struct ConfigBuilder<T> {
    client: CuratorClient,
    path: ZPath,
    decode: Decode<T>,
    if_absent: IfAbsent<T>,
}

debug_line!(ConfigBuilder<T>, |builder| path: builder.path);

impl<T: Send + Sync + 'static> Config<T> {
    /// Configures a config of the node at `path`; `decode` converts its data to a value. Sends
    /// nothing.
    ///
    /// With `serde_json`, `decode` is `|data| serde_json::from_slice::<Settings>(data)`. Its error
    /// can be any type that converts to a `Box<dyn Error>`, such as a string. The program finds it
    /// in [`ConfigError::Invalid`]; the log does not contain it if it may [quote the
    /// data](CodecError). A panic of `decode` ends the config.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn builder<E>(
        client: &CuratorClient,
        path: impl NodePath,
        decode: impl Fn(&[u8]) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<ConfigBuilder<T>, ConfigError>
    where
        E: Into<CodecError>,
    {
        let decode: Decode<T> = Box::new(move |data| decode(data).map_err(Into::into));
        Ok(ConfigBuilder {
            client: client.clone(),
            path: client.resolve(path)?,
            decode,
            if_absent: IfAbsent::KeepLast,
        })
    }
}

impl<T: Send + Sync + 'static> ConfigBuilder<T> {
    /// Sets what happens while the node does not exist. Defaults to [`IfAbsent::KeepLast`].
    pub fn if_absent(mut self, if_absent: IfAbsent<T>) -> Self {
        self.if_absent = if_absent;
        self
    }

    /// Reads the first value, and starts to follow the node. Sends one request if the node exists.
    ///
    /// It waits for a connection without a time limit, and, with [`IfAbsent::KeepLast`], for the
    /// node: see [`open_timeout`](Self::open_timeout).
    ///
    /// # Errors
    ///
    /// - [`ConfigError::Invalid`] if the decoder rejects the data, because there is no earlier
    ///   value to keep.
    /// - [`ConfigError::Absent`] with [`IfAbsent::Fail`].
    /// - [`ConfigError::Client`] for an error that a retry cannot help, such as a missing
    ///   permission, or [`Closed`](curator_client::Error::Closed). Once the config is open, such
    ///   errors are a [status](ConfigStatus::Unreadable), and reading continues.
    /// - [`ConfigError::Panicked`] if the decoder panics.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when the future is dropped: no task, and no watch.
    pub async fn open(self) -> Result<Config<T>, ConfigError> {
        self.open_within(None).await
    }

    /// Like [`open`](Self::open), for at most `timeout`. If `timeout` is zero, reads once, without
    /// waiting for a connection.
    ///
    /// # Errors
    ///
    /// See [`open`](Self::open). At the timeout, [`ConfigError::Absent`] if there is no node,
    /// otherwise [`ConfigError::TimedOut`] with the cause.
    ///
    /// # Cancel safety
    ///
    /// See [`open`](Self::open).
    pub async fn open_timeout(self, timeout: Duration) -> Result<Config<T>, ConfigError> {
        self.open_within(Some(timeout)).await
    }

    /// Starts with the value `initial`, and follows the node: for a service that can run without
    /// its settings. Returns immediately, and works before there is a connection.
    ///
    /// The value is `initial` until a read returns data that the decoder accepts or, with
    /// [`IfAbsent::Default`], finds no node. Until then, the [status](Config::status) shows why:
    /// [`Absent`](ConfigStatus::Absent), [`Invalid`](ConfigStatus::Invalid) or
    /// [`Unreadable`](ConfigStatus::Unreadable), or [`Stale`](ConfigStatus::Stale) while nothing
    /// was read.
    pub fn start(self, initial: T) -> Config<T> {
        spawned(self.following(), Arc::new(initial))
    }

    fn following(self) -> Follower<Following<T>> {
        let Self {
            client,
            path,
            decode,
            if_absent,
        } = self;
        let decoder = Decoder::new(path.clone(), decode, if_absent);
        Follower::new(&client, Following::new(&client, path, decoder))
    }

    async fn open_within(self, timeout: Option<Duration>) -> Result<Config<T>, ConfigError> {
        let client = self.client.clone();
        let path = self.path.clone();
        let mut following = self.following();
        let once = timeout == Some(Duration::ZERO);
        let limit = match timeout {
            Some(timeout) if !once => Deadline::after(timeout),
            _ => Deadline::NEVER,
        };
        let first = tokio::select! {
            biased;
            error = client.closing() => Err(error.into()),
            first = AssertUnwindSafe(read_first_value(&mut following, once)).catch_unwind() => {
                first.unwrap_or_else(|panic| Err(ConfigError::panicked(path, panic_message(&*panic))))
            }
            () = client.sleep_until(limit) => {
                Err(following.node.no_value(timeout.unwrap_or_default()))
            }
        };
        Ok(spawned(following, first?))
    }
}

fn spawned<T: Send + Sync + 'static>(
    mut following: Follower<Following<T>>,
    value: Arc<T>,
) -> Config<T> {
    let node = &mut following.node;
    node.is_open = true;
    let client = node.client.clone();
    let path = node.path.clone();
    let status = node.status.reported.subscribe();
    let (values_tx, values_rx) = watch::channel(value);
    let task = RecipeTask::start(
        &client,
        path,
        (values_rx.clone(), status.clone()),
        follow(following, values_tx),
    );
    Config {
        values: values_rx,
        status,
        task,
    }
}

/// An error of a [`Config`](crate::Config).
///
/// Its text and its `Debug` output contain no data of the node.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// An error of the client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The node does not exist, and the config was [opened](crate::ConfigBuilder::open) with
    /// `IfAbsent::Fail`; or the node was still absent at the timeout.
    #[error("the config {path} does not exist")]
    Absent {
        /// The node.
        path: ZPath,
    },
    /// The node was not read before the timeout, although it may exist.
    #[error("the config {path} was not read within {after:?}: {cause}")]
    TimedOut {
        /// The node.
        path: ZPath,
        /// The timeout.
        after: Duration,
        /// Why there is no connection, such as [`NotConnected`](ClientError::NotConnected); or that
        /// the server has not replied.
        #[source]
        cause: ClientError,
    },
    /// The decoder rejects the node's data. The text leaves out a `cause` that may [quote the
    /// data](crate::CodecError).
    #[error("the data of the config {path} are invalid{}", Suffix(&**cause))]
    Invalid {
        /// The node.
        path: ZPath,
        /// The decoder's error.
        #[source]
        cause: Arc<dyn StdError + Send + Sync>,
    },
    /// The decoder has panicked. The config keeps its last value, and no longer follows its node.
    #[error("the decoder of the config {path} has panicked")]
    Panicked {
        /// The node.
        path: ZPath,
        /// The message of the panic, which may quote the data.
        message: String,
    },
}

debug_as_text!(ConfigError);

error_of_reads!(
    ConfigError,
    error in Self::Client(error) | Self::TimedOut { cause: error, .. },
    closed: Self::Client(ClientError::Closed)
);
