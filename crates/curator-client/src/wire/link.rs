//! The requests of a session over one connection.
#![expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method of `Body` fits one lifetime only"
)]

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join;
use tokio::sync::{mpsc, oneshot};
use tokio::task::unconstrained;

use super::connection::Connection;
use super::reply::{Body, FailedOperation, OperationResult};
use super::request::{Request, WatchKind};
use super::route::Route;
use super::watches::OneShotKind;
use crate::acl::{Acl, AuthId, Permission};
use crate::codec::Malformed;
use crate::connect_string::HostPort;
use crate::error::{Error, Result};
use crate::operation::{
    CreateMode, Created, NodeSpec, ReadOperation, ReadResult, Stat, TRANSACTION,
    TransactionOperation, TransactionResult,
};
use crate::path::ZPath;
use crate::server_operations::{MissingOperations, ServerOperation};
use crate::transport::{
    Answer, ConfirmedBy, ErrorCode, IDENTITY_NODE, LinkEnd, MISSING_STAT, NO_VERSION, RequestError,
    TreeEvent, WatchEvent, translate, with_stats,
};

/// One connection of a session. Clones share it; dropping the last one closes the session, if the
/// connection still works.
#[derive(Clone)]
pub(crate) struct Link {
    task: LinkTask,
    open: Arc<Open>,
}

/// What resumes a session: its id, its password and its timeout.
#[derive(Clone)]
pub(crate) struct SessionKey {
    pub(super) route: Route,
    pub(super) session_id: i64,
    pub(super) password: Arc<[u8]>,
    pub(super) timeout: Duration,
}

impl SessionKey {
    pub(crate) fn session_id(&self) -> i64 {
        self.session_id
    }

    pub(crate) fn password(&self) -> &[u8] {
        &self.password
    }
}

/// What the clones of a link share.
struct Open {
    task: LinkTask,
    key: SessionKey,
    server: Arc<HostPort>,
    /// Whether the first probe must verify that the server has not accepted an authenticating
    /// client as anonymous.
    verifies_identity: bool,
    /// Set when a probe has confirmed the connection.
    confirmed: OnceLock<ConfirmedBy>,
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(self.task.0.request(
            &Request::CloseSession,
            |connection: &Arc<Connection>, _: Result<Body<'_>, RequestError>| {
                connection.finish(LinkEnd::Closed);
                Ok(Ok(()))
            },
        ));
    }
}

/// A handle to a connection that does not keep the session open.
#[derive(Clone)]
pub(crate) struct LinkTask(Arc<Connection>);

impl LinkTask {
    pub(crate) fn end(&self) -> Option<LinkEnd> {
        self.0.end()
    }

    pub(crate) async fn ended(&self) -> LinkEnd {
        self.0.ended().await
    }

    pub(crate) fn abort(&self, end: LinkEnd) {
        self.0.finish(end);
    }

    pub(crate) fn keep(&self, time: Duration) {
        self.0.keep(time);
    }

    /// See
    /// [`LinkTask::recursive_watches_settled`](crate::link::LinkTask::recursive_watches_settled).
    pub(crate) async fn recursive_watches_settled(&self) {
        self.0.recursive_watches_settled().await;
    }

    pub(crate) fn watches(&self) -> usize {
        if self.end().is_some() {
            0
        } else {
            self.0.with_watches(|watches| watches.len())
        }
    }

    fn exists(&self, path: &ZPath) -> Answer<Option<Stat>> {
        let answer = self.request(&Request::Exists { path, watch: false }, |body| {
            body.stat().map(Some)
        });
        answer
            .map(|answer| answer.or_else(|error| no_node(&error).ok_or(error)))
            .boxed()
    }

    fn request<T: Send + 'static>(
        &self,
        request: &Request<'_>,
        read: impl FnOnce(Body<'_>) -> Result<T, Malformed> + Send + 'static,
    ) -> Answer<T> {
        self.0.request(request, |_, body| {
            body.map_or_else(|error| Ok(Err(error)), |body| read(body).map(Ok))
        })
    }

    pub(crate) fn together<T>(&self, send: impl FnOnce() -> T) -> T {
        self.0.together(send)
    }
}

