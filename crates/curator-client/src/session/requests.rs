//! The requests of a session: sent by the call, answered in order.

mod several;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;

use super::Session;
use crate::clock::ClockInstant;
use crate::error::{Error, Outcome, Result, SessionEnd};
use crate::node::{Created, NodeSpec, REQUEST_FRAMING};
use crate::path::ZPath;
use crate::zk::Stat;
use crate::zk::error::{LinkError, translate};
use crate::zk::link::Link;
use crate::zk::started::Started;
use crate::zk::task::SessionTask;
use crate::zk::watch::{OneshotWatcher, Watch};

/// The answer to a request that has been sent.
///
/// # Cancel safety
///
/// Dropping it does not take the request back: only its answer is lost. One that is kept, and neither awaited nor
/// dropped, keeps its session open on the server, even when the client is closed.
#[must_use = "the request is sent, but only its answer tells what became of it"]
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
        Self { answer: Box::pin(std::future::ready(Err(error))) }
    }

    fn answered(answer: T) -> Self {
        Self { answer: Box::pin(std::future::ready(Ok(answer))) }
    }

    fn map<U>(self, f: impl FnOnce(T) -> Result<U> + Send + 'static) -> Request<U> {
        Request { answer: Box::pin(async move { f(self.answer.await?) }) }
    }
}

impl Session {
    /// Creates a node.
    pub fn create(&self, node: &NodeSpec) -> Request<Created> {
        const NAME: &str = "create";
        if let Err(error) = self.check_size(NAME, &node.path, node.size()) {
            return Request::failed(error);
        }
        let path = node.path.clone();
        self.send(NAME, &node.path, |link| link.create(node)).map(move |(stat, sequence)| {
            let path = match sequence {
                None => path,
                Some(sequence) => numbered(NAME, &path, sequence)?,
            };
            Ok(Created { path, stat })
        })
    }

    /// Deletes a node, if it has this version or none is given.
    pub fn delete(&self, path: &ZPath, version: Option<i32>) -> Request<()> {
        self.send("delete", path, |link| link.delete(path, version))
    }

    /// A node's data and stat.
    pub fn get_data(&self, path: &ZPath) -> Request<(Vec<u8>, Stat)> {
        self.send("get data of", path, |link| link.get_data(path))
    }

    /// A node's data and stat, and a watch for its deletion or the next change of its data.
    ///
    /// There is no watch on a node that does not exist: `NoNode` leaves nothing behind on the server.
    pub fn watch_data(&self, path: &ZPath) -> Request<(Vec<u8>, Stat, Watch)> {
        let watched = self.watch(
            "watch data of",
            path,
            |link| link.watch_data(path),
            |(data, stat, watcher)| ((data, stat), watcher),
        );
        watched.map(|((data, stat), watch)| Ok((data, stat, watch)))
    }

    /// The stat of a node, or `None` if there is no such node.
    pub fn exists(&self, path: &ZPath) -> Request<Option<Stat>> {
        self.send("look for", path, |link| link.exists(path))
    }

    /// The names of a node's children, in no order.
    pub fn get_children(&self, path: &ZPath) -> Request<Vec<String>> {
        self.send("list", path, |link| link.get_children(path))
    }

    /// The names of a node's children, and a watch for the next child that comes or goes.
    pub fn watch_children(&self, path: &ZPath) -> Request<(Vec<String>, Watch)> {
        self.watch("watch children of", path, |link| link.watch_children(path), std::convert::identity)
    }

    /// Sets a node's data, if it has this version or none is given.
    pub fn set_data(&self, path: &ZPath, data: &[u8], version: Option<i32>) -> Request<Stat> {
        const NAME: &str = "set data of";
        if let Err(error) = self.check_size(NAME, path, path.as_str().len() + data.len() + REQUEST_FRAMING) {
            return Request::failed(error);
        }
        self.send(NAME, path, |link| link.set_data(path, data, version))
    }

    /// Makes the server that we talk to catch up with the leader.
    pub fn sync(&self, path: &ZPath) -> Request<()> {
        self.send("sync", path, |link| link.sync(path))
    }

