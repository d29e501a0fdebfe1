//! The state of a persistent node and its wanted data, and how its task reports them.

use std::convert::Infallible;
use std::mem;
use std::sync::Arc;

use curator_client::source::watch;
use curator_client::{CuratorClient, Error as ClientError, Recovery, ZPath};

use super::{PersistentNodeError, owner_text};
use crate::task::report::{EventFailures, ReportedState, StateSender, Truncated};

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
    /// The server refuses to create the node, to read the existing node, or to write to the node
    /// that is to be adopted. The request is retried, after pauses of up to a second, in case the
    /// cause is repaired.
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
    /// Increases with each call of `set_data`.
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
        let states = StateSender::new(client);
        let reports = watch::Sender::default();
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
                report.node = Some(path.clone());
                report.error = None;
            }
            _ => {
                report.node = None;
                report.error = None;
            }
        });
        self.states.set(state.clone());
        self.log(&state);
    }

    fn log(&self, state: &PersistentNodeState) {
        let client = self.client.name();
        match state {
            PersistentNodeState::Foreign { path, owner } => {
                // In letters, because the log treats failures that differ only in digits as one.
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

    /// Ends the failures without logging their end, because the creation of the node is logged.
    pub(super) fn forget_failures(&self) {
        let _ = self.failures.recovered();
    }

    /// Logs each failure that was not logged when it began, once it has lasted.
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
        self.reports.send_modify(|report| {
            report.left = Some(left);
            report.node = None;
        });
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.states.report(PersistentNodeState::Closed);
    }
}

/// The data of a persistent node.
#[derive(Debug)]
pub(super) struct Contents {
    commands: watch::Receiver<Command>,
    reports: watch::Sender<Report>,
    /// The number of the latest data.
    number: u64,
    /// Whether the latest data is not written yet.
    pub(super) is_pending: bool,
    /// The data to write to the node: the latest, or the previous data if the server refuses the
    /// latest.
    pub(super) wanted: Arc<[u8]>,
    /// The data that the node had last.
    accepted: Arc<[u8]>,
    /// The data of writes whose replies have not arrived.
    in_doubt: Vec<Arc<[u8]>>,
}

/// The most writes in `in_doubt`: more than can plausibly be in flight on abandoned connections.
const MOST_IN_DOUBT: usize = 16;

impl Contents {
    pub(super) fn new(commands: watch::Receiver<Command>, reports: watch::Sender<Report>) -> Self {
        let Command { number, data, .. } = commands.borrow().clone();
        Self {
            commands,
            reports,
            number,
            is_pending: true,
            wanted: Arc::clone(&data),
            accepted: data,
            in_doubt: Vec::new(),
        }
    }

    /// Waits for new data.
    pub(super) async fn changed(&mut self) {
        while !self.update() {
            if self.commands.changed().await.is_err() {
                // The last handle was dropped, which ends the task.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Takes the latest data of the user. Returns whether it is new.
    pub(super) fn update(&mut self) -> bool {
        let Command { number, data, .. } = self.commands.borrow_and_update().clone();
        let is_new = number != self.number;
        if is_new {
            self.number = number;
            self.is_pending = true;
            self.wanted = data;
        }
        is_new
    }

    /// Records that a write of the wanted data is about to be sent.
    ///
    /// If the session ends, the write can still arrive after the node was created again in the next
    /// session: the new node can have the version that the write requires.
    pub(super) fn sent(&mut self) {
        self.in_doubt.push(Arc::clone(&self.wanted));
        if self.in_doubt.len() > MOST_IN_DOUBT {
            self.in_doubt.remove(0);
        }
    }

    /// Records that the reply to the last write has arrived.
    pub(super) fn answered(&mut self) {
        self.in_doubt.pop();
    }

    /// Whether the node may have this data because a write has arrived late. Each write counts
    /// once, because another client may write the same data later.
    pub(super) fn is_late(&mut self, data: &[u8]) -> bool {
        let Some(index) = self
            .in_doubt
            .iter()
            .position(|in_doubt| **in_doubt == *data)
        else {
            return false;
        };
        self.in_doubt.remove(index);
        true
    }

    /// Records that the node has the wanted data.
    pub(super) fn applied(&mut self) {
        self.accepted = Arc::clone(&self.wanted);
        if mem::take(&mut self.is_pending) {
            self.reports
                .send_modify(|report| report.applied = self.number);
        }
    }

    /// Whether there is older data that the server has accepted.
    pub(super) fn can_fall_back(&self) -> bool {
        !Arc::ptr_eq(&self.wanted, &self.accepted)
    }

    /// Records that the server refuses the latest data, and falls back to the accepted data.
    pub(super) fn refused(&mut self, error: ClientError) {
        self.is_pending = false;
        self.wanted = Arc::clone(&self.accepted);
        self.reports
            .send_modify(|report| report.refused = Some((self.number, error)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents() -> (watch::Sender<Command>, Contents, watch::Receiver<Report>) {
        let data = Arc::from(*b"first");
        let (commands_tx, commands_rx) = watch::channel(Command {
            data,
            number: 1,
            is_closing: false,
        });
        let (reports_tx, reports_rx) = watch::channel(Report::default());
        (
            commands_tx,
            Contents::new(commands_rx, reports_tx),
            reports_rx,
        )
    }

    fn set(commands: &watch::Sender<Command>, data: &[u8]) {
        commands.send_modify(|command| {
            command.data = data.into();
            command.number += 1;
        });
    }

    #[test]
    fn the_data_of_a_write_without_a_reply_is_recognized_once() {
        let (commands, mut contents, _reports) = contents();
        contents.sent();
        set(&commands, b"second");
        contents.update();
        contents.sent();
        contents.answered();
        assert!(!contents.is_late(b"second"));
        assert!(contents.is_late(b"first"));
        assert!(!contents.is_late(b"first"));
        (0..=MOST_IN_DOUBT).for_each(|_| contents.sent());
        assert_eq!(contents.in_doubt.len(), MOST_IN_DOUBT);
    }
}