/// The connection.
impl Link {
    /// A new connection that nothing has confirmed. A resumed session may be connected to a server
    /// with older state.
    pub(super) fn new(
        connection: Arc<Connection>,
        key: SessionKey,
        server: HostPort,
        resumes_session: bool,
        verifies_identity: bool,
    ) -> Self {
        let task = LinkTask(connection);
        let confirmed = OnceLock::new();
        if !resumes_session && !verifies_identity {
            let _first = confirmed.set(ConfirmedBy::Leader);
        }
        let open = Open {
            task: task.clone(),
            key,
            server: Arc::new(server),
            verifies_identity,
            confirmed,
        };
        Self {
            task,
            open: Arc::new(open),
        }
    }

    pub(crate) fn session_id(&self) -> i64 {
        self.open.key.session_id
    }

    pub(crate) fn session_timeout(&self) -> Duration {
        self.open.key.timeout
    }

    pub(crate) fn session_key(&self) -> SessionKey {
        self.open.key.clone()
    }

    pub(crate) fn server(&self) -> &Arc<HostPort> {
        &self.open.server
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.task.0.address()
    }

    pub(crate) fn task(&self) -> &LinkTask {
        &self.task
    }

    pub(crate) fn abandon(self) {
        self.task.abort(LinkEnd::Lost);
    }
}

/// The requests.
impl Link {
    pub(crate) fn create(&self, node: &NodeSpec) -> Answer<Result<(Stat, Option<i64>)>> {
        if self.lacks(ServerOperation::Create2) {
            return self.create_without_stat(node);
        }
        let spec = node.clone();
        self.request(&Request::Create(node), move |body| {
            let created = body.created()?;
            Ok(Ok((created.stat, number_of(&spec, &created.path))))
        })
    }

    /// Creates a node with the request whose reply has no stat, and then finds the stat.
    fn create_without_stat(&self, node: &NodeSpec) -> Answer<Result<(Stat, Option<i64>)>> {
        let answer = self.request(&Request::CreateWithoutStat(node), |body| {
            body.created_without_stat()
        });
        let task = self.task.clone();
        let session_id = self.session_id();
        let node = node.clone();
        async move {
            let path = answer.await?;
            let number = number_of(&node, &path);
            let created = vec![applied(OperationResult::CreatedWithoutStat(path))];
            let operations = [TransactionOperation::Create(node)];
            let results =
                with_stats(|path| task.exists(path), session_id, &operations, created).await;
            Ok(results.map(|results| match results.first() {
                Some(TransactionResult::Created(created)) => (created.stat, number),
                _ => (MISSING_STAT, number),
            }))
        }
        .boxed()
    }

    pub(crate) fn set_missing(&self, missing: MissingOperations) {
        self.task.0.missing().add(missing);
    }

    fn lacks(&self, operation: ServerOperation) -> bool {
        self.task.0.missing().contains(operation)
    }

    /// Removes the data watches of `path`; the error `NoWatcher` if there are none.
    pub(crate) fn remove_watches(&self, path: &ZPath) -> Answer<()> {
        let kind = WatchKind::Data;
        self.request(&Request::RemoveWatches { path, kind }, |body| body.empty())
    }

    pub(crate) fn delete(&self, path: &ZPath, version: Option<i32>) -> Answer<()> {
        self.request(&Request::Delete { path, version }, |body| body.empty())
    }

    pub(crate) fn get_data(&self, path: &ZPath) -> Answer<(Vec<u8>, Stat)> {
        self.request(&Request::GetData { path, watch: false }, |body| body.data())
    }

