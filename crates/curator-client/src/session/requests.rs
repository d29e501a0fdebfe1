//! The requests of a session: sent by the call, and answered in order.

use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{OptionFuture, join, join_all};
use futures_util::{FutureExt as _, TryFutureExt as _};

use super::Session;
use super::turns::HoldUntilWoken;
use crate::acl::Acl;
use crate::error::{Error, Outcome, Result, SessionEnd};
use crate::link::{Link, Watch};
use crate::operation::{
    Created, MULTI_READ, NodeSpec, REQUEST_FRAMING, ReadOperation, ReadResult, Stat, TRANSACTION,
    TransactionOperation, TransactionResult, size_of_acl,
};
use crate::path::ZPath;
use crate::server_operations::ServerOperation;
use crate::source::watch;
use crate::text::Truncated;
use crate::time::ClockInstant;
use crate::transport::{Answer, ConfirmedBy, translate};

/// The reply to a request that has been sent.
///
/// # Cancel safety
///
/// Dropping a `Request` does not cancel the request: only its reply is lost. A `Request` that is
/// neither awaited nor dropped keeps its session open on the server, even when the client is
/// closed.
#[must_use = "the request is sent, but only its reply shows whether it succeeded"]
pub struct Request<T> {
    answer: Pin<Box<dyn Future<Output = Result<T>> + Send>>,
}

impl<T> Future for Request<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.answer.as_mut().poll(cx)
    }
}

impl<T> std::fmt::Debug for Request<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Request")
    }
}

impl<T: Send + 'static> Request<T> {
    fn failed(error: Error) -> Self {
        Self {
            answer: Box::pin(ready(Err(error))),
        }
    }

    fn answered(answer: T) -> Self {
        Self {
            answer: Box::pin(ready(Ok(answer))),
        }
    }

    fn map<U>(self, f: impl FnOnce(T) -> Result<U> + Send + 'static) -> Request<U> {
        self.map_result(|answer| f(answer?))
    }

    fn map_result<U>(self, f: impl FnOnce(Result<T>) -> Result<U> + Send + 'static) -> Request<U> {
        Request {
            answer: Box::pin(self.answer.map(f)),
        }
    }
}

impl Session {
    /// Creates a node.
    pub fn create(&self, node: &NodeSpec) -> Request<Created> {
        const NAME: &str = "create";
        let path = node.path.clone();
        let needed = ServerOperation::of_create(node.mode);
        // The link has a substitute for `create2`.
        if needed != ServerOperation::Create2 && self.lacks(needed) {
            return Request::failed(self.unimplemented(NAME, &path, needed));
        }
        let session = self.clone();
        self.send_sized(NAME, &node.path, node.size(), |link| link.create(node))
            .map_result(move |created| {
                let created = created.map_err(|error| session.lacking(needed, error))?;
                let (stat, sequence) = created?;
                let path = match sequence {
                    None => path,
                    Some(sequence) => numbered(NAME, &path, sequence)?,
                };
                Ok(Created { path, stat })
            })
    }

    /// Deletes a node; if a version is given, only if the node has that version.
    pub fn delete(&self, path: &ZPath, version: Option<i32>) -> Request<()> {
        self.send("delete", path, |link| link.delete(path, version))
    }

    /// Reads a node's data and stat.
    pub fn get_data(&self, path: &ZPath) -> Request<(Vec<u8>, Stat)> {
        self.send("get data of", path, |link| link.get_data(path))
    }

    /// Reads a node's data and stat, and sets a watch for its deletion or the next change of its
    /// data.
    ///
    /// No watch is set on a node that does not exist: `NoNode` leaves no watch on the server.
    pub fn watch_data(&self, path: &ZPath) -> Request<(Vec<u8>, Stat, Watch)> {
        self.send("watch data of", path, |link| link.watch_data(path))
    }

    /// Reads a node's stat; `None` if there is no such node.
    pub fn exists(&self, path: &ZPath) -> Request<Option<Stat>> {
        self.send("look for", path, |link| link.exists(path))
    }

