//! The client's operations on one node, and the loop that retries them. `create.rs` has the
//! creates.

use std::future::Future;

use futures_util::TryFutureExt as _;

use super::CuratorClient;
use crate::acl::Acl;
use crate::error::{Error, Outcome, Result, SessionEnd};
use crate::janitor::delete_tree;
use crate::link::Watch;
use crate::operation::Stat;
use crate::path::NodePath;
use crate::session::Session;

impl CuratorClient {
    /// Runs `operation` on the current session until it succeeds, fails with an error that cannot
    /// be retried, or this client's policy allows no further attempt.
    ///
    /// This is the loop behind every operation of this client. Each attempt first waits for a
    /// connection, no longer than the connection timeout.
    ///
    /// Use it for reads, and for operations whose error is not retryable if their outcome is
    /// unknown. For other operations, use [`retry_write`](Self::retry_write).
    ///
    /// # Errors
    ///
    /// The last error of `operation`, or [`Error::NotConnected`](crate::Error::NotConnected).
    ///
    /// # Cancel safety
    ///
    /// The same as for `operation`.
    // Not an `AsyncFnMut`: its futures cannot be shown to be `Send` (rust-lang/rust issue 100013).
    pub async fn retry<T, F: Future<Output = Result<T>>>(
        &self,
        operation: impl FnMut(Session) -> F,
    ) -> Result<T> {
        self.retry_recording(&mut MaybeApplied::default(), operation)
            .await
    }

    /// Like [`retry`](Self::retry), but for an operation that can be repeated after an unknown
    /// outcome, because applying it twice does no harm.
    ///
    /// # Errors
    ///
    /// [`Error::RetryFailed`] if the last attempt was not applied, but an earlier one may have
    /// been. Otherwise the same as [`retry`](Self::retry).
    ///
    /// # Cancel safety
    ///
    /// The same as for `operation`.
    pub async fn retry_write<T, F: Future<Output = Result<T>>>(
        &self,
        operation: impl FnMut(Session) -> F,
    ) -> Result<T> {
        let mut maybe_applied = MaybeApplied::default();
        self.retry_recording(&mut maybe_applied, operation)
            .await
            .map_err(|error| maybe_applied.explain(error))
    }

    /// Like [`retry`](Self::retry), and records whether an attempt may have been applied.
    pub(super) async fn retry_recording<T, F: Future<Output = Result<T>>>(
        &self,
        maybe_applied: &mut MaybeApplied,
        mut operation: impl FnMut(Session) -> F,
    ) -> Result<T> {
        let mut retrier = self.retrier();
        loop {
            let result = match self.session().await {
                Ok(session) => operation(session).await,
                Err(error) => Err(error),
            };
            match result {
                Ok(value) => return Ok(value),
                Err(error) => {
                    maybe_applied.record(&error);
                    retrier.pause(error).await?;
                }
            }
        }
    }

    /// Like [`retry`](Self::retry), but only in `session`: when the session ends, so do the
    /// retries, even during a pause.
    ///
    /// `ended` makes the error that is returned when the session ends before an attempt or during a
    /// pause. An error that cannot be retried is returned unchanged.
    pub(super) async fn retry_in<T, F: Future<Output = Result<T>>>(
        &self,
        session: &Session,
        ended: impl Fn(SessionEnd) -> Error,
        mut operation: impl FnMut() -> F,
    ) -> Result<T> {
        let mut retrier = self.retrier();
        loop {
            let error = match self.inner.sessions.connection_of(session).await {
                Ok(Err(end)) => return Err(ended(end)),
                Ok(Ok(())) => match operation().await {
                    Ok(value) => return Ok(value),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if !error.is_retryable() {
                return Err(error);
            }
            tokio::select! {
                biased;
                end = session.ended() => return Err(ended(end)),
                paused = retrier.pause(error) => paused?,
            }
        }
    }
}

/// The error of the last attempt that may have been applied, if there is one.
#[derive(Default)]
pub(super) struct MaybeApplied(Option<Error>);

impl MaybeApplied {
    /// Records an attempt that failed with `error`.
    pub(super) fn record(&mut self, error: &Error) {
        if error.outcome() == Outcome::Unknown {
            self.0 = Some(error.clone());
        }
    }

    pub(super) fn exists(&self) -> bool {
        self.0.is_some()
    }

    /// The error of an operation whose last attempt failed with `error`: its outcome is unknown if
    /// any attempt may have been applied.
    pub(super) fn explain(self, error: Error) -> Error {
        match self.0 {
            Some(in_doubt) if error.outcome() == Outcome::NotApplied => Error::RetryFailed {
                in_doubt: Box::new(in_doubt),
                cause: Box::new(error),
            },
            _ => error,
        }
    }
}

impl CuratorClient {
    /// Reads a node's data and stat.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`], [`Error::NoAuth`], and errors of the connection when the retry policy
    /// allows no further attempt.
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
    /// Errors of the connection when the retry policy allows no further attempt.
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
    /// [`Error::NoAuth`], and errors of the connection.
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
    /// errors of the connection. With a version, an unknown outcome is [`Error::Ambiguous`] and is
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
            request.map_err(|error| match version {
                Some(_) => error.of_unrepeatable(&path),
                None => error,
            })
        })
        .await
    }

    /// Makes the connected server catch up with the leader: the next read returns the state at the
    /// time of this call, or a newer one.
    ///
    /// # Errors
    ///
    /// Errors of the connection when the retry policy allows no further attempt.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn sync(&self, path: impl NodePath) -> Result<()> {
        let path = self.resolve(path)?;
        self.retry(|session| session.sync(&path)).await
    }
}

