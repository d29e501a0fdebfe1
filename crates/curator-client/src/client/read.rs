//! Reads nodes, sets their data, and watches them.

use futures_util::TryFutureExt as _;

use super::CuratorClient;
use crate::error::{Error, Outcome, Result};
use crate::link::Watch;
use crate::node_path::NodePath;
use crate::operation::Stat;

impl CuratorClient {
    /// Reads a node's data and stat.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`], [`Error::NoAuth`], and those of the connection when the retry policy
    /// gives up.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn get_data(&self, path: impl NodePath) -> Result<(Vec<u8>, Stat)> {
        let path = self.resolve(path)?;
        self.retry(|session| session.get_data(&path)).await
    }

    /// Reads a node's data and stat, and sets a one-shot watch for its deletion or the next change
    /// of its data.
    ///
    /// # Errors
    ///
    /// The same as [`get_data`](Self::get_data).
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves no watch behind.
    pub async fn watch_data(&self, path: impl NodePath) -> Result<(Vec<u8>, Stat, Watch)> {
        let path = self.resolve(path)?;
        self.retry(|session| session.watch_data(&path)).await
    }

    /// Reads a node's stat; `None` if there is no such node.
    ///
    /// # Errors
    ///
    /// Those of the connection when the retry policy gives up.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn check_exists(&self, path: impl NodePath) -> Result<Option<Stat>> {
        let path = self.resolve(path)?;
        self.retry(|session| session.exists(&path)).await
    }

    /// Reads a node's stat, and sets a one-shot watch for its creation, its deletion, or the next
    /// change of its data.
    ///
    /// The node need not exist.
    ///
    /// # Errors
    ///
    /// [`Error::NoAuth`], and those of the connection.
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves no watch behind.
    pub async fn watch_exists(&self, path: impl NodePath) -> Result<(Option<Stat>, Watch)> {
        let path = self.resolve(path)?;
        self.retry(|session| session.watch_exists(&path)).await
    }

    /// Lists the names of a node's children, in no particular order.
    ///
    /// # Errors
    ///
    /// The same as [`get_data`](Self::get_data).
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn get_children(&self, path: impl NodePath) -> Result<Vec<String>> {
        let path = self.resolve(path)?;
        self.retry(|session| session.get_children(&path)).await
    }

    /// Lists the names of a node's children, and sets a one-shot watch for the next child that is
    /// created or deleted.
    ///
    /// # Errors
    ///
    /// The same as [`watch_data`](Self::watch_data).
    ///
    /// # Cancel safety
    ///
    /// A dropped future leaves no watch behind.
    pub async fn watch_children(&self, path: impl NodePath) -> Result<(Vec<String>, Watch)> {
        let path = self.resolve(path)?;
        self.retry(|session| session.watch_children(&path)).await
    }

    /// Sets a node's data; if a version is given, only if the node has that version.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`], [`Error::BadVersion`], [`Error::NoAuth`], [`Error::RequestTooLarge`], and
    /// those of the connection. With a version, an unknown outcome is [`Error::Ambiguous`] and is
    /// not retried: a second attempt could not distinguish this client's change from another
    /// client's. Without a version the call is retried, and so can overwrite what another client
    /// has written since the first attempt; if the retry fails, the error is
    /// [`Error::RetryFailed`].
    ///
    /// # Cancel safety
    ///
    /// A dropped change may still be applied.
    pub async fn set_data(
        &self,
        path: impl NodePath,
        data: impl AsRef<[u8]>,
        version: Option<i32>,
    ) -> Result<Stat> {
        let path = self.resolve(path)?;
        let data = data.as_ref();
        self.retry_write(|session| {
            let request = session.set_data(&path, data, version);
            request.map_err(|error| match (error.outcome(), version) {
                (Outcome::Unknown, Some(_)) => Error::Ambiguous {
                    path: path.clone(),
                    cause: Box::new(error),
                },
                _ => error,
            })
        })
        .await
    }

    /// Makes the connected server catch up with the leader: the next read returns the state at the
    /// time of this call, or a newer one.
    ///
    /// # Errors
    ///
    /// Those of the connection when the retry policy gives up.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn sync(&self, path: impl NodePath) -> Result<()> {
        let path = self.resolve(path)?;
        self.retry(|session| session.sync(&path)).await
    }
}
