//! Deletes nodes, optionally with their children.

use super::CuratorClient;
use super::operations::MaybeApplied;
use crate::error::{Error, Result};
use crate::node::tree::delete_tree;
use crate::path::NodePath;

/// Deletes a node; made by [`CuratorClient::delete`], after Curator's `DeleteBuilder`.
#[derive(Debug, Clone)]
#[must_use = "nothing is deleted before `for_path` is awaited"]
pub struct DeleteBuilder {
    client: CuratorClient,
    version: Option<i32>,
    guaranteed: bool,
    children: bool,
}

impl DeleteBuilder {
    pub(super) fn new(client: &CuratorClient) -> Self {
        Self {
            client: client.clone(),
            version: None,
            guaranteed: false,
            children: false,
        }
    }

    /// Deletes the node only if it has this version.
    pub fn with_version(mut self, version: i32) -> Self {
        self.version = Some(version);
        self
    }

    /// Also deletes everything below the node. Curator's `deletingChildrenIfNeeded`.
    ///
    /// The deletes are separate requests: children are deleted before their parents, and the node
    /// itself last. Nodes that other clients delete meanwhile are skipped, and nodes that other
    /// clients create meanwhile are deleted too. If clients keep creating nodes, the delete ends
    /// with [`Error::NotEmpty`]. A node without children takes one request. The paths of all nodes
    /// below it are kept in memory.
    ///
    /// A version applies only to the node itself. The server checks it before any node is deleted.
    /// If the node changes after this check, the node stays, without its children.
    pub fn deleting_children_if_needed(mut self) -> Self {
        self.children = true;
        self
    }

    /// If the connection fails, keeps trying in the background until the node is gone.
    ///
    /// [`CuratorClient::janitor`] lists the pending deletes. With a version, there are no attempts
    /// in the background.
    pub fn guaranteed(mut self) -> Self {
        self.guaranteed = true;
        self
    }

    /// Deletes the node.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`], [`Error::NotEmpty`], [`Error::BadVersion`], [`Error::NoAuth`], and those
    /// of the connection. A node that is gone after an attempt whose reply was lost counts as
    /// deleted; another error after such an attempt is the cause of an [`Error::RetryFailed`]. An
    /// error about a node below the node names the lower node; other nodes may already be deleted.
    ///
    /// # Cancel safety
    ///
    /// A dropped delete may still be applied; a guaranteed one will be. A delete with children
    /// stops midway, unless it is guaranteed: the node itself then still exists.
    pub async fn for_path(self, path: impl NodePath) -> Result<()> {
        let path = self.client.resolve(path)?;
        let version = self.version;
        let children = self.children;
        let promise = (self.guaranteed && version.is_none())
            .then(|| self.client.janitor().promise(&path, children));
        let path = &path;
        let mut maybe_applied = MaybeApplied::default();
        let attempts = self
            .client
            .retry_recording(&mut maybe_applied, |session| async move {
                match children {
                    // Boxed, so that the caller's future that contains this one stays small.
                    true => Box::pin(delete_tree(&session, path, version)).await,
                    false => session.delete(path, version).await,
                }
            });
        let result = match attempts.await {
            Err(Error::NoNode { .. }) if maybe_applied.exists() => Ok(()),
            result => result,
        };
        // Dropping the promise, on a connection error or with this future, hands the delete to the
        // janitor.
        let janitor_continues =
            matches!(&result, Err(error) if error.is_retryable() || matches!(error, Error::Closed));
        if let Some(promise) = promise.filter(|_| !janitor_continues) {
            promise.settled();
        }
        result.map_err(|error| maybe_applied.explain(error))
    }
}
