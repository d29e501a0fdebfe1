//! Reports what a task has read, while there is a connection.

use curator_client::{CuratorClient, RecipeSupport as _};
use tokio::sync::watch;

/// A state that is known only while there is a connection.
pub(crate) trait KnownState: Clone {
    /// The state without a connection that was confirmed recently, and before anything was read.
    fn unknown() -> Self;

    /// Whether this says nothing that `reported` has not said.
    fn repeats(&self, reported: &Self) -> bool;
}

/// The sender of a state. Clones are handles to the same sender.
#[derive(Debug, Clone)]
pub(crate) struct Known<S> {
    client: CuratorClient,
    /// What was read last.
    pub(crate) read: watch::Sender<S>,
    pub(crate) reported: watch::Sender<S>,
}

impl<S: KnownState> Known<S> {
    pub(crate) fn new(client: &CuratorClient) -> Self {
        let (read, reported) = (watch::Sender::new(S::unknown()), watch::Sender::new(S::unknown()));
        Self { client: client.clone(), read, reported }
    }

    /// This was read, and is reported while there is a connection. Returns whether that is news.
    pub(crate) fn set(&self, read: S) -> bool {
        self.read.send_replace(read);
        self.refresh()
    }

    /// What was read may not be true any more. It is reported until the connection is in doubt.
    pub(crate) fn forget(&self) {
        self.read.send_replace(S::unknown());
    }

    /// The connection may have changed. Returns whether another state is reported now.
    pub(crate) fn refresh(&self) -> bool {
        let is_connected = self.client.check_connected().is_ok();
        let state = if is_connected { self.read.borrow().clone() } else { S::unknown() };
        self.report(state)
    }

    /// Reports this whether or not there is a connection.
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
