//! The states of the connection, and the publisher of their transitions.

use std::fmt;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::mpsc;

use crate::text::debug_line;
use crate::time::ClockInstant;

/// The state of the connection to the ensemble, in Curator's terms
/// (`org.apache.curator.framework.state.ConnectionState`).
///
/// `Display` writes it as a word in lower case, such as `suspended`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
#[non_exhaustive]
pub enum ConnectionState {
    /// Not connected yet: the client was just [started](crate::CuratorClientBuilder::start), and
    /// has had no session. Curator has no state for this.
    Connecting,
    /// Connected for the first time.
    Connected,
    /// The connection is down, or the session has not been confirmed recently. Locks are still
    /// held, but work that needs a confirmed session must stop now.
    Suspended,
    /// The session was confirmed again by an answered request. After [`Lost`](Self::Lost) this
    /// means a *new* session.
    Reconnected,
    /// The session has ended, or may have ended: all its locks are lost.
    Lost,
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Applies the padding of the formatter.
        f.pad(match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Suspended => "suspended",
            Self::Reconnected => "reconnected",
            Self::Lost => "lost",
        })
    }
}

/// A [`Stream`] of every state transition after the subscription, in order, without omissions or
/// merging.
///
/// The first item is the state at the time of the subscription. Unread transitions are kept in
/// memory. The stream ends when the client is closed. [`next`](Self::next) needs no extension
/// trait.
pub struct ConnectionStates {
    receiver: mpsc::UnboundedReceiver<ConnectionState>,
}

debug_line!(ConnectionStates, |this| unread: this.receiver.len());

impl ConnectionStates {
    /// Waits for the next transition. Returns `None` once the client is closed.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<ConnectionState> {
        self.receiver.recv().await
    }

    /// Waits until `state` is reached, and skips every other state. Returns `false` if the client
    /// is closed first.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, states that have been skipped are lost.
    pub async fn wait_for(&mut self, state: ConnectionState) -> bool {
        while let Some(next) = self.next().await {
            if next == state {
                return true;
            }
        }
        false
    }
}

impl Stream for ConnectionStates {
    type Item = ConnectionState;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ConnectionState>> {
        self.get_mut().receiver.poll_recv(cx)
    }
}

/// Publishes all transitions. Named after Curator's class.
#[derive(Debug)]
pub(crate) struct ConnectionStateManager {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    current: ConnectionState,
    /// The start of the current state.
    since: ClockInstant,
    subscribers: Option<Vec<mpsc::UnboundedSender<ConnectionState>>>,
}

impl Inner {
    fn set(&mut self, state: ConnectionState) {
        if self.current != state {
            self.current = state;
            self.since = ClockInstant::now();
        }
    }
}

impl ConnectionStateManager {
    pub(crate) fn new(current: ConnectionState) -> Self {
        let since = ClockInstant::now();
        let subscribers = Some(Vec::new());
        Self {
            inner: Mutex::new(Inner {
                current,
                since,
                subscribers,
            }),
        }
    }

    pub(crate) fn current(&self) -> ConnectionState {
        self.lock().current
    }

    /// The current state, and its start.
    pub(crate) fn current_since(&self) -> (ConnectionState, ClockInstant) {
        let inner = self.lock();
        (inner.current, inner.since)
    }

    pub(crate) fn subscribe(&self) -> ConnectionStates {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut inner = self.lock();
        // The receiver still exists here, so this cannot fail.
        let _ = sender.send(inner.current);
        if let Some(subscribers) = &mut inner.subscribers {
            subscribers.retain(|subscriber| !subscriber.is_closed());
            subscribers.push(sender);
        }
        ConnectionStates { receiver }
    }

    /// Publishes a transition; does nothing if `state` is the current one.
    pub(crate) fn publish(&self, state: ConnectionState) {
        let mut inner = self.lock();
        if inner.current == state {
            return;
        }
        inner.set(state);
        if let Some(subscribers) = &mut inner.subscribers {
            subscribers.retain(|subscriber| subscriber.send(state).is_ok());
        }
    }

    /// Publishes that the connection is confirmed: `Reconnected` if the state was `Suspended`.
    pub(crate) fn publish_confirmed(&self) {
        if self.current() == ConnectionState::Suspended {
            self.publish(ConnectionState::Reconnected);
        }
    }

    /// Ends every subscription, which notifies the subscribers. From now on, the current state is
    /// `Lost`.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        inner.set(ConnectionState::Lost);
        inner.subscribers = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_subscription_is_a_stream_of_every_transition_in_order() {
        use ConnectionState::{Connected, Reconnected, Suspended};
        use futures_util::StreamExt as _;

        let manager = ConnectionStateManager::new(Connected);
        let states = manager.subscribe();
        for _ in 0..3 {
            manager.publish(Suspended);
            manager.publish(Suspended);
            manager.publish(Reconnected);
        }
        manager.close();
        let expected = [
            Connected,
            Suspended,
            Reconnected,
            Suspended,
            Reconnected,
            Suspended,
            Reconnected,
        ];
        assert_eq!(states.collect::<Vec<_>>().await, expected);
    }
}