    /// Reads a node's stat, and sets a watch for its creation, its deletion, or the next change of
    /// its data.
    ///
    /// The node need not exist.
    pub fn watch_exists(&self, path: &ZPath) -> Request<(Option<Stat>, Watch)> {
        self.send("watch", path, |link| link.watch_exists(path))
    }

    /// Lists the names of a node's children, in no particular order.
    pub fn get_children(&self, path: &ZPath) -> Request<Vec<String>> {
        self.send("list", path, |link| link.get_children(path))
    }

    /// Lists the names of a node's children, and sets a watch for the next child that is created or
    /// deleted.
    pub fn watch_children(&self, path: &ZPath) -> Request<(Vec<String>, Watch)> {
        self.send("watch children of", path, |link| link.watch_children(path))
    }

    /// Sets a node's data; if a version is given, only if the node has that version.
    pub fn set_data(&self, path: &ZPath, data: &[u8], version: Option<i32>) -> Request<Stat> {
        let size = path.as_str().len() + data.len() + REQUEST_FRAMING;
        self.send_sized("set data of", path, size, |link| {
            link.set_data(path, data, version)
        })
    }

    /// Reads a node's ACL and stat.
    pub fn get_acl(&self, path: &ZPath) -> Request<(Vec<Acl>, Stat)> {
        self.send("get the ACL of", path, |link| link.get_acl(path))
    }

    /// Sets a node's ACL; if a version is given, only if its ACL has that version (`aversion` in
    /// the stat).
    pub fn set_acl(&self, path: &ZPath, acl: &[Acl], version: Option<i32>) -> Request<Stat> {
        let size = path.as_str().len() + size_of_acl(acl) + REQUEST_FRAMING;
        self.send_sized("set the ACL of", path, size, |link| {
            link.set_acl(path, acl, version)
        })
    }

    /// Makes the connected server catch up with the leader.
    pub fn sync(&self, path: &ZPath) -> Request<()> {
        self.send("sync", path, |link| link.sync(path))
    }

    /// Applies all the operations, or none of them (ZooKeeper's `multi`). The results are in the
    /// order of the operations.
    ///
    /// # Errors
    ///
    /// [`Error::TransactionFailed`] names the operation that failed; nothing was applied.
    /// [`Error::RequestTooLarge`] refers to all operations together. [`Error::StatUnknown`] can
    /// occur with servers that do not return the stats of new nodes.
    ///
    /// # Caveats
    ///
    /// Servers older than 3.7.2, and 3.8.0 to 3.8.1, do not return the stats of new nodes. If the
    /// rest of the reply does not contain the transaction's zxid either, the client then reads the
    /// stat of one new ephemeral node, or, if there is none, the stats of all new nodes, in one
    /// more round trip. See [`Transaction::commit`](crate::Transaction::commit).
    pub fn transact(
        &self,
        operations: Vec<TransactionOperation>,
    ) -> Request<Vec<TransactionResult>> {
        let path = operations
            .first()
            .map_or_else(ZPath::root, |operation| operation.path().clone());
        let needed: Vec<_> = operations.iter().map(ServerOperation::of_part).collect();
        for (index, operation) in operations.iter().enumerate() {
            // The link has a substitute for `create2`.
            if let Some(needed) = needed[index]
                && needed != ServerOperation::Create2
                && self.lacks(needed)
            {
                let cause = self.unimplemented(operation.name(), operation.path(), needed);
                return Request::failed(Error::TransactionFailed {
                    index,
                    cause: Box::new(cause),
                });
            }
        }
        let size = operations.iter().map(TransactionOperation::size).sum();
        let session = self.clone();
        self.send_sized(TRANSACTION, &path, size, |link| link.transact(operations))
            // The reply contains a `Result`, which becomes the result of the request.
            .map_result(move |results| {
                results
                    .and_then(std::convert::identity)
                    .map_err(|error| session.lacking_in_transaction(&needed, error))
            })
    }

