//! The watches of one contender, and the order of what they see.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use curator_client::{Session, SessionEnd, Watch, WatchEvent};

use super::contest::Event;

/// Watches on the contender's own node and on nodes ahead of it.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    own: Option<Watch>,
    ahead: Vec<(String, Watch)>,
    /// Seen ahead, and not told yet because something of our own node came first.
    kept: Option<Event>,
}

impl Watches {
    pub(crate) fn set_own(&mut self, watch: Watch) {
        self.own = Some(watch);
    }

    /// At most one watch for each node.
    pub(crate) fn set_ahead(&mut self, name: String, watch: Watch) {
        self.ahead.retain(|(watched, _)| *watched != name);
        self.ahead.push((name, watch));
    }

    /// Keeps the watch on the own node, for a hold to learn of its loss.
    pub(crate) fn into_own(self) -> Option<Watch> {
        self.own
    }

    /// Waits for the next event.
    ///
    /// On one connection events arrive in the order of the server, but each watch has its own channel, so this looks at
    /// the own node again when something was seen ahead: had our node been deleted before, it shows by then.
    ///
    /// # Errors
    ///
    /// The session is over.
    pub(crate) async fn next(&mut self, session: &Session) -> Result<Event, SessionEnd> {
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
                    self.kept = Some(ahead);
                    Poll::Ready(earlier.ok_or_else(|| over(session)))
                }
            }
        })
        .await
    }

    fn poll_own(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        let Some(watch) = &mut self.own else { return Poll::Pending };
        let Poll::Ready(event) = watch.poll_fired(cx) else { return Poll::Pending };
        self.own = None;
        Poll::Ready(match event {
            WatchEvent::Deleted => Some(Event::OwnDeleted),
            WatchEvent::SessionEnded => None,
            _ => Some(Event::OwnChanged),
        })
    }

    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        for index in 0..self.ahead.len() {
            let (_, watch) = &mut self.ahead[index];
            let Poll::Ready(event) = watch.poll_fired(cx) else { continue };
            let certain = watch.connection_is_unbroken();
            let (name, _) = self.ahead.remove(index);
            return Poll::Ready(match event {
                WatchEvent::Deleted => Some(Event::AheadDeleted { name, certain }),
                WatchEvent::SessionEnded => None,
                _ => Some(Event::AheadChanged { name }),
            });
        }
        Poll::Pending
    }
}

fn over(session: &Session) -> SessionEnd {
    session.end().unwrap_or(SessionEnd::Expired)
}