    /// A probe of the lease: a request that only the leader can answer. It does not count as a request under way, so
    /// that a session cannot be lost because its client is busy, and the operation timeout is not for it. It is what
    /// finds out whether there is a connection, so it is sent without one.
    pub(crate) fn probe(&self) -> impl Future<Output = (ClockInstant, Result<()>)> + Send + 'static {
        const NAME: &str = "probe";
        let root = ZPath::root();
        let sent = ClockInstant::now();
        let describe = |error| translate(NAME, &ZPath::root(), error);
        let answer = match self.link() {
            Some(link) => self.answer_to(NAME, &root, link.probe(), describe, self.inner.timeout, ()),
            None => self.refused(NAME, &root),
        };
        async move { (sent, answer.await) }
    }

    /// Sends a request that leaves a watch.
    fn watch<T: Send + Unpin + 'static, U: Send + 'static>(
        &self,
        operation: &'static str,
        path: &ZPath,
        call: impl FnOnce(&Link) -> Started<Result<T, LinkError>>,
        split: impl FnOnce(T) -> (U, OneshotWatcher) + Send + 'static,
    ) -> Request<(U, Watch)> {
        let mut task = None;
        let request = self.send(operation, path, |link| {
            task = Some(link.task().clone());
            call(link)
        });
        request.map(move |answer| {
            let (answer, watcher) = split(answer);
            // Without a task nothing was sent, and there is no answer.
            let watch = task.map(|task: SessionTask| Watch::new(watcher, task)).ok_or(Error::Closed)?;
            Ok((answer, watch))
        })
    }

    fn send<T: Send + Unpin + 'static>(
        &self,
        operation: &'static str,
        path: &ZPath,
        call: impl FnOnce(&Link) -> Started<Result<T, LinkError>>,
    ) -> Request<T> {
        let described = path.clone();
        self.send_with(operation, path, call, move |error| translate(operation, &described, error))
    }

    fn send_with<T: Send + Unpin + 'static, E: Send + Unpin + 'static>(
        &self,
        operation: &'static str,
        path: &ZPath,
        call: impl FnOnce(&Link) -> Started<Result<T, E>>,
        describe: impl FnOnce(E) -> Error + Send + 'static,
    ) -> Request<T> {
        // The server would close the connection, at each try again.
        if let Err(error) = self.check_size(operation, path, path.as_str().len() + REQUEST_FRAMING) {
            return Request::failed(error);
        }
        let Ok(permit) = Arc::clone(&self.inner.in_flight).try_acquire_owned() else {
            let limit = self.inner.limits.in_flight;
            return Request::failed(Error::TooManyRequests { operation, path: path.clone(), limit });
        };
        let Some(link) = self.link() else { return self.refused(operation, path) };
        if !(*self.inner.connected.borrow() && link.end().is_none()) {
            return Request::failed(Error::Disconnected { operation, path: path.clone() });
        }
        let after = self.inner.limits.operation_timeout.unwrap_or(self.inner.timeout);
        self.answer_to(operation, path, call(&link), describe, after, permit)
    }

    /// The session is over.
    fn refused<T: Send + 'static>(&self, operation: &'static str, path: &ZPath) -> Request<T> {
        let end = self.end().unwrap_or(SessionEnd::Closed);
        Request::failed(Error::SessionEnded { operation, path: path.clone(), end, outcome: Outcome::NotApplied })
    }

    /// Waits for the answer to a request that has been sent, and keeps `permit` until it is there.
    fn answer_to<T: Send + Unpin + 'static, E: Send + Unpin + 'static>(
        &self,
        operation: &'static str,
        path: &ZPath,
        started: Started<Result<T, E>>,
        describe: impl FnOnce(E) -> Error + Send + 'static,
        after: Duration,
        permit: impl Send + 'static,
    ) -> Request<T> {
        let path = path.clone();
        let overdue = self.inner.timer.sleep(after);
        let mut ends = self.inner.end.subscribe();
        Request {
            answer: Box::pin(async move {
                let _permit = permit;
                tokio::select! {
                    biased;
                    answer = started => answer.map_err(describe),
                    end = first_end(&mut ends) => {
                        Err(Error::SessionEnded { operation, path, end, outcome: Outcome::Unknown })
                    }
                    () = overdue => Err(Error::OperationTimeout { operation, path, after }),
                }
            }),
        }
    }

    fn check_size(&self, operation: &'static str, path: &ZPath, size: usize) -> Result<()> {
        let limit = self.inner.limits.request_size;
        if size > limit {
            return Err(Error::RequestTooLarge { operation, path: path.clone(), size, limit });
        }
        Ok(())
    }
}

async fn first_end(ends: &mut watch::Receiver<Option<SessionEnd>>) -> SessionEnd {
    match ends.wait_for(Option::is_some).await {
        Ok(end) => end.unwrap_or(SessionEnd::Closed),
        Err(_) => SessionEnd::Closed,
    }
}

/// The path of a sequential node, as the server writes it.
fn numbered(operation: &'static str, prefix: &ZPath, sequence: i64) -> Result<ZPath> {
    let name = format!("{prefix}{sequence:010}");
    ZPath::new(&name).map_err(|error| Error::Unexpected { operation, path: prefix.clone(), cause: error.to_string() })
}