    /// Checks that a transaction of these operations does not exceed the limit of a request.
    ///
    /// # Errors
    ///
    /// [`Error::RequestTooLarge`].
    pub fn check_size(&self, operations: &[TransactionOperation]) -> Result<()> {
        let size = operations.iter().map(TransactionOperation::size).sum();
        let limit = self.inner.options.max_request_size;
        if size <= limit {
            return Ok(());
        }
        let path = operations
            .first()
            .map_or_else(ZPath::root, |operation| operation.path().clone());
        Err(Error::RequestTooLarge {
            operation: TRANSACTION,
            path,
            size,
            limit,
        })
    }

    /// Deletes all the nodes, whatever their versions, or none of them.
    pub(crate) fn delete_all(&self, paths: &[ZPath]) -> Request<()> {
        self.transact(
            paths
                .iter()
                .map(|path: &ZPath| TransactionOperation::Delete {
                    path: path.clone(),
                    version: None,
                })
                .collect(),
        )
        .map(|_| Ok(()))
    }

    /// Performs several reads in one request (ZooKeeper's `multiRead`). If the server is known to
    /// lack `multiRead`, sends several requests at once, which together count as one [request in
    /// flight](crate::CuratorClientBuilder::max_requests_in_flight).
    ///
    /// Each operation has its own result, in the order of the operations: one that fails, for
    /// example with [`Error::NoNode`], does not affect the others. Without operations, nothing is
    /// sent.
    ///
    /// # Errors
    ///
    /// Errors of the whole request, for example that its reply was lost.
    /// [`Error::RequestTooLarge`] refers to all operations together. A server of ZooKeeper older
    /// than 3.6 closes the connection at the first such request of a session, which then fails with
    /// [`Error::ConnectionLost`]; later ones are sent as several requests.
    ///
    /// # Caveats
    ///
    /// ZooKeeper does not guarantee that all reads see the same state.
    pub fn read_all(&self, operations: Vec<ReadOperation>) -> Request<Vec<Result<ReadResult>>> {
        let Some(first) = operations.first() else {
            return Request::answered(Vec::new());
        };
        let path = first.path().clone();
        let size = operations.iter().map(ReadOperation::size).sum();
        if self.lacks(ServerOperation::MultiRead) {
            return self.send_sized(MULTI_READ, &path, size, |link| read_each(link, &operations));
        }
        let session = self.clone();
        let failed_path = path.clone();
        self.send_sized(MULTI_READ, &path, size, |link| link.read_all(operations))
            // The reply contains a `Result`, which becomes the result of the request.
            .map_result(move |results| {
                results.and_then(std::convert::identity).map_err(|error| {
                    match session.lacking(ServerOperation::MultiRead, error) {
                        // The server closes the connection. The next call sends several
                        // requests.
                        error @ Error::Unimplemented { .. } => Error::ConnectionLost {
                            operation: MULTI_READ,
                            path: failed_path,
                            cause: error.to_string(),
                        },
                        error => error,
                    }
                })
            })
    }

    /// Reads the configuration of the ensemble (ZooKeeper's `getConfig`). Like a [probe](Self::probe),
    /// the request is sent without waiting for the connection to be confirmed, and does not count as
    /// a request in flight.
    pub(crate) fn get_config(&self) -> Request<(Vec<u8>, Stat)> {
        self.send_unconfirmed("get data of", |link, path| link.get_data(path))
    }

    /// Like [`get_config`](Self::get_config), and sets a watch for the next change.
    pub(crate) fn watch_config(&self) -> Request<(Vec<u8>, Stat, Watch)> {
        self.send_unconfirmed("watch data of", |link, path| link.watch_data(path))
    }

