//! Recursive watches: each reports every change at a node and below it, until its connection ends.
//!
//! `zookeeper-client` uses freed memory when a recursive watcher is dropped while events for it are
//! on the way, and a watch is then set on one of their paths (`docs/upstream.md`). So in one
//! session, watches are set and removed one after another, with an answered request between a
//! removal and the next watch: its reply arrives after all events from before the removal ([ADR
//! 0043](../../../../docs/adr/0043-a-separate-session-for-recursive-watches.md)).

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use zookeeper_client::{EventType, PersistentWatcher, WatchedEvent};

use super::task::{CountedWatch, SessionTask};
use crate::path::ZPath;
use crate::transport::{self, ErrorCode, LinkEnd, RequestError, TreeEvent};

/// See [`RecursiveWatch`](crate::RecursiveWatch).
pub(crate) struct RecursiveWatch {
    /// `None` once `Interrupted` was returned. `zookeeper-client` panics if a watcher is polled
    /// after the end of its connection.
    watcher: Option<PersistentWatcher>,
    task: SessionTask,
    removals: Arc<Removals>,
    _counted: CountedWatch,
}

impl RecursiveWatch {
    fn new(watcher: PersistentWatcher, task: SessionTask, removals: Arc<Removals>) -> Self {
        let _counted = task.count_watch();
        Self {
            watcher: Some(watcher),
            task,
            removals,
            _counted,
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.watcher.is_some() && self.task.end().is_none()
    }

    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<TreeEvent> {
        let Some(watcher) = &mut self.watcher else {
            return Poll::Ready(TreeEvent::Interrupted);
        };
        // `zookeeper-client` panics if its task is gone. Without the task there is no event, and
        // the end of the task wakes this future.
        let event = match self.task.while_alive(|| pin!(watcher.changed()).poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(event)) => translate(event),
            Err(_) => TreeEvent::Interrupted,
        };
        if event == TreeEvent::Interrupted {
            self.remove();
        }
        Poll::Ready(event)
    }

    fn remove(&mut self) {
        if let Some(watcher) = self.watcher.take() {
            self.removals.add(Box::new(watcher), self.task.clone());
        }
    }
}

impl Drop for RecursiveWatch {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Any session event ends the watch: it is how `zookeeper-client` reports a lost connection, and a
/// session's links never reconnect.
fn translate(event: WatchedEvent) -> TreeEvent {
    let Ok(path) = ZPath::on_server(&event.path) else {
        return TreeEvent::Interrupted;
    };
    match event.event_type {
        EventType::NodeCreated => TreeEvent::Created(path),
        EventType::NodeDeleted => TreeEvent::Deleted(path),
        EventType::NodeDataChanged => TreeEvent::DataChanged(path),
        // Servers do not send `NodeChildrenChanged` for a recursive watch.
        EventType::NodeChildrenChanged | EventType::Session => TreeEvent::Interrupted,
    }
}

/// Orders the removals of one session's recursive watches among the requests that set them.
#[derive(Default)]
pub(crate) struct Removals {
    /// Locked while a watch is being set.
    setting: tokio::sync::Mutex<()>,
    unwanted: Mutex<Unwanted>,
    /// Whether a watch was removed since the last answered request.
    unconfirmed: AtomicBool,
}

#[derive(Default)]
struct Unwanted {
    watchers: Vec<(Watcher, SessionTask)>,
    /// Requests that set watches, and whose callers do not wait for the replies; each with its
    /// connection.
    requested: Vec<(Answer, SessionTask)>,
    /// The session has ended: nothing is kept here any more.
    has_ended: bool,
}

/// A watcher of `zookeeper-client`, which removes its watch when it is dropped.
type Watcher = Box<dyn Send>;

type Answer = transport::Answer<RecursiveWatch>;

/// Permission to set a watch.
pub(crate) struct SetPermit<'a> {
    removals: &'a Removals,
    guard: Option<tokio::sync::MutexGuard<'a, ()>>,
}

