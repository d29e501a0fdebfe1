//! One-shot watches, with a budget.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
/// The client crate's watch, as the rest of this crate may name it.
pub(crate) use zookeeper_client::OneshotWatcher;
use zookeeper_client::{EventType, SessionState, StateWatcher, WatchedEvent};

use super::task::SessionTask;

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
    /// The watch is gone, and anything may have happened: look again, and watch again. The session is alive, and its
    /// connection was broken for so long that another one has taken it over.
    Interrupted,
    /// The session is over, and the watch with it.
    SessionEnded,
}

/// A one-shot watch on one node.
///
/// The server keeps it until the node changes, and the client sets it again after a reconnect; after a long one it fires
/// with [`WatchEvent::Interrupted`] instead. Dropping it takes it off the server.
#[must_use = "a watch that is dropped is removed from the server"]
pub struct Watch {
    future: Pin<Box<dyn Future<Output = WatchedEvent> + Send>>,
    mark: LinkMark,
    fired: Option<WatchEvent>,
    _reserved: WatchReservation,
}

impl Watch {
    pub(crate) fn new(watcher: OneshotWatcher, mark: LinkMark, reserved: WatchReservation) -> Self {
        Self { future: Box::pin(watcher.changed()), mark, fired: None, _reserved: reserved }
    }

    /// Waits for the event. Later calls return the same event at once.
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
        if self.mark.is_interrupted() {
            return self.fire(WatchEvent::Interrupted);
        }
        // The crate unwraps the channel to its session task. That task drops its end without a word when its runtime
        // shuts down, and a thread outside that runtime would meet the panic.
        let polled = catch_unwind(AssertUnwindSafe(|| self.future.as_mut().poll(cx)));
        let event = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(event)) => translate(&event),
            // Ended since the look above.
            Err(_) if self.mark.is_interrupted() => WatchEvent::Interrupted,
            Err(_) => WatchEvent::SessionEnded,
        };
        self.fire(event)
    }

    fn fire(&mut self, event: WatchEvent) -> Poll<WatchEvent> {
        self.fired = Some(event);
        Poll::Ready(event)
    }

    /// Whether the connection may have changed since before this watch was asked for.
    ///
    /// On one connection a client sees events in the order in which the server made the changes. After a reconnect the
    /// server sends what was missed in any order, so no conclusion may be drawn from the order.
    pub fn connection_is_unbroken(&mut self) -> bool {
        self.mark.is_unbroken()
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

/// Remembers a moment, to tell later whether the connection can have changed since.
pub(crate) struct LinkMark {
    states: StateWatcher,
    task: SessionTask,
    broken: bool,
}

impl LinkMark {
    /// `states` must have consumed the state of now.
    pub(super) fn new(mut states: StateWatcher, task: SessionTask) -> Self {
        let broken = states.state() != SessionState::SyncConnected;
        Self { states, task, broken }
    }

    /// Whether the client that the watch was asked of is gone, and its session is not.
    fn is_interrupted(&self) -> bool {
        self.task.has_been_ended()
    }

    fn is_unbroken(&mut self) -> bool {
        // The session task publishes a state before it delivers what the new connection brings, so an event that came
        // over a new connection finds the change here. The states are merged, hence "any change".
        if self.is_interrupted() || self.states.changed().now_or_never().is_some() {
            self.broken = true;
        }
        !self.broken
    }
}

/// How many bytes of paths a session may watch.
///
/// The client crate puts all watched paths into requests of 128 KiB when it reconnects, and fails for ever on a path
/// that does not fit any more. The limit stays well below, because each path also costs a few bytes of framing.
#[derive(Debug, Clone)]
pub(crate) struct WatchBudget {
    used: Arc<AtomicUsize>,
}

/// Bytes of watched paths in one session.
pub(crate) const WATCH_BUDGET: usize = 96 * 1024;
/// The length field in front of each path.
const FRAMING: usize = 4;

/// A part of the budget; dropped with the watch.
#[derive(Debug)]
pub(crate) struct WatchReservation {
    used: Arc<AtomicUsize>,
    bytes: usize,
}

impl WatchBudget {
    pub(crate) fn new() -> Self {
        Self { used: Arc::new(AtomicUsize::new(0)) }
    }

    /// # Errors
    ///
    /// The number of bytes there would be, if that is over the limit.
    pub(crate) fn reserve(&self, path: &str) -> Result<WatchReservation, usize> {
        let bytes = path.len() + FRAMING;
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let reservation = WatchReservation { used: Arc::clone(&self.used), bytes };
        if before + bytes > WATCH_BUDGET { Err(before + bytes) } else { Ok(reservation) }
    }
}

impl Drop for WatchReservation {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_refuses_and_recovers() {
        let budget = WatchBudget::new();
        let path = "x".repeat(1020);
        let held: Vec<_> = (0..96).map(|_| budget.reserve(&path).unwrap()).collect();
        assert_eq!(budget.reserve(&path).unwrap_err(), 97 * 1024);
        drop(held);
        assert!(budget.reserve(&path).is_ok());
    }
}
