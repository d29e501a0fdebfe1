//! The state of a persistent node, and how its task reports it.

use std::convert::Infallible;
use std::sync::Arc;

use curator_client::source::watch;
use curator_client::{CuratorClient, Error as ClientError, RecipeSupport as _, Recovery, ZPath};

use super::error::{PersistentNodeError, owner_text};
use crate::engine::event_failures::EventFailures;
use crate::engine::log::Truncated;
use crate::engine::state_sender::{ReportedState, StateSender};

/// The state of a [`PersistentNode`](crate::PersistentNode).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum PersistentNodeState {
    /// Not known: there is no recently confirmed connection, or no reply yet.
    Unknown,
    /// The node does not exist. It is being created.
    Absent,
    /// The node exists, and belongs to this persistent node.
    Present {
        /// The node, including the protection prefix and the sequence number, if any.
        path: ZPath,
    },
    /// Another owner has a node at the path. The persistent node neither uses nor deletes it, and
    /// creates its node once the other one is deleted. A sequential node takes another number
    /// instead. With [`adopt_existing`](super::PersistentNodeBuilder::adopt_existing), this is also
    /// the state if other clients change the node too often for it to be taken over; the persistent
    /// node tries again, after pauses of up to a second.
    Foreign {
        /// The node.
        path: ZPath,
        /// The id of the session that it belongs to, which may be this client's; 0 if it is not
        /// ephemeral.
        owner: i64,
    },
    /// The server refuses to create the node, to read the existing one, or to write to the one to
    /// adopt. The request is retried, after pauses of up to a second, in case the cause is
    /// repaired.
    Refused {
        /// Why.
        error: ClientError,
    },
    /// The node is no longer kept: the persistent node or the client was closed, or the task has
    /// ended for another reason.
    Closed,
}

impl PersistentNodeState {
    /// Whether the node exists and belongs to this persistent node.
    #[must_use]
    pub fn is_present(&self) -> bool {
        matches!(self, Self::Present { .. })
    }
}

impl ReportedState for PersistentNodeState {
    fn unknown() -> Self {
        Self::Unknown
    }
}

/// The latest command of the user.
#[derive(Debug, Clone)]
pub(super) struct Command {
    pub(super) data: Arc<[u8]>,
    /// Increases with each new data.
    pub(super) number: u64,
    pub(super) is_closing: bool,
}

/// The results that calls wait for, besides the state.
#[derive(Debug, Clone, Default)]
pub(super) struct Report {
    /// The persistent node's path, while it is believed to exist.
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
    pub(super) states: StateSender<PersistentNodeState>,
    pub(super) reports: watch::Sender<Report>,
    failures: EventFailures<PersistentNodeState>,
}

impl Reporter {
    pub(super) fn new(client: &CuratorClient, path: &ZPath) -> Self {
        let (states, reports) = (StateSender::new(client), watch::Sender::default());
        Self {
            client: client.clone(),
            path: path.clone(),
            states,
            reports,
            failures: EventFailures::new(),
        }
    }

    /// Sets the state, which is reported while there is a connection.
    pub(super) fn set(&self, state: PersistentNodeState) {
        self.reports.send_modify(|report| match &state {
            PersistentNodeState::Unknown => {}
            PersistentNodeState::Refused { .. } => report.node = None,
            PersistentNodeState::Present { path } => {
                (report.node, report.error) = (Some(path.clone()), None);
            }
            _ => (report.node, report.error) = (None, None),
        });
        self.states.set(state.clone());
        self.log(&state);
    }

    fn log(&self, state: &PersistentNodeState) {
        let client = self.client.name();
        match state {
            PersistentNodeState::Foreign { path, owner } => {
                // As letters: two failures that differ only in numbers would be the same.
                let owner_key: String = format!("{owner:x}")
                    .bytes()
                    .map(|digit| char::from(digit + 0x40))
                    .collect();
                let owner = owner_text(*owner);
                if self
                    .failures
                    .failed(format_args!("another owner: {owner_key}"), state)
                {
                    tracing::warn!(client, %path, owner, "persistent node: another owner has the node; waiting until it is deleted");
                }
            }
            PersistentNodeState::Refused { error } => {
                if self.failures.failed(error, state) {
                    tracing::warn!(client, path = %self.path, error = %Truncated(error), "persistent node: the server refuses the node; trying again");
                }
            }
            PersistentNodeState::Present { path } => {
                if let Some(Recovery {
                    lasted, failures, ..
                }) = self.failures.recovered()
                {
                    tracing::info!(client, %path, ?lasted, failures, "persistent node: present again");
                }
            }
            _ => self.failures.superseded(),
        }
    }

    /// Ends the failures without a line, because the creation of the node is logged.
    pub(super) fn forget_failures(&self) {
        let _ = self.failures.recovered();
    }

    /// Logs failures that last, and were not logged when they began.
    pub(super) async fn log_lasting_failures(&self) -> Infallible {
        loop {
            let state = self.failures.due(&self.client).await;
            self.log(&state);
        }
    }

    /// Records a failed attempt. If a retry cannot help and there is a connection, the state
    /// becomes `Refused`.
    pub(super) fn failed(&self, error: &ClientError) {
        tracing::debug!(client = self.client.name(), path = %self.path, error = %Truncated(error), "persistent node");
        self.reports
            .send_modify(|report| report.error = Some(error.clone().into()));
        if !error.is_retryable() && self.client.check_connected().is_ok() {
            self.set(PersistentNodeState::Refused {
                error: error.clone(),
            });
        }
    }

    /// Records the result of the deletion at the end.
    pub(super) fn left(&self, left: Result<(), PersistentNodeError>) {
        self.reports
            .send_modify(|report| (report.left, report.node) = (Some(left), None));
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.states.report(PersistentNodeState::Closed);
    }
}