    pub(crate) fn watch_data<W: From<Watch> + Send + 'static>(
        &self,
        path: &ZPath,
    ) -> Answer<(Vec<u8>, Stat, W)> {
        let request = Request::GetData { path, watch: true };
        let answer = self.watch(
            &request,
            path,
            OneShotKind::Data,
            |body| body.data(),
            |_| None,
        );
        answer
            .map(|answer| answer.map(|((data, stat), watch)| (data, stat, watch)))
            .boxed()
    }

    pub(crate) fn exists(&self, path: &ZPath) -> Answer<Option<Stat>> {
        self.task.exists(path)
    }

    pub(crate) fn watch_exists<W: From<Watch> + Send + 'static>(
        &self,
        path: &ZPath,
    ) -> Answer<(Option<Stat>, W)> {
        let request = Request::Exists { path, watch: true };
        self.watch(
            &request,
            path,
            OneShotKind::Data,
            |body| body.stat().map(Some),
            no_node,
        )
    }

    pub(crate) fn get_children(&self, path: &ZPath) -> Answer<Vec<String>> {
        self.request(&Request::GetChildren { path, watch: false }, |body| {
            body.children()
        })
    }

    pub(crate) fn watch_children<W: From<Watch> + Send + 'static>(
        &self,
        path: &ZPath,
    ) -> Answer<(Vec<String>, W)> {
        let request = Request::GetChildren { path, watch: true };
        self.watch(
            &request,
            path,
            OneShotKind::Children,
            |body| body.children(),
            |_| None,
        )
    }

    pub(crate) fn watch_recursive(&self, path: &ZPath) -> Answer<RecursiveWatch> {
        let connection = &self.task.0;
        let path = path.clone();
        let request = Request::AddWatch {
            path: &path.clone(),
        };
        connection.with_watches(|watches| watches.recursive_requested(&path));
        connection.request(&request, move |connection, body| {
            let added = match body.map(Body::watch_added) {
                Ok(Ok(added)) => Ok(added.map_err(RequestError::Code)),
                Ok(Err(malformed)) => Err(malformed),
                Err(error) => Ok(Err(error)),
            };
            // See `watch`.
            let may_be_set = !matches!(added, Ok(Err(RequestError::Code(_))));
            let watch =
                connection.with_watches(|watches| watches.recursive_answered(&path, may_be_set));
            let watch = watch.map(|(id, events)| RecursiveWatch {
                connection: Arc::clone(connection),
                path: path.clone(),
                id,
                events: Some(events),
            });
            if watch.is_none() {
                remove_recursive_if_unused(connection, &path, None);
            }
            Ok(match added? {
                Ok(()) => watch.ok_or(RequestError::Code(ErrorCode::NO_WATCHER)),
                // A server without recursive watches cannot read the request.
                Err(RequestError::Code(ErrorCode::MARSHALLING_ERROR)) => {
                    Err(RequestError::Code(ErrorCode::UNIMPLEMENTED))
                }
                Err(error) => Err(error),
            })
        })
    }

    pub(crate) fn set_data(&self, path: &ZPath, data: &[u8], version: Option<i32>) -> Answer<Stat> {
        self.request(
            &Request::SetData {
                path,
                data,
                version,
            },
            |body| body.stat(),
        )
    }

    pub(crate) fn get_acl(&self, path: &ZPath) -> Answer<(Vec<Acl>, Stat)> {
        self.request(&Request::GetAcl { path }, |body| body.acl())
    }

    pub(crate) fn set_acl(&self, path: &ZPath, acl: &[Acl], version: Option<i32>) -> Answer<Stat> {
        self.request(&Request::SetAcl { path, acl, version }, |body| body.stat())
    }

    pub(crate) fn sync(&self, path: &ZPath) -> Answer<()> {
        self.request(&Request::Sync { path }, |body| body.synced())
    }

    pub(crate) fn transact(
        &self,
        operations: Vec<TransactionOperation>,
    ) -> Answer<Result<Vec<TransactionResult>>> {
        let task = self.task.clone();
        let session_id = self.session_id();
        let sent = operations.clone();
        let request = if self.lacks(ServerOperation::Create2) {
            Request::MultiWithoutStats(&operations)
        } else {
            Request::Multi(&operations)
        };
        let answer = self.request(&request, move |body| {
            let results = body.transaction(&sent)?;
            Ok(results.map(|results| results.into_iter().map(applied).collect()))
        });
        async move {
            Ok(match answer.await? {
                Ok(results) => {
                    with_stats(|path| task.exists(path), session_id, &operations, results).await
                }
                Err(failed) => Err(not_applied(&operations, failed)),
            })
        }
        .boxed()
    }

    pub(crate) fn read_all(
        &self,
        operations: Vec<ReadOperation>,
    ) -> Answer<Result<Vec<Result<ReadResult>>>> {
        let request = Request::MultiRead(&operations.clone());
        self.request(&request, move |body| {
            Ok(Ok(operations
                .iter()
                .zip(body.reads(&operations)?)
                .map(
                    |(operation, result): (&ReadOperation, Result<ReadResult, ErrorCode>)| {
                        result.map_err(|code| {
                            translate(operation.name(), operation.path(), RequestError::Code(code))
                        })
                    },
                )
                .collect()))
        })
    }

    pub(crate) fn probe(&self) -> Answer<ConfirmedBy> {
        let open = Arc::clone(&self.open);
        if let Some(by) = open.confirmed.get().copied() {
            return self
                .sync(&ZPath::root())
                .map(move |synced| synced.map(|()| by))
                .boxed();
        }
        let written = self.write_nothing();
        let synced = self.sync(&ZPath::root());
        async move {
            let (written, synced) = join(written, synced).await;
            // The outer error is about the request as a whole.
            let written = written
                .map_err(|error| (None, error))
                .and_then(|failed| match failed {
                    None => Ok(()),
                    Some(FailedOperation { index, error }) => {
                        Err((Some(index), RequestError::Code(error)))
                    }
                });
            let by = ConfirmedBy::from_write(written)?;
            let _first = open.confirmed.set(by);
            synced.map(|()| by)
        }
        .boxed()
    }

    /// A transaction that changes nothing. See [`probe`](crate::link::Link::probe).
    fn write_nothing(&self) -> Answer<Option<FailedOperation>> {
        let mut operations = Vec::new();
        let check = |version| TransactionOperation::Check {
            path: ZPath::root(),
            version,
        };
        if self.open.verifies_identity
            && let Ok(path) = ZPath::on_server(IDENTITY_NODE)
        {
            let acl = [Acl::new(Permission::ALL, AuthId::authed())].into();
            let node = NodeSpec {
                path,
                data: [].into(),
                mode: CreateMode::Persistent,
                acl,
            };
            operations.extend([TransactionOperation::Create(node), check(Some(NO_VERSION))]);
        } else {
            operations.push(check(None));
        }
        let request = Request::Multi(&operations.clone());
        self.request(&request, move |body| {
            Ok(body.transaction(&operations)?.err())
        })
    }

    fn request<T: Send + 'static>(
        &self,
        request: &Request<'_>,
        read: impl FnOnce(Body<'_>) -> Result<T, Malformed> + Send + 'static,
    ) -> Answer<T> {
        self.task.request(request, read)
    }

    /// Sends a request that sets a watch. `read` decodes the reply. `missing` gets an error, and
    /// returns the value of the answer if the server has set a watch despite the error.
    fn watch<T: Send + 'static, W: From<Watch> + Send + 'static>(
        &self,
        request: &Request<'_>,
        path: &ZPath,
        kind: OneShotKind,
        read: impl FnOnce(Body<'_>) -> Result<T, Malformed> + Send + 'static,
        missing: impl FnOnce(&RequestError) -> Option<T> + Send + 'static,
    ) -> Answer<(T, W)> {
        let connection = &self.task.0;
        let path = path.clone();
        connection.with_watches(|watches| watches.requested(&path, kind));
        connection.request(request, move |connection, body| {
            let found = match body {
                Ok(body) => read(body).map(Ok),
                Err(error) => Ok(missing(&error).ok_or(error)),
            };
            // If the reply is lost or cannot be read, the watch may be set, and must be removed.
            let may_be_set = !matches!(found, Ok(Err(RequestError::Code(_))));
            let Some((id, event)) =
                connection.with_watches(|watches| watches.answered(&path, kind, may_be_set))
            else {
                remove_if_unused(connection, &path, kind, None);
                return Ok(Err(found?
                    .err()
                    .unwrap_or(RequestError::Code(ErrorCode::NO_WATCHER))));
            };
            let connection = Arc::clone(connection);
            let watch = Watch {
                connection,
                path,
                kind,
                id,
                event: Some(event),
                fired: None,
            };
            Ok(found?.map(|found| (found, watch.into())))
        })
    }
}

