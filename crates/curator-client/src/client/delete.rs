//! Deleting nodes.

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::TryFutureExt as _;

use super::CuratorClient;
use crate::error::{Error, Outcome, Result};
use crate::node_path::NodePath;

/// Deletes a node; made by [`CuratorClient::delete`], after Curator's `DeleteBuilder`.
#[derive(Debug, Clone)]
#[must_use = "nothing is deleted before `for_path` is awaited"]
pub struct DeleteBuilder {
    client: CuratorClient,
    version: Option<i32>,
    guaranteed: bool,
}

impl DeleteBuilder {
    pub(super) fn new(client: &CuratorClient) -> Self {
        Self { client: client.clone(), version: None, guaranteed: false }
    }

    /// Deletes the node only if it has this version.
    pub fn with_version(mut self, version: i32) -> Self {
        self.version = Some(version);
        self
    }

    /// Keeps trying in the background until the node is gone, if the connection fails.
    ///
    /// See [`CuratorClient::janitor`] for what is still pending. With a version, there are no attempts in the
    /// background.
    pub fn guaranteed(mut self) -> Self {
        self.guaranteed = true;
        self
    }

    /// Deletes the node.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`], [`Error::NotEmpty`], [`Error::BadVersion`], [`Error::NoAuth`], and those of the connection. If
    /// the node is gone after an attempt whose answer was lost, that counts as success.
    ///
    /// # Cancel safety
    ///
    /// A dropped delete may still be applied; a guaranteed one will be.
    pub async fn for_path(self, path: impl NodePath) -> Result<()> {
        let path = self.client.resolve(path)?;
        let promise = (self.guaranteed && self.version.is_none()).then(|| self.client.janitor().promise(&path));
        let in_doubt = AtomicBool::new(false);
        let result = self
            .client
            .retry(|session| {
                session.delete(&path, self.version).or_else(|error| {
                    let was_in_doubt = in_doubt.fetch_or(error.outcome() == Outcome::Unknown, Ordering::Relaxed);
                    let gone = was_in_doubt && matches!(error, Error::NoNode { .. });
                    ready(if gone { Ok(()) } else { Err(error) })
                })
            })
            .await;
        // If the promise is dropped, because of a connection error or with this future, the janitor does the delete.
        let is_left_open = matches!(&result, Err(error) if error.is_retryable() || matches!(error, Error::Closed));
        if let Some(promise) = promise.filter(|_| !is_left_open) {
            promise.settled();
        }
        result
    }
}
