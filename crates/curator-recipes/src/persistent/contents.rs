//! Tracks the wanted data of a persistent node, and reports whether it is written.

use std::mem;
use std::sync::Arc;

use curator_client::Error;
use curator_client::source::watch;

use super::state::{Command, Report};

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

/// More writes than can plausibly be under way in connections that were given up.
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
            (self.number, self.is_pending, self.wanted) = (number, true, data);
        }
        is_new
    }

    /// Records that a write of the wanted data is about to be sent.
    ///
    /// If its session ends, it can still arrive after the node was created again in the next one:
    /// the new node can have the version that the write requires.
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

    /// Whether the node has this data by a late write. Only the first time: another client may
    /// write the same.
    pub(super) fn is_late(&mut self, data: &[u8]) -> bool {
        let late = self
            .in_doubt
            .iter()
            .position(|in_doubt| **in_doubt == *data);
        late.map(|late| self.in_doubt.remove(late)).is_some()
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
    pub(super) fn refused(&mut self, error: Error) {
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
        let (commands, commanded) = watch::channel(Command {
            data,
            number: 1,
            is_closing: false,
        });
        let (reports, report) = watch::channel(Report::default());
        (commands, Contents::new(commanded, reports), report)
    }

    fn set(commands: &watch::Sender<Command>, data: &[u8]) {
        commands.send_modify(|command| {
            command.data = data.into();
            command.number += 1;
        });
    }

    #[test]
    fn the_data_of_a_write_without_a_reply_is_recognized_once() {
        let (commands, mut contents, _report) = contents();
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
