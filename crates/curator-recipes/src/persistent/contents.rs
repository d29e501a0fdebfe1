//! The data that the node is to have, and whether it has it.

use std::sync::Arc;

use tokio::sync::watch;

use super::state::Command;

/// Data of a persistent node, with a number that increases with each new data.
#[derive(Debug, Clone)]
pub(super) struct Numbered {
    pub(super) number: u64,
    pub(super) data: Arc<[u8]>,
}

/// The data of a persistent node.
#[derive(Debug)]
pub(super) struct Contents {
    commands: watch::Receiver<Command>,
    latest: Numbered,
    /// What the node has had last. If the latest data is refused, it is created with this.
    applied: Arc<[u8]>,
    /// The number of the latest data that was applied or refused.
    settled: u64,
    is_refused: bool,
    /// The last write, until its answer has come: it may be applied.
    sent: Option<Numbered>,
}

impl Contents {
    /// The number of the data that the node is configured with.
    pub(super) const FIRST: u64 = 1;

    pub(super) fn new(commands: watch::Receiver<Command>) -> Self {
        let Command { number, data, .. } = commands.borrow().clone();
        let applied = Arc::clone(&data);
        Self { commands, latest: Numbered { number, data }, applied, settled: 0, is_refused: false, sent: None }
    }

    /// Waits for new data.
    pub(super) async fn changed(&mut self) {
        loop {
            if self.update() {
                return;
            }
            if self.commands.changed().await.is_err() {
                // The last handle was dropped, which ends the task.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Takes what the user has set since. Returns whether it is new.
    pub(super) fn update(&mut self) -> bool {
        let Command { number, data, .. } = self.commands.borrow_and_update().clone();
        let is_new = number != self.latest.number;
        if is_new {
            self.latest = Numbered { number, data };
            self.is_refused = false;
        }
        is_new
    }

    /// The data that the node is to have. What it has had before has no number.
    pub(super) fn wanted(&self) -> Numbered {
        if self.is_refused { Numbered { number: 0, data: Arc::clone(&self.applied) } } else { self.latest.clone() }
    }

    /// Whether the latest data is still to be written.
    pub(super) fn is_pending(&self) -> bool {
        self.settled < self.latest.number
    }

    /// Whether the node, which has this data now, got it by a write of the latest data whose answer was lost.
    pub(super) fn has_arrived(&self, found: &[u8]) -> bool {
        self.sent.as_ref().is_some_and(|sent| sent.number == self.latest.number && *sent.data == *found)
    }

    /// Returns the data that is to be written now. Its answer may be lost.
    pub(super) fn send(&mut self) -> Numbered {
        let wanted = self.wanted();
        self.sent = Some(wanted.clone());
        wanted
    }

    /// The last write was applied. Returns its number.
    pub(super) fn was_applied(&mut self) -> u64 {
        let Some(Numbered { number, data }) = self.sent.take() else { return 0 };
        self.settled = self.settled.max(number);
        self.applied = data;
        number
    }

    /// The last write was not applied.
    pub(super) fn was_not_applied(&mut self) {
        self.sent = None;
    }

    /// Whether there is older data that may be acceptable, if the latest is not.
    pub(super) fn can_fall_back(&self) -> bool {
        !self.is_refused && self.latest.number > Self::FIRST
    }

    /// The server refuses the latest data: the node keeps the data before it. Returns its number.
    pub(super) fn was_refused(&mut self) -> u64 {
        self.sent = None;
        self.settled = self.latest.number;
        self.is_refused = true;
        self.settled
    }
}