impl Removals {
    /// Waits until no watch is being set.
    pub(crate) async fn set_permit(&self) -> SetPermit<'_> {
        SetPermit {
            removals: self,
            guard: Some(self.setting.lock().await),
        }
    }

    /// Records that the session has ended. The client may still close the session over its
    /// connection, perhaps while a request for a watch is in flight. So from now on, no watch is
    /// removed: unwanted watchers are dropped with the connection. Unanswered requests are dropped
    /// now: each has a handle to the client, and dropping the last handle closes the session.
    pub(crate) fn session_ended(&self) {
        let mut unwanted = self.unwanted();
        let Unwanted {
            watchers,
            requested,
            ..
        } = std::mem::replace(
            &mut *unwanted,
            Unwanted {
                has_ended: true,
                ..Unwanted::default()
            },
        );
        drop(unwanted);
        watchers
            .into_iter()
            .for_each(|(watcher, task)| task.drop_afterwards(watcher));
        drop(requested);
    }

    /// Ends each connection with a request for a watch whose caller no longer waits for the reply:
    /// events of the watch could arrive while the request is in flight, and `zookeeper-client`
    /// could then use freed memory. The session continues over another connection.
    pub(crate) fn abandon_requests(&self) {
        // The connections are aborted first. Aborting wakes them, and a watch that is dropped
        // during such a wake must not be removed over one of them.
        let tasks: Vec<_> = self
            .unwanted()
            .requested
            .iter()
            .map(|(_, task)| task.clone())
            .collect();
        tasks.iter().for_each(|task| task.abort(LinkEnd::Lost));
        let requested = std::mem::take(&mut self.unwanted().requested);
        requested
            .into_iter()
            .for_each(|(answer, task)| task.abandon(answer));
        self.remove();
    }

    fn add(&self, watcher: Watcher, task: SessionTask) {
        match self.keep(watcher, task, |unwanted| &mut unwanted.watchers) {
            None => self.remove(),
            Some((watcher, task)) => task.drop_afterwards(watcher),
        }
    }

    /// Keeps `what` for the session to handle. Returns it if the session has ended.
    fn keep<T>(
        &self,
        what: T,
        task: SessionTask,
        place: impl FnOnce(&mut Unwanted) -> &mut Vec<(T, SessionTask)>,
    ) -> Option<(T, SessionTask)> {
        let mut unwanted = self.unwanted();
        if unwanted.has_ended {
            return Some((what, task));
        }
        place(&mut unwanted).push((what, task));
        None
    }

    /// Removes the unwanted watches. While a watch is being set, does nothing: the drop of the
    /// [`SetPermit`] calls this again. The loop handles watches that are added before the unlock.
    fn remove(&self) {
        while !self.unwanted().watchers.is_empty() {
            let Ok(_permit) = self.setting.try_lock() else {
                return;
            };
            if !self.unwanted().requested.is_empty() {
                return;
            }
            self.remove_unwanted();
        }
    }

    /// Removes the unwanted watches. The caller must hold the lock for setting watches.
    fn remove_unwanted(&self) {
        let watchers = std::mem::take(&mut self.unwanted().watchers);
        if !watchers.is_empty() {
            self.unconfirmed.store(true, Ordering::Release);
        }
        for (watcher, task) in watchers {
            match task.end() {
                // The drop writes to the connection.
                None => drop(watcher),
                // Another thread may still be polling the connection, with a request in flight.
                Some(_) => task.drop_afterwards(watcher),
            }
        }
    }

    fn unwanted(&self) -> MutexGuard<'_, Unwanted> {
        self.unwanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SetPermit<'_> {
    /// Removes the unwanted watches. `confirm` sends a request and waits for its reply.
    pub(crate) async fn settle<E, F>(&self, confirm: impl Fn() -> F) -> Result<(), E>
    where
        F: Future<Output = Result<(), E>>,
    {
        if !self.removals.unwanted().requested.is_empty() {
            confirm().await?;
            let requested = std::mem::take(&mut self.removals.unwanted().requested);
            for (mut answer, task) in requested {
                match (&mut answer).now_or_never() {
                    // If the watch was set, the drop adds it to the unwanted ones.
                    Some(answer) => drop(answer),
                    // A server answers in order, so this reply is lost. `zookeeper-client` would
                    // wait for it forever, and could use freed memory meanwhile.
                    None => task.abandon(answer),
                }
            }
        }
        self.removals.remove_unwanted();
        if self.removals.unconfirmed.load(Ordering::Acquire) {
            confirm().await?;
            self.removals.unconfirmed.store(false, Ordering::Release);
        }
        Ok(())
    }
}

