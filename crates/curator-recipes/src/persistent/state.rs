//! The state of a persistent node, and how its task reports it.

use std::sync::Arc;

use curator_client::{CuratorClient, Error as ClientError, RecipeSupport as _, ZPath};
use tokio::sync::watch;

use super::error::{PersistentNodeError, owner_text};
use crate::engine::known::{Known, KnownState};

/// What is known of the node of a [`PersistentNode`](crate::PersistentNode).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum PersistentNodeState {
    /// Not known: there is no connection over which the session was confirmed recently, or no answer yet.
    Unknown,
    /// The node does not exist. It is being created.
    Absent,
    /// The node exists, and is ours.
    Present {
        /// The node, with the mark of a protected one and the number of a sequential one.
        path: ZPath,
    },
    /// The path has a node of another owner. It is neither used nor deleted: when it is gone, ours is created.
    Foreign {
        /// The node.
        path: ZPath,
        /// The id of the session that it belongs to, which may be this client's; 0 if it is not ephemeral.
        owner: i64,
    },
    /// The server refuses to create the node, or to show the one that is there. That is tried again, after pauses of up to a second, in
    /// case the cause is repaired.
    Refused {
        /// Why.
        error: ClientError,
    },
    /// It is no longer kept: it was closed, or the client was, or its task has ended otherwise.
    Closed,
}

impl PersistentNodeState {
    /// Whether the node exists and is ours.
    #[must_use]
    pub fn is_present(&self) -> bool {
        matches!(self, Self::Present { .. })
    }
}

impl KnownState for PersistentNodeState {
    fn unknown() -> Self {
        Self::Unknown
    }

    /// Errors are compared by their texts.
    fn repeats(&self, reported: &Self) -> bool {
        format!("{self:?}") == format!("{reported:?}")
    }
}

/// What the user wants: the latest command.
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) data: Arc<[u8]>,
    /// Increases with each new data.
    pub(super) number: u64,
    pub(super) is_closing: bool,
}

/// What calls wait for, besides the state.
#[derive(Debug, Clone, Default)]
pub(super) struct Report {
    /// Our node, while it is there as far as is known.
    pub(super) node: Option<ZPath>,
    pub(super) error: Option<PersistentNodeError>,
    /// The number of the latest data that the node has, or has had.
    pub(super) applied: u64,
    /// The number of the latest data that the server has refused, and why.
    pub(super) refused: Option<(u64, ClientError)>,
    /// The result of the deletion at the end.
    pub(super) left: Option<Result<(), PersistentNodeError>>,
}

/// The senders of the task.
#[derive(Debug)]
pub(super) struct Reporter {
    client: CuratorClient,
    path: ZPath,
    pub(super) states: Known<PersistentNodeState>,
    pub(super) reports: watch::Sender<Report>,
}

impl Reporter {
    pub(super) fn new(client: &CuratorClient, path: &ZPath) -> Self {
        let (states, reports) = (Known::new(client), watch::Sender::default());
        Self { client: client.clone(), path: path.clone(), states, reports }
    }

    /// This is the state from now on, as far as there is a connection.
    pub(super) fn set(&self, state: PersistentNodeState) {
        let is_new = !state.repeats(&self.states.read.borrow());
        let client = self.client.name();
        match &state {
            PersistentNodeState::Foreign { path, owner } if is_new => {
                let owner = owner_text(*owner);
                tracing::warn!(client, %path, owner, "persistent node: another owner has the node; waiting for its end");
            }
            PersistentNodeState::Refused { error } if is_new => {
                tracing::warn!(client, path = %self.path, %error, "persistent node: the server refuses the node; trying again");
            }
            _ => {}
        }
        self.reports.send_modify(|report| match &state {
            PersistentNodeState::Unknown => {}
            PersistentNodeState::Refused { .. } => report.node = None,
            PersistentNodeState::Present { path } => (report.node, report.error) = (Some(path.clone()), None),
            _ => (report.node, report.error) = (None, None),
        });
        self.states.set(state);
    }

    /// An attempt has failed. If a retry cannot help, that is the state, unless the client has ended.
    pub(super) fn failed(&self, error: &ClientError) {
        tracing::debug!(client = self.client.name(), path = %self.path, %error, "persistent node");
        self.reports.send_modify(|report| report.error = Some(error.clone().into()));
        if !error.is_retryable() && self.client.check_connected().is_ok() {
            self.set(PersistentNodeState::Refused { error: error.clone() });
        }
    }

    pub(super) fn applied(&self, number: u64) {
        self.reports.send_modify(|report| report.applied = number);
    }

    pub(super) fn refused(&self, number: u64, error: ClientError) {
        let client = self.client.name();
        tracing::warn!(client, path = %self.path, %error, "persistent node: the server refuses its new data");
        self.reports.send_modify(|report| report.refused = Some((number, error)));
    }

    /// It is no longer kept; the deletion had this result.
    pub(super) fn left(&self, left: Result<(), PersistentNodeError>) {
        self.states.report(PersistentNodeState::Closed);
        self.reports.send_modify(|report| (report.left, report.node) = (Some(left), None));
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.states.report(PersistentNodeState::Closed);
    }
}