    /// Sends a request about the node with the configuration of the ensemble.
    fn send_unconfirmed<T: Send + 'static>(
        &self,
        operation: &'static str,
        call: impl FnOnce(&Link, &ZPath) -> Answer<T>,
    ) -> Request<T> {
        // On the server, outside of the chroot and the namespace. The path is valid.
        let path = ZPath::on_server("/zookeeper/config").unwrap_or_else(|_| ZPath::root());
        match self.link() {
            Some(link) => {
                let answer = link.together(|| call(&link, &path));
                self.answer_to(operation, &path, answer, self.answer_limit(), ())
            }
            None => self.fail_ended(operation, &path),
        }
    }

    /// Probes the lease with a request that only the leader can answer. A probe does not count as a
    /// request in flight, so that a busy client cannot lose its session, and the operation timeout
    /// does not apply to it. It is sent without waiting for the connection to be confirmed, because
    /// probes confirm it.
    ///
    /// Over a new connection, the [held nodes](Self::hold_node) are checked in the same pipeline,
    /// and the probe completes when they are.
    ///
    /// [`Error::InvalidAcl`] means that the server has accepted an authenticating client as
    /// anonymous.
    pub(crate) fn probe(
        &self,
    ) -> impl Future<Output = (ClockInstant, Result<ConfirmedBy>)> + Send + 'static {
        const NAME: &str = "probe";
        let root = ZPath::root();
        let sent = ClockInstant::now();
        let is_new = !*self.inner.connected.borrow();
        let (answer, check) = match self.link() {
            Some(link) => {
                // Keeps the connection for the rest of the lease, because the session is not used
                // after that; and for at least two probe intervals, because replies may be late.
                link.keep(self.inner.lease.remaining().max(2 * self.probe_interval()));
                link.together(|| {
                    let answer = self.answer_to(NAME, &root, link.probe(), self.inner.timeout, ());
                    (answer, is_new.then(|| self.check_held_nodes(&link)))
                })
            }
            None => (self.fail_ended(NAME, &root), None),
        };
        async move {
            // The check is polled even if the probe fails: it notices a server that has refused
            // `multiRead` and closed the connection.
            let result = match join(answer, OptionFuture::from(check)).await {
                (Ok(_), Some(Err(error))) => Err(error),
                (answer, _) => answer,
            };
            (sent, result)
        }
    }

    pub(super) fn send<T: Send + 'static>(
        &self,
        operation: &'static str,
        path: &ZPath,
        call: impl FnOnce(&Link) -> Answer<T>,
    ) -> Request<T> {
        self.send_sized(operation, path, path.as_str().len() + REQUEST_FRAMING, call)
    }

    /// Sends a request of about `size` bytes.
    fn send_sized<T: Send + 'static>(
        &self,
        operation: &'static str,
        path: &ZPath,
        size: usize,
        call: impl FnOnce(&Link) -> Answer<T>,
    ) -> Request<T> {
        let limit = self.inner.options.max_request_size;
        if size > limit {
            // The server would close the connection at each attempt.
            return Request::failed(Error::RequestTooLarge {
                operation,
                path: path.clone(),
                size,
                limit,
            });
        }
        let Ok(permit) = Arc::clone(&self.inner.in_flight).try_acquire_owned() else {
            let limit = self.inner.options.max_requests_in_flight;
            return Request::failed(Error::TooManyRequests {
                operation,
                path: path.clone(),
                limit,
            });
        };
        let Some(link) = self.link() else {
            return self.fail_ended(operation, path);
        };
        if !(*self.inner.connected.borrow() && link.end().is_none()) {
            return Request::failed(Error::Disconnected {
                operation,
                path: path.clone(),
            });
        }
        let options = &self.inner.options;
        let after = options
            .operation_timeout
            .unwrap_or_else(|| self.answer_limit());
        let client = &*options.name;
        tracing::trace!(client, session = format_args!("{:#x}", self.id()), operation, path = %Truncated(path), size, "request");
        let answer = link.together(|| call(&link));
        self.answer_to(operation, path, answer, after, permit)
    }

    /// The error of a request that was not sent, because the server lacks `missing`.
    pub(super) fn unimplemented(
        &self,
        operation: &'static str,
        path: &ZPath,
        missing: ServerOperation,
    ) -> Error {
        Error::Unimplemented {
            operation,
            path: path.clone(),
            missing: Some(missing),
            server: self.link().map(|link| Arc::clone(link.server())),
        }
    }

    /// Adds to the error of a request that needs `needed` what the server lacks, and remembers it.
    pub(super) fn lacking(&self, needed: ServerOperation, error: Error) -> Error {
        match error {
            Error::Unimplemented {
                operation, path, ..
            } => {
                self.inner.missing.refused(needed);
                self.unimplemented(operation, &path, needed)
            }
            error => error,
        }
    }

    /// Like [`lacking`](Self::lacking), for a transaction whose operations need `needed`.
    fn lacking_in_transaction(&self, needed: &[Option<ServerOperation>], error: Error) -> Error {
        match error {
            Error::TransactionFailed { index, cause } => {
                let cause = match needed.get(index) {
                    Some(Some(needed)) => Box::new(self.lacking(*needed, *cause)),
                    _ => cause,
                };
                Error::TransactionFailed { index, cause }
            }
            // A server that cannot read an operation refuses the whole request. The newest
            // operation is the one that it lacks.
            error => match needed.iter().flatten().max_by_key(|needed| **needed as u8) {
                Some(needed) => self.lacking(*needed, error),
                None => error,
            },
        }
    }

    /// Fails a request because the session has ended.
    fn fail_ended<T: Send + 'static>(&self, operation: &'static str, path: &ZPath) -> Request<T> {
        let end = self.end().unwrap_or(SessionEnd::Closed);
        Request::failed(Error::SessionEnded {
            operation,
            path: path.clone(),
            end,
            outcome: Outcome::NotApplied,
        })
    }

    /// Waits for the reply to a request that has been sent. Holds `permit` until the reply arrives.
    pub(super) fn answer_to<T: Send + 'static>(
        &self,
        operation: &'static str,
        path: &ZPath,
        answer: Answer<T>,
        after: Duration,
        permit: impl Send + 'static,
    ) -> Request<T> {
        let path = path.clone();
        let overdue = self.inner.timer.sleep(after);
        let mut ends = self.inner.end.subscribe();
        let mut answer = HoldUntilWoken::new(answer, permit);
        // Polled now, because the caller might not poll the future before the reply arrives.
        if let Some(answer) = (&mut answer).now_or_never() {
            return Request {
                answer: Box::pin(ready(
                    answer.map_err(|error| translate(operation, &path, error)),
                )),
            };
        }
        Request {
            answer: Box::pin(async move {
                tokio::select! {
                    biased;
                    answer = answer => answer.map_err(|error| translate(operation, &path, error)),
                    end = first_end(&mut ends) => {
                        Err(Error::SessionEnded { operation, path, end, outcome: Outcome::Unknown })
                    }
                    () = overdue => Err(Error::OperationTimeout { operation, path, after }),
                }
            }),
        }
    }
}