impl Drop for SetPermit<'_> {
    fn drop(&mut self) {
        self.guard = None;
        self.removals.remove();
    }
}

/// A reply that the session keeps if its caller drops it: the watch may be set nevertheless.
struct Requested {
    answer: Option<Answer>,
    task: SessionTask,
    removals: Weak<Removals>,
}

impl Future for Requested {
    type Output = Result<RecursiveWatch, RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(answer) = &mut self.answer else {
            return Poll::Pending;
        };
        let polled = answer.poll_unpin(cx);
        if polled.is_ready() {
            self.answer = None;
        }
        polled
    }
}

impl Drop for Requested {
    fn drop(&mut self) {
        if let (Some(answer), Some(removals)) = (self.answer.take(), self.removals.upgrade()) {
            drop(removals.keep(answer, self.task.clone(), |unwanted| {
                &mut unwanted.requested
            }));
        }
    }
}

/// The reply to a request that sets a watch.
pub(super) fn requested(
    watcher: transport::Answer<PersistentWatcher>,
    task: &SessionTask,
    removals: &Arc<Removals>,
) -> Answer {
    let removals = Arc::downgrade(removals);
    // A weak handle, because `removals` may keep the reply.
    let weak_removals = Weak::clone(&removals);
    let watch_task = task.clone();
    let answer = async move {
        let watcher = watcher.await.map_err(refused)?;
        let removals = weak_removals.upgrade().ok_or(RequestError::Closed)?;
        Ok(RecursiveWatch::new(watcher, watch_task, removals))
    };
    Requested {
        answer: Some(answer.boxed()),
        task: task.clone(),
        removals,
    }
    .boxed()
}

/// A server whose watch manager does not support recursive watches answers that it cannot read the
/// request.
fn refused(error: RequestError) -> RequestError {
    match error {
        RequestError::Code(ErrorCode::MARSHALLING_ERROR) => {
            RequestError::Code(ErrorCode::UNIMPLEMENTED)
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::super::task::tests::assert_outlives_the_poll;
    use super::*;

    /// If the watcher were dropped during the poll, the connection would still send the removal,
    /// which is unsafe by then.
    #[test]
    fn a_watcher_dropped_when_its_session_or_connection_ends_outlives_the_current_poll() {
        type Ending = fn(&Removals, Watcher, SessionTask);
        let endings: [(&str, Ending); 3] = [
            ("after the end of the session", |removals, watcher, task| {
                removals.session_ended();
                removals.add(watcher, task);
            }),
            (
                "before the end of the session, while another watch was being set",
                |removals, watcher, task| {
                    let _permit = removals.set_permit().now_or_never().unwrap();
                    removals.add(watcher, task);
                    removals.session_ended();
                },
            ),
            (
                "after the end of the connection",
                |removals, watcher, task| {
                    task.abort(LinkEnd::Lost);
                    removals.add(watcher, task);
                },
            ),
        ];
        for (when, end) in endings {
            assert_outlives_the_poll(when, |task, watcher| {
                end(&Removals::default(), Box::new(watcher), task.clone());
            });
        }
    }
}
