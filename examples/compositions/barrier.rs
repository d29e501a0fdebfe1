//! A node that stops all who wait at it, until it is removed. Curator's `DistributedBarrier`.

use curator_recipes::client::{CuratorClient, Error, NodePath, Result, ZPath};

/// A barrier for any number of waiters. Each method reads or writes one node.
#[derive(Debug, Clone)]
pub struct DistributedBarrier {
    client: CuratorClient,
    path: ZPath,
}

impl DistributedBarrier {
    /// A handle to the barrier at `path`. Sends nothing.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidPath`].
    pub fn new(client: &CuratorClient, path: impl NodePath) -> Result<Self> {
        Ok(Self {
            path: client.resolve(path)?,
            client: client.clone(),
        })
    }

    /// Sets the barrier. It stays set when this process ends.
    ///
    /// # Errors
    ///
    /// Errors of the connection, and [`Error::NoAuth`].
    ///
    /// # Cancel safety
    ///
    /// A dropped call may still be applied.
    pub async fn set(&self) -> Result<()> {
        let create = self.client.create().creating_parent_containers();
        let data = self.client.default_lock_data();
        create.or_set_data().for_path(&self.path, data).await?;
        Ok(())
    }

    /// Removes the barrier, if it is set: all who wait continue.
    ///
    /// # Errors
    ///
    /// The same as [`set`](Self::set).
    ///
    /// # Cancel safety
    ///
    /// A dropped call may still be applied.
    pub async fn remove(&self) -> Result<()> {
        match self.client.delete().for_path(&self.path).await {
            Err(Error::NoNode { .. }) => Ok(()),
            removed => removed,
        }
    }

    /// Waits until the barrier is not set. If it is removed and set again at once, a waiter may see
    /// only the latter.
    ///
    /// # Errors
    ///
    /// The error of a read, after the retries of the client's policy: an outage may end the wait.
    /// [`Error::Closed`] when the client closes.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped: put it into `tokio::time::timeout`.
    pub async fn wait(&self) -> Result<()> {
        loop {
            let (stat, mut changed) = self.client.watch_exists(&self.path).await?;
            if stat.is_none() {
                return Ok(());
            }
            tokio::select! {
                biased;
                error = self.client.closing() => return Err(error),
                _ = changed.fired() => {}
            }
        }
    }
}
