//! A session that sets only recursive watches, and no one-shot watches.

use super::Session;
use crate::error::{Error, Result};
use crate::link::RecursiveWatch;
use crate::operation::{ReadOperation, ReadResult, TransactionOperation};
use crate::path::ZPath;
use crate::server_operations::ServerOperation;

/// The session of a [`WatchingClient`](crate::WatchingClient). Clones are handles to the same
/// session.
///
/// It has no one-shot watches: on servers older than 3.9, a one-shot watch ends a recursive one on
/// the same path (ZOOKEEPER-4466), and `zookeeper-client` is not safe with both. It wraps a
/// [`Session`], and exposes only the requests below.
#[derive(Debug, Clone)]
pub struct WatchingSession {
    session: Session,
}

/// The name of the request for a watch in errors.
const WATCH: &str = "watch the tree at";

impl WatchingSession {
    pub(crate) fn new(session: Session) -> Self {
        Self { session }
    }

    /// Sets a watch on a node and everything below it; the node need not exist. First waits until
    /// no other watch of the session is being set or removed. Needs a server with
    /// [`addWatch`](ServerOperation::AddWatch).
    ///
    /// Sends one request, and one more before it if a watch was removed since the last confirmed
    /// request.
    ///
    /// # Errors
    ///
    /// [`Unimplemented`](crate::Error::Unimplemented) when the server has no recursive watches, in
    /// which case nothing may have been sent; errors of the connection.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the watch may be set.
    /// [`remove_dropped_watches`](Self::remove_dropped_watches) removes it, and so does the next
    /// call that sets a watch, before it sets its own.
    pub async fn watch_recursive(&self, path: &ZPath) -> Result<RecursiveWatch> {
        let needed = ServerOperation::AddWatch;
        if self.session.lacks(needed) {
            return Err(self.session.unimplemented(WATCH, path, needed));
        }
        let watch = self.set(path).await;
        watch.map_err(|error| self.session.lacking(needed, error))
    }

    async fn set(&self, path: &ZPath) -> Result<RecursiveWatch> {
        #[cfg(feature = "zookeeper-client")]
        {
            let removals = &self.session.inner.removals;
            let permit = removals.set_permit().await;
            permit.settle(|| self.sync(path)).await?;
            let watch = self
                .session
                .send(WATCH, path, |link| link.watch_recursive(path, removals))
                .await;
            if matches!(watch, Err(Error::OperationTimeout { .. })) {
                removals.abandon_requests();
            }
            watch
        }
        #[cfg(not(feature = "zookeeper-client"))]
        self.session
            .send(WATCH, path, |link| link.watch_recursive(path))
            .await
    }

    /// Waits until the dropped watches are removed from the server, or `limit` completes. With
    /// `zookeeper-client`, if a dropped watch may then still be set, because its request is not
    /// answered, the connection of that request is closed, which removes the watch. With
    /// `Transport::Native`, the watch is removed as soon as its request is answered.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the next removal, or the next call that sets a watch, removes the
    /// dropped watches.
    pub async fn remove_dropped_watches(&self, limit: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = self.dropped_watches_removed() => {}
            () = limit => {
                #[cfg(feature = "zookeeper-client")]
                self.session.inner.removals.abandon_requests();
            }
        }
    }

    async fn dropped_watches_removed(&self) {
        #[cfg(feature = "native")]
        {
            // Waits with the task and not with the link, which would keep the session open.
            let task = self.session.link().map(|link| link.task());
            if let Some(task) = task {
                task.recursive_watches_settled().await;
            }
        }
        #[cfg(feature = "zookeeper-client")]
        {
            let removals = &self.session.inner.removals;
            if removals
                .set_permit()
                .await
                .settle(|| self.sync(&ZPath::root()))
                .await
                .is_err()
            {
                removals.abandon_requests();
            }
        }
    }

    /// See [`Session::read_all`].
    pub fn read_all(
        &self,
        operations: Vec<ReadOperation>,
    ) -> super::Request<Vec<Result<ReadResult>>> {
        self.session.read_all(operations)
    }

    #[cfg(feature = "zookeeper-client")]
    fn sync(&self, path: &ZPath) -> super::Request<()> {
        self.session.sync(path)
    }

    /// Waits until the server has applied all changes that were confirmed before this call, in any
    /// session. Sends one request: a transaction that checks `/`, and changes nothing. A `sync` is
    /// not enough: a deposed leader answers it without a quorum.
    ///
    /// # Errors
    ///
    /// Errors of the connection.
    ///
    /// # Cancel safety
    ///
    /// Only checks: nothing is lost when the future is dropped.
    pub async fn catch_up(&self) -> Result<()> {
        let check = TransactionOperation::Check {
            path: ZPath::root(),
            version: None,
        };
        match self.session.transact(vec![check]).await {
            // A failed check is also confirmed by a quorum.
            Ok(_) | Err(Error::TransactionFailed { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The server of the current connection, or of the previous one while there is none, as the
    /// connect string names it, or the ensemble's configuration. Empty when the session has ended.
    #[must_use]
    pub fn server(&self) -> String {
        self.session.server()
    }

    /// The size of the largest request in bytes.
    #[must_use]
    pub fn max_request_size(&self) -> usize {
        self.session.inner.options.max_request_size
    }
}
