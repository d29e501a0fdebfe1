//! The settings of a service: the data of one node, decoded, and kept up to date.

mod builder;
mod decoder;
mod error;
mod following;
mod status;

use std::sync::Arc;

use curator_client::ZPath;
use curator_client::source::watch;

pub use self::builder::ConfigBuilder;
pub use self::decoder::IfAbsent;
pub use self::error::ConfigError;
pub use self::status::ConfigStatus;
use crate::debug::debug_line;
use crate::engine::task::RecipeTask;
use crate::latest::Latest;

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
/// - *Only new values are signalled*: not a write of the same bytes, not a lost connection, and not
///   invalid data, even if the last valid data is written again after it.
///
/// # Caveats
///
/// The value is that of the connected server at the last read: another process may have a newer
/// one. Without a connection, the value stays, and the status is [`Stale`](ConfigStatus::Stale).
///
/// If the permission to read the node is withdrawn, most servers send no more events of it: the
/// config becomes [`Unreadable`](ConfigStatus::Unreadable) only at its next connection.
///
/// If the ensemble is restored from an old backup, the config takes over the older data at its next
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

    /// The value, and its changes. The first [`changed`](Latest::changed) of each result returns
    /// immediately if the value has changed since [`open`](ConfigBuilder::open).
    ///
    /// When the client closes, and in a forked child, the last value no longer changes.
    #[must_use]
    pub fn values(&self) -> Latest<Arc<T>> {
        Latest::new(&self.values)
    }

    /// The status and its changes: whether the value is that of the node, and if not, why. A new
    /// value is in [`values`](Self::values) before the status becomes
    /// [`Current`](ConfigStatus::Current), and is signalled after it.
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
