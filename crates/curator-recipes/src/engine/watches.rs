//! The watches of one contender, which the contest in `curator-protocol` requests, again after each
//! reconnect.
//!
//! Events of the contender's nodes are reported before events of other nodes.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use curator_client::{Session, SessionEnd, Watch, WatchEvent};
use curator_protocol::Event;

use super::watched_node::OwnWatch;

/// Watches on the contender's own nodes and on nodes ahead of them, in all its queues; and on a
/// semaphore's leases.
#[derive(Debug)]
pub(crate) struct Watches {
    /// One for each queue.
    pub(super) own: Vec<Option<OwnWatch>>,
    others: Vec<Other>,
    /// An event of another contender's node, kept back because an event of the contender's own node
    /// is reported first.
    kept: Option<Event>,
}

/// A watch, and the events to report when its node is deleted or changed.
#[derive(Debug)]
struct Other {
    deleted: Event,
    changed: Event,
    watch: Watch,
}

type Seen = Result<Event, SessionEnd>;

impl Watches {
    pub(crate) fn new(queues: usize) -> Self {
        Self {
            own: (0..queues).map(|_| None).collect(),
            others: Vec::new(),
            kept: None,
        }
    }

    pub(crate) fn set_own(&mut self, queue: usize, watch: OwnWatch) {
        if let Some(own) = self.own.get_mut(queue) {
            *own = Some(watch);
        }
    }

    pub(crate) fn set_ahead(&mut self, queue: usize, name: &str, watch: Watch) {
        let deleted = Event::AheadDeleted {
            queue,
            name: name.to_owned(),
        };
        let changed = Event::AheadChanged {
            queue,
            name: name.to_owned(),
        };
        self.set(deleted, changed, watch);
    }

    /// Sets the watch on the leases, or on their limit.
    pub(crate) fn set_claim(&mut self, event: &Event, watch: Watch) {
        self.set(event.clone(), event.clone(), watch);
    }

    /// Replaces the previous watch: there is at most one for each node.
    fn set(&mut self, deleted: Event, changed: Event, watch: Watch) {
        self.others.retain(|other| other.deleted != deleted);
        self.others.push(Other {
            deleted,
            changed,
            watch,
        });
    }

    /// Waits for the next event; `ended` completes when the session ends.
    ///
    /// On one connection, events arrive in the order of the server. But each watch has its own
    /// channel, so after an event of another contender's node, this polls the watches on the
    /// contender's own nodes again: an earlier event of these nodes has arrived by then.
    ///
    /// # Errors
    ///
    /// The session has ended.
    pub(crate) async fn next(
        &mut self,
        session: &Session,
        mut ended: Pin<&mut (impl Future<Output = SessionEnd> + Send)>,
    ) -> Seen {
        poll_fn(|cx| {
            if let Poll::Ready(end) = ended.as_mut().poll(cx) {
                return Poll::Ready(Err(end));
            }
            if let Poll::Ready(event) = self.poll_own(cx, session) {
                return Poll::Ready(event);
            }
            let other = match self.kept.take() {
                Some(event) => Ok(event),
                None => match self.poll_others(cx, session) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(event) => event,
                },
            };
            let Poll::Ready(earlier) = self.poll_own(cx, session) else {
                return Poll::Ready(other);
            };
            self.kept = if matches!(earlier, Ok(Event::Interrupted)) {
                // After a broken connection, the contest reads everything again.
                None
            } else {
                other.ok()
            };
            Poll::Ready(earlier)
        })
        .await
    }

    fn poll_own(&mut self, cx: &mut Context<'_>, session: &Session) -> Poll<Seen> {
        for queue in 0..self.own.len() {
            let Some(own) = &mut self.own[queue] else {
                continue;
            };
            if let Poll::Ready(event) = own.watch.poll_fired(cx) {
                self.own[queue] = None;
                return Poll::Ready(self.seen(
                    event,
                    session,
                    Event::OwnDeleted(queue),
                    Event::OwnChanged(queue),
                ));
            }
        }
        Poll::Pending
    }

    fn poll_others(&mut self, cx: &mut Context<'_>, session: &Session) -> Poll<Seen> {
        for index in 0..self.others.len() {
            if let Poll::Ready(event) = self.others[index].watch.poll_fired(cx) {
                let Other {
                    deleted, changed, ..
                } = self.others.remove(index);
                return Poll::Ready(self.seen(event, session, deleted, changed));
            }
        }
        Poll::Pending
    }

    fn seen(
        &mut self,
        event: WatchEvent,
        session: &Session,
        deleted: Event,
        changed: Event,
    ) -> Seen {
        match event {
            WatchEvent::Deleted => Ok(deleted),
            WatchEvent::SessionEnded => Err(session.end().unwrap_or(SessionEnd::Expired)),
            // The broken connection ended all watches; one read shows the missed changes.
            WatchEvent::Interrupted => {
                *self = Self::new(self.own.len());
                Ok(Event::Interrupted)
            }
            _ => Ok(changed),
        }
    }
}
