//! One-shot watches.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use zookeeper_client::{EventType, OneshotWatcher, WatchedEvent};

use super::task::{CountedWatch, LinkEnd, SessionTask};
use super::unfired::Unfired;

/// What a watch saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WatchEvent {
    /// The node was created.
    Created,
    /// The node was deleted.
    Deleted,
    /// The node's data changed.
    DataChanged,
    /// A child of the node was created or deleted.
    ChildrenChanged,
    /// The watch is gone because its connection is broken, and anything may have happened. The session may continue over
    /// another connection; if so, look again, and set a new watch.
    Interrupted,
    /// The session is over, and the watch with it.
    SessionEnded,
}

/// A one-shot watch on one node, and a future of its event.
///
/// The server keeps it until the node changes, or until the connection breaks: then it fires with
/// [`WatchEvent::Interrupted`]. Dropping it removes it from the server.
///
/// On one connection, events arrive in the order in which the server made the changes.
#[must_use = "a watch that is dropped is removed from the server"]
pub struct Watch {
    /// Dropped before the watch: what is requested meanwhile has to know.
    unfired: Unfired,
    future: Pin<Box<dyn Future<Output = WatchedEvent> + Send>>,
    /// The task of the connection on which the watch was set.
    task: SessionTask,
    fired: Option<WatchEvent>,
    /// Until it was seen to fire.
    counted: Option<CountedWatch>,
}

impl Watch {
    pub(super) fn new(watcher: OneshotWatcher, task: SessionTask, unfired: Unfired) -> Self {
        let counted = Some(task.count_watch());
        Self { unfired, future: Box::pin(watcher.changed()), task, fired: None, counted }
    }

    /// Waits for the event. Later calls return the same event at once. As `(&mut watch).await`.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped: the watch stays.
    pub async fn fired(&mut self) -> WatchEvent {
        std::future::poll_fn(|cx| self.poll_fired(cx)).await
    }

    /// As [`fired`](Self::fired), for a hand-written future.
    pub fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<WatchEvent> {
        if let Some(event) = self.fired {
            return Poll::Ready(event);
        }
        let future = self.future.as_mut();
        // The crate panics when its task is gone. Without the task there is no event; and the end of the task wakes us.
        let event = match self.task.while_alive(|| future.poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(event)) => translate(&event),
            Err(LinkEnd::Lost) => WatchEvent::Interrupted,
            Err(LinkEnd::Expired | LinkEnd::AuthFailed | LinkEnd::Closed) => WatchEvent::SessionEnded,
        };
        self.fired = Some(event);
        self.unfired.end();
        self.counted = None;
        Poll::Ready(event)
    }
}

/// Like [`fired`](Watch::fired). It may be polled again after it has returned the event.
impl Future for Watch {
    type Output = WatchEvent;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<WatchEvent> {
        self.poll_fired(cx)
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("fired", &self.fired).finish_non_exhaustive()
    }
}

fn translate(event: &WatchedEvent) -> WatchEvent {
    match event.event_type {
        EventType::NodeCreated => WatchEvent::Created,
        EventType::NodeDeleted => WatchEvent::Deleted,
        EventType::NodeDataChanged => WatchEvent::DataChanged,
        EventType::NodeChildrenChanged => WatchEvent::ChildrenChanged,
        EventType::Session => WatchEvent::SessionEnded,
    }
}