/// Sends each read as a separate request.
fn read_each(link: &Link, operations: &[ReadOperation]) -> Answer<Vec<Result<ReadResult>>> {
    let answers: Vec<_> = operations
        .iter()
        .map(|operation| match operation {
            ReadOperation::Children(path) => {
                link.get_children(path).map_ok(ReadResult::Children).boxed()
            }
            ReadOperation::Data(path) => link
                .get_data(path)
                .map_ok(|(data, stat)| ReadResult::Data { data, stat })
                .boxed(),
        })
        .collect();
    let operations = operations.to_vec();
    async move {
        let mut results = Vec::with_capacity(operations.len());
        for (operation, answer) in operations.iter().zip(join_all(answers).await) {
            results.push(match answer {
                // The connection or the session has failed, not this read.
                Err(error) if !error.is_reply() => return Err(error),
                answer => {
                    answer.map_err(|error| translate(operation.name(), operation.path(), error))
                }
            });
        }
        Ok(results)
    }
    .boxed()
}

async fn first_end(ends: &mut watch::Receiver<Option<SessionEnd>>) -> SessionEnd {
    match ends.wait_for(Option::is_some).await {
        Ok(end) => end.unwrap_or(SessionEnd::Closed),
        Err(_) => SessionEnd::Closed,
    }
}

/// The path of a sequential node, in the server's format.
fn numbered(operation: &'static str, prefix: &ZPath, sequence: i64) -> Result<ZPath> {
    let name = format!("{prefix}{sequence:010}");
    ZPath::on_server(&name).map_err(|error| Error::Unexpected {
        operation,
        path: prefix.clone(),
        cause: error.to_string(),
    })
}
