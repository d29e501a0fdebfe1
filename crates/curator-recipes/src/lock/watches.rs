//! The watches of one contender, and the order of what they see.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use curator_client::{Session, SessionEnd, Watch, WatchEvent};

use super::contest::Event;
use super::own_node::OwnWatch;

/// Watches on the contender's own nodes and on nodes ahead of them, in all its queues.
#[derive(Debug)]
pub(crate) struct Watches {
    /// One for each queue.
    own: Vec<Option<OwnWatch>>,
    ahead: Vec<Ahead>,
    /// Seen ahead, and not told yet because something of an own node came first.
    kept: Option<Seen>,
}

#[derive(Debug)]
struct Ahead {
    queue: usize,
    name: String,
    watch: Watch,
}

/// An event, and the queue that it is of.
type Seen = (usize, Event);

impl Watches {
    pub(crate) fn new(queues: usize) -> Self {
        Self { own: (0..queues).map(|_| None).collect(), ahead: Vec::new(), kept: None }
    }

    pub(crate) fn set_own(&mut self, queue: usize, watch: OwnWatch) {
        if let Some(own) = self.own.get_mut(queue) {
            *own = Some(watch);
        }
    }

    /// At most one watch for each node.
    pub(crate) fn set_ahead(&mut self, queue: usize, name: String, watch: Watch) {
        self.ahead.retain(|ahead| ahead.queue != queue || ahead.name != name);
        self.ahead.push(Ahead { queue, name, watch });
    }

    /// Keeps the watches on the own nodes, for a hold to learn of its loss.
    pub(crate) fn into_own(self) -> Vec<Option<OwnWatch>> {
        self.own
    }

    /// Waits for the next event.
    ///
    /// On one connection events arrive in the order of the server, but each watch has its own channel, so this looks at
    /// the own nodes again when something was seen ahead: had one been deleted before, it shows by then.
    ///
    /// # Errors
    ///
    /// The session is over.
    pub(crate) async fn next(&mut self, session: &Session) -> Result<Seen, SessionEnd> {
        let mut ended = pin!(session.ended());
        poll_fn(|cx| {
            if let Poll::Ready(end) = ended.as_mut().poll(cx) {
                return Poll::Ready(Err(end));
            }
            let seen = self.poll_own(cx);
            if seen.is_ready() {
                return seen.map(|event| event.ok_or_else(|| over(session)));
            }
            let ahead = match self.kept.take() {
                Some(event) => Some(event),
                None => match self.poll_ahead(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(event) => event,
                },
            };
            let Some(ahead) = ahead else { return Poll::Ready(Err(over(session))) };
            match self.poll_own(cx) {
                Poll::Pending => Poll::Ready(Ok(ahead)),
                Poll::Ready(earlier) => {
                    // What was seen over a connection that broke is shown by the look that follows.
                    let is_void = matches!(&earlier, Some((queue, Event::Uncertain)) if *queue == ahead.0);
                    self.kept = (!is_void).then_some(ahead);
                    Poll::Ready(earlier.ok_or_else(|| over(session)))
                }
            }
        })
        .await
    }

    fn poll_own(&mut self, cx: &mut Context<'_>) -> Poll<Option<Seen>> {
        for queue in 0..self.own.len() {
            let Some(OwnWatch { watch, .. }) = &mut self.own[queue] else { continue };
            let Poll::Ready(event) = watch.poll_fired(cx) else { continue };
            self.own[queue] = None;
            return Poll::Ready(match event {
                WatchEvent::Deleted => Some((queue, Event::OwnDeleted)),
                WatchEvent::SessionEnded => None,
                WatchEvent::Interrupted => Some(self.interrupted(queue)),
                _ => Some((queue, Event::OwnChanged)),
            });
        }
        Poll::Pending
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Option<Seen>> {
        for index in 0..self.ahead.len() {
            let Poll::Ready(event) = self.ahead[index].watch.poll_fired(cx) else { continue };
            let Ahead { queue, name, .. } = self.ahead.remove(index);
            return Poll::Ready(match event {
                // It has come over the connection that the other watches are on, too, so its order can be trusted.
                WatchEvent::Deleted => Some((queue, Event::AheadDeleted { name, certain: true })),
                WatchEvent::SessionEnded => None,
                WatchEvent::Interrupted => Some(self.interrupted(queue)),
                _ => Some((queue, Event::AheadChanged { name })),
            });
        }
        Poll::Pending
    }

    /// The connection broke, and with it all watches of this queue: one look tells what they have missed.
    fn interrupted(&mut self, queue: usize) -> Seen {
        self.own[queue] = None;
        self.ahead.retain(|ahead| ahead.queue != queue);
        self.kept.take_if(|(kept, _)| *kept == queue);
        (queue, Event::Uncertain)
    }
}

fn over(session: &Session) -> SessionEnd {
    session.end().unwrap_or(SessionEnd::Expired)
}