impl CuratorClient {
    /// Reads a node's ACL and stat. Curator's `getACL`.
    ///
    /// Servers hide the hash of a digest identity from readers without the permission `ADMIN`.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`], [`Error::NoAuth`], and errors of the connection when the retry policy
    /// allows no further attempt.
    ///
    /// # Cancel safety
    ///
    /// Only reads: nothing is lost when the future is dropped.
    pub async fn get_acl(&self, path: impl NodePath) -> Result<(Vec<Acl>, Stat)> {
        let path = self.resolve(path)?;
        self.retry(|session| session.get_acl(&path)).await
    }

    /// Sets a node's ACL; if a version is given, only if its ACL has that version (`aversion` in
    /// the stat). Curator's `setACL`.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`], [`Error::BadVersion`], [`Error::NoAuth`], [`Error::InvalidAcl`] when the
    /// server does not accept the ACL, [`Error::RequestTooLarge`], and errors of the connection.
    /// With a version, an unknown outcome is [`Error::Ambiguous`] and is not retried: a second
    /// attempt could not distinguish this client's change from another client's. Without a version
    /// the call is retried, and so can overwrite what another client has set since the first
    /// attempt; if the retry fails, the error is [`Error::RetryFailed`]. For example, the retry
    /// after a lost reply fails if the new ACL denies `ADMIN` to this client.
    ///
    /// # Cancel safety
    ///
    /// A dropped change may still be applied.
    pub async fn set_acl(
        &self,
        path: impl NodePath,
        acl: impl AsRef<[Acl]>,
        version: Option<i32>,
    ) -> Result<Stat> {
        let path = self.resolve(path)?;
        let acl = acl.as_ref();
        self.retry_write(|session| {
            let request = session.set_acl(&path, acl, version);
            request.map_err(|error| match version {
                Some(_) => error.of_unrepeatable(&path),
                None => error,
            })
        })
        .await
    }
}

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
    /// [`Error::NoNode`], [`Error::NotEmpty`], [`Error::BadVersion`], [`Error::NoAuth`], and errors
    /// of the connection. A node that is gone after an attempt whose reply was lost counts as
    /// deleted; another error after such an attempt is the cause of an [`Error::RetryFailed`]. An
    /// error about a node below the node names the lower node; other nodes may already be deleted.
    ///
    /// # Cancel safety
    ///
    /// A dropped delete may still be applied; a guaranteed one will be. A delete with children that
    /// is not guaranteed stops midway, and the node itself still exists.
    pub async fn for_path(self, path: impl NodePath) -> Result<()> {
        let path = self.client.resolve(path)?;
        let version = self.version;
        let children = self.children;
        let promise = (self.guaranteed && version.is_none())
            .then(|| self.client.janitor().promise(&path, children));
        let path = &path;
        let mut maybe_applied = MaybeApplied::default();
        let result = self
            .client
            .retry_recording(&mut maybe_applied, |session| async move {
                if children {
                    // Boxed, so that the caller's future that contains this one stays small.
                    Box::pin(delete_tree(&session, path, version)).await
                } else {
                    session.delete(path, version).await
                }
            })
            .await;
        let result = match result {
            Err(Error::NoNode { .. }) if maybe_applied.exists() => Ok(()),
            result => result,
        };
        // Dropping the promise, on a connection error or with this future, hands the delete to the
        // janitor.
        let janitor_continues =
            matches!(&result, Err(error) if error.is_retryable() || matches!(error, Error::Closed));
        if let Some(promise) = promise
            && !janitor_continues
        {
            promise.settled();
        }
        result.map_err(|error| maybe_applied.explain(error))
    }
}
