//! Reports the state that a task has read, while there is a connection.

use std::convert::Infallible;
use std::fmt::Debug;
use std::future::pending;

use curator_client::{CuratorClient, RecipeSupport as _};
use tokio::sync::watch;

/// A state that is known only while there is a connection.
pub(crate) trait ReportedState: Clone + Debug {
    /// The state reported before the first read, and without a recently confirmed connection.
    fn unknown() -> Self;

    /// Whether this state is the same as `reported`. Compares texts, because errors cannot be compared.
    fn repeats(&self, reported: &Self) -> bool {
        format!("{self:?}") == format!("{reported:?}")
    }
}

/// The sender of a state. Clones are handles to the same sender.
#[derive(Debug, Clone)]
pub(crate) struct StateSender<S> {
    client: CuratorClient,
    /// The state read last.
    pub(crate) read: watch::Sender<S>,
    pub(crate) reported: watch::Sender<S>,
}

impl<S: ReportedState> StateSender<S> {
    pub(crate) fn new(client: &CuratorClient) -> Self {
        let (read, reported) = (watch::Sender::new(S::unknown()), watch::Sender::new(S::unknown()));
        Self { client: client.clone(), read, reported }
    }

    /// Records the state that was read; it is reported while there is a connection. Returns whether the reported state
    /// changed.
    pub(crate) fn set(&self, read: S) -> bool {
        self.read.send_replace(read);
        self.refresh()
    }

    /// Records that the state read last may be outdated. It stays reported until the next [`refresh`](Self::refresh).
    pub(crate) fn forget(&self) {
        self.read.send_replace(S::unknown());
    }

    /// Checks the connection again, and reports the matching state. Returns whether the reported state changed.
    pub(crate) fn refresh(&self) -> bool {
        let is_connected = self.client.check_connected().is_ok();
        let state = if is_connected { self.read.borrow().clone() } else { S::unknown() };
        self.report(state)
    }

    /// Checks the connection at each of its changes. Poll this future after the one that reads the state, so that
    /// events of a watch are processed before changes of the connection.
    pub(crate) async fn follow_connection(&self) -> Infallible {
        let mut connection = self.client.connection_states();
        // The first item is the present state. While there is a connection, this is no change: a state that was just
        // forgotten stays reported.
        let mut has_changed = self.client.check_connected().is_err();
        while connection.next().await.is_some() {
            if std::mem::replace(&mut has_changed, true) {
                self.refresh();
            }
        }
        // The client is closing, which ends the task.
        pending().await
    }

    /// Reports this state, with or without a connection.
    pub(crate) fn report(&self, state: S) -> bool {
        self.reported.send_if_modified(|reported| {
            let is_new = !state.repeats(reported);
            if is_new {
                *reported = state;
            }
            is_new
        })
    }
}
