//! Opens a config: reads its node for the first time, and starts its task.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use curator_client::source::watch;
use curator_client::{CuratorClient, Deadline, NodePath, RecipeSupport as _, ZPath};
use futures_util::future::FutureExt as _;

use super::decoder::{Decode, Decoder, IfAbsent};
use super::following::{Following, follow, read_first_value};
use super::{Config, ConfigError};
use crate::codec::CodecError;
use crate::debug::debug_line;
use crate::engine::follow::Follower;
use crate::engine::task::{RecipeTask, TaskError as _, panic_message};

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
    ///   errors are a [status](super::ConfigStatus::Unreadable), and reading continues.
    /// - [`ConfigError::Panicked`] if the decoder panics.
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when the future is dropped: no task, and no watch.
    pub async fn open(self) -> Result<Config<T>, ConfigError> {
        self.open_within(None).await
    }

    /// Like [`open`](Self::open), for at most `timeout`. With zero, it reads once and retries
    /// nothing.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open). At the timeout, [`ConfigError::Absent`] if there is no
    /// node, or [`ConfigError::TimedOut`] with the cause.
    ///
    /// # Cancel safety
    ///
    /// The same as [`open`](Self::open).
    pub async fn open_timeout(self, timeout: Duration) -> Result<Config<T>, ConfigError> {
        self.open_within(Some(timeout)).await
    }

    /// Starts with the value `initial`, and follows the node: for a service that can run without
    /// its settings. Returns immediately, and works before there is a connection.
    ///
    /// The value is `initial` until a read returns data that the decoder accepts or, with
    /// [`IfAbsent::Default`], finds no node. Before that, the [status](Config::status) is
    /// [`Stale`](super::ConfigStatus::Stale), or the problem:
    /// [`Absent`](super::ConfigStatus::Absent), [`Invalid`](super::ConfigStatus::Invalid) or
    /// [`Unreadable`](super::ConfigStatus::Unreadable).
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
        let (client, path, mut following) =
            (self.client.clone(), self.path.clone(), self.following());
        let once = timeout == Some(Duration::ZERO);
        let limit = timeout
            .filter(|_| !once)
            .map_or(Deadline::NEVER, Deadline::after);
        let first = tokio::select! {
            biased;
            error = client.closing() => Err(error.into()),
            first = AssertUnwindSafe(read_first_value(&mut following, once)).catch_unwind() => {
                first.unwrap_or_else(|panic| Err(ConfigError::panicked(path, panic_message(panic))))
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
    let (client, path, status) = (
        node.client.clone(),
        node.path.clone(),
        node.status.reported.subscribe(),
    );
    let (values, current) = watch::channel(value);
    let task = RecipeTask::start(
        &client,
        path,
        (current.clone(), status.clone()),
        follow(following, values),
    );
    Config {
        values: current,
        status,
        task,
    }
}