/// What `exists` returns if the error says that there is no node.
fn no_node<T>(error: &RequestError) -> Option<Option<T>> {
    (*error == RequestError::Code(ErrorCode::NO_NODE)).then_some(None)
}

/// The number that the server has appended to the name of a sequential node.
fn number_of(node: &NodeSpec, created: &ZPath) -> Option<i64> {
    if !node.mode.is_sequential() {
        return None;
    }
    let number = created.as_str().strip_prefix(node.path.as_str())?;
    number.parse().ok()
}

fn applied(result: OperationResult) -> TransactionResult {
    match result {
        OperationResult::Checked => TransactionResult::Checked,
        OperationResult::Created(created) => TransactionResult::Created(created),
        OperationResult::DataSet(stat) => TransactionResult::DataSet(stat),
        OperationResult::Deleted => TransactionResult::Deleted,
        OperationResult::CreatedWithoutStat(path) => TransactionResult::Created(Created {
            path,
            stat: MISSING_STAT,
        }),
    }
}

fn not_applied(
    operations: &[TransactionOperation],
    FailedOperation { index, error }: FailedOperation,
) -> Error {
    let root = ZPath::root();
    let (name, path) = operations
        .get(index)
        .map_or((TRANSACTION, &root), |failed| {
            (failed.name(), failed.path())
        });
    Error::TransactionFailed {
        index,
        cause: Box::new(translate(name, path, RequestError::Code(error))),
    }
}

