//! Opens a config: reads its node for the first time, and starts its task.

use std::error::Error as StdError;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use curator_client::{CuratorClient, Deadline, NodePath, RecipeSupport as _, ZPath};
use futures_util::future::FutureExt as _;
use tokio::sync::watch;

use super::decoder::{Decode, Decoder, IfAbsent};
use super::following::{Following, first, follow};
use super::{Config, ConfigError};
use crate::debug::debug_line;
use crate::engine::follow::Follower;
use crate::engine::task::{RecipeTask, TaskError as _, panic_message};

/// Configures a [`Config`].
#[must_use = "nothing is read before `open`"]
pub struct ConfigBuilder<T> {
    client: CuratorClient,
    path: ZPath,
    decode: Decode<T>,
    if_absent: IfAbsent<T>,
}

debug_line!(ConfigBuilder<T>, |builder| path: builder.path);

impl<T: Send + Sync + 'static> Config<T> {
    /// Configures a config of the node at `path`, whose data `decode` turns into a value. Nothing is sent yet.
    ///
    /// With `serde_json`, `decode` is `|data| serde_json::from_slice::<Settings>(data)`. Its error may be of any type that becomes a
    /// `Box<dyn Error>`, such as a text. The error is logged at `warn`, so it should not repeat secrets. A panic of `decode` ends the
    /// config.
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
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        let decode: Decode<T> = Box::new(move |data| decode(data).map_err(Into::into));
        Ok(ConfigBuilder { client: client.clone(), path: client.resolve(path)?, decode, if_absent: IfAbsent::KeepLast })
    }
}

impl<T: Send + Sync + 'static> ConfigBuilder<T> {
    /// Sets what happens while the node does not exist. Defaults to [`IfAbsent::KeepLast`].
    pub fn if_absent(mut self, if_absent: IfAbsent<T>) -> Self {
        self.if_absent = if_absent;
        self
    }

    /// Reads the first value, and follows the node from then on. One request if the node exists.
    ///
    /// It waits for a connection, however long that takes, and for the node, if [`IfAbsent`] says so: see
    /// [`open_timeout`](Self::open_timeout).
    ///
    /// # Errors
    ///
    /// - [`ConfigError::Invalid`] if the decoder refuses the data: there is no good value to keep.
    /// - [`ConfigError::Absent`] with [`IfAbsent::Fail`].
    /// - [`ConfigError::Client`]: one that no retry can help, such as a missing permission, or
    ///   [`Closed`](curator_client::Error::Closed). Once the config is open, such errors are a
    ///   [status](super::ConfigStatus::Unreadable), and reads go on.
    /// - [`ConfigError::Panicked`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is left behind when the future is dropped: no task, and no watch.
    pub async fn open(self) -> Result<Config<T>, ConfigError> {
        self.open_within(None).await
    }

    /// As [`open`](Self::open), for at most this long. Zero looks once, and retries nothing.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open). When the time is up, [`ConfigError::Absent`] if there is no node, or
    /// [`ConfigError::TimedOut`] with what was missing.
    ///
    /// # Cancel safety
    ///
    /// The same as [`open`](Self::open).
    pub async fn open_timeout(self, timeout: Duration) -> Result<Config<T>, ConfigError> {
        self.open_within(Some(timeout)).await
    }

    /// Begins with `initial`, and follows the node from now on: for a service that can run without its settings. Waits for nothing,
    /// and works before there is a connection.
    ///
    /// The value is `initial` until the node was read with data that the decoder accepts; until then the
    /// [status](Config::status) is [`Stale`](super::ConfigStatus::Stale), or says what is wrong: [`Absent`](super::ConfigStatus::Absent),
    /// [`Invalid`](super::ConfigStatus::Invalid) or [`Unreadable`](super::ConfigStatus::Unreadable).
    pub fn start(self, initial: T) -> Config<T> {
        spawned(self.following(), Arc::new(initial))
    }

    fn following(self) -> Follower<Following<T>> {
        let Self { client, path, decode, if_absent } = self;
        let decoder = Decoder::new(client.name(), path.clone(), decode, if_absent);
        Follower::new(&client, Following::new(&client, path, decoder))
    }

    async fn open_within(self, timeout: Option<Duration>) -> Result<Config<T>, ConfigError> {
        let (client, path, mut following) = (self.client.clone(), self.path.clone(), self.following());
        let once = timeout == Some(Duration::ZERO);
        let limit = timeout.filter(|_| !once).map_or(Deadline::NEVER, Deadline::after);
        let first = tokio::select! {
            biased;
            error = client.closing() => Err(error.into()),
            first = AssertUnwindSafe(first(&mut following, once)).catch_unwind() => {
                first.unwrap_or_else(|panic| Err(ConfigError::panicked(path, panic_message(panic))))
            }
            () = client.sleep_until(limit) => {
                Err(following.node.no_value(timeout.unwrap_or_default()))
            }
        };
        Ok(spawned(following, first?))
    }
}

fn spawned<T: Send + Sync + 'static>(mut following: Follower<Following<T>>, value: Arc<T>) -> Config<T> {
    let node = &mut following.node;
    node.is_open = true;
    let (client, path, status) = (node.client.clone(), node.path.clone(), node.status.reported.subscribe());
    let (values, current) = watch::channel(value);
    let task = RecipeTask::start(&client, path.clone(), follow(following, values));
    Config { client, path, values: current, status, task }
}
