//! Deleting nodes.

use crate::client::CuratorClient;
use crate::error::{Error, Outcome, Result};
use crate::retry::retry;

/// Deletes a node; made by [`CuratorClient::delete`], after Curator's `DeleteBuilder`.
#[derive(Debug, Clone)]
#[must_use = "nothing is deleted before `for_path` is awaited"]
pub struct DeleteBuilder {
    client: CuratorClient,
    version: Option<i32>,
    guaranteed: bool,
}

impl DeleteBuilder {
    pub(crate) fn new(client: &CuratorClient) -> Self {
        Self { client: client.clone(), version: None, guaranteed: false }
    }

    /// Only if the node has this version.
    pub fn with_version(mut self, version: i32) -> Self {
        self.version = Some(version);
        self
    }

    /// If the connection fails, the client goes on trying in the background until the node is gone.
    ///
    /// See [`CuratorClient::janitor`] for what is still pending. With a version, only the foreground tries.
    pub fn guaranteed(mut self) -> Self {
        self.guaranteed = true;
        self
    }

    /// Deletes the node.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`], [`Error::NotEmpty`], [`Error::BadVersion`], [`Error::NoAuth`], and those of the connection.
    /// That the node is gone after a try whose answer was lost counts as success.
    ///
    /// # Cancel safety
    ///
    /// A dropped delete may still be applied; a guaranteed one will be.
    pub async fn for_path(self, path: impl AsRef<str>) -> Result<()> {
        let core = self.client.core();
        let path = self.client.resolve(path)?;
        let guarantee = Guarantee {
            client: &self.client,
            path: &path,
            armed: self.guaranteed && self.version.is_none(),
        };
        let mut in_doubt = false;
        let result = retry(core, async |session| {
            let result = session.delete(&path, self.version).await;
            match result {
                Err(Error::NoNode { .. }) if in_doubt => Ok(()),
                Err(error) => {
                    in_doubt |= error.outcome() == Outcome::Unknown;
                    Err(error)
                }
                Ok(()) => Ok(()),
            }
        })
        .await;
        match &result {
            Err(error) if error.is_retryable() => {}
            _ => guarantee.disarm(),
        }
        result
    }
}

/// Dropped while armed (an error of the connection, or a cancelled future), it hands the delete to the janitor.
struct Guarantee<'a> {
    client: &'a CuratorClient,
    path: &'a crate::ZPath,
    armed: bool,
}

impl Guarantee<'_> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Guarantee<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.client.core().janitor.delete(self.path);
        }
    }
}