/// A one-shot watch.
pub(crate) struct Watch {
    connection: Arc<Connection>,
    path: ZPath,
    kind: OneShotKind,
    id: u64,
    /// `None` once it has fired.
    event: Option<oneshot::Receiver<WatchEvent>>,
    fired: Option<WatchEvent>,
}

impl Watch {
    /// The event, if it was read.
    pub(crate) fn fired(&self) -> Option<WatchEvent> {
        self.fired
    }

    /// Whether the event may have arrived, but has not been processed.
    pub(crate) fn is_behind(&self) -> bool {
        !self.connection.has_forked() && self.connection.may_have_event(&self.path, self.kind)
    }

    pub(crate) fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<WatchEvent> {
        if self.connection.has_forked() {
            return Poll::Ready(WatchEvent::SessionEnded);
        }
        let Some(event) = &mut self.event else {
            return Poll::Ready(self.fired.unwrap_or(WatchEvent::Interrupted));
        };
        // Unconstrained: a task that has used up its coop budget, and polls only once, must still
        // get an event that has arrived.
        let event = match pin!(unconstrained(event)).poll(cx) {
            Poll::Ready(event) => event.ok(),
            // The reply to the request may have been read while the connection ended.
            Poll::Pending if self.connection.end().is_some() => None,
            Poll::Pending => return Poll::Pending,
        };
        self.event = None;
        let event = event.unwrap_or_else(|| match self.connection.end() {
            Some(LinkEnd::Expired | LinkEnd::AuthFailed | LinkEnd::Closed) => {
                WatchEvent::SessionEnded
            }
            Some(LinkEnd::Lost) | None => WatchEvent::Interrupted,
        });
        self.fired = Some(event);
        Poll::Ready(event)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.connection.has_forked() {
            std::mem::forget(self.event.take());
            return;
        }
        // The receiver is dropped first, so that no task is woken while the lock is held.
        if self.event.take().is_some() {
            remove_if_unused(&self.connection, &self.path, self.kind, Some(self.id));
        }
    }
}

/// Removes the server's watch, if no watch here needs it.
fn remove_if_unused(
    connection: &Arc<Connection>,
    path: &ZPath,
    kind: OneShotKind,
    id: Option<u64>,
) {
    connection.remove_watch_if(path, kind.on_wire(), |watches| {
        watches.dropped(path, kind, id)
    });
}

/// See [`remove_if_unused`].
fn remove_recursive_if_unused(connection: &Connection, path: &ZPath, id: Option<u64>) {
    connection.remove_watch_if(path, WatchKind::Any, |watches| {
        watches.recursive_dropped(path, id)
    });
}

/// A recursive watch.
pub(crate) struct RecursiveWatch {
    connection: Arc<Connection>,
    path: ZPath,
    id: u64,
    /// `None` once `Interrupted` was returned.
    events: Option<mpsc::UnboundedReceiver<TreeEvent>>,
}

impl RecursiveWatch {
    pub(crate) fn is_alive(&self) -> bool {
        !self.connection.has_forked() && self.events.is_some() && self.connection.end().is_none()
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<TreeEvent> {
        if self.connection.has_forked() {
            return Poll::Ready(TreeEvent::Interrupted);
        }
        let Some(events) = &mut self.events else {
            return Poll::Ready(TreeEvent::Interrupted);
        };
        // Like in `zk/`, events that were not read when the connection ended are lost.
        let event = if self.connection.end().is_some() {
            None
        } else {
            // Unconstrained, as in `Watch::poll_fired`.
            std::task::ready!(pin!(unconstrained(events.recv())).poll(cx))
        };
        if event.is_none() {
            self.events = None;
        }
        Poll::Ready(event.unwrap_or(TreeEvent::Interrupted))
    }
}

impl Drop for RecursiveWatch {
    fn drop(&mut self) {
        if self.connection.has_forked() {
            std::mem::forget(self.events.take());
            return;
        }
        if self.events.take().is_some() {
            remove_recursive_if_unused(&self.connection, &self.path, Some(self.id));
        }
    }
}
