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

#[cfg(test)]
mod tests {
    use super::*;

    fn contents() -> (watch::Sender<Command>, Contents) {
        let data = Arc::from(*b"first");
        let (commands, commanded) = watch::channel(Command { data, number: Contents::FIRST, is_closing: false });
        (commands, Contents::new(commanded))
    }

    fn set(commands: &watch::Sender<Command>, data: &[u8]) {
        commands.send_modify(|command| {
            command.data = data.into();
            command.number += 1;
        });
    }

    fn wanted(contents: &Contents) -> (u64, &[u8]) {
        let data = if contents.is_refused { &contents.applied } else { &contents.latest.data };
        (contents.wanted().number, data)
    }

    #[test]
    fn data_is_pending_until_it_was_applied() {
        let (commands, mut contents) = contents();
        assert!(contents.is_pending());
        contents.send();
        assert_eq!(contents.was_applied(), 1);
        assert!(!contents.is_pending() && !contents.update());
        set(&commands, b"second");
        set(&commands, b"third");
        assert!(contents.update() && contents.is_pending());
        assert_eq!(wanted(&contents), (3, &b"third"[..]));
        // Data that is set meanwhile is not what was applied.
        contents.send();
        set(&commands, b"fourth");
        assert!(contents.update());
        assert_eq!(contents.was_applied(), 3);
        assert!(contents.is_pending());
    }

    #[test]
    fn a_write_whose_answer_was_lost_is_recognised_by_its_data() {
        let (commands, mut contents) = contents();
        contents.send();
        assert!(contents.has_arrived(b"first") && !contents.has_arrived(b"other"));
        set(&commands, b"second");
        contents.update();
        assert!(!contents.has_arrived(b"first"), "it is not the latest");
        contents.send();
        assert!(contents.has_arrived(b"second"));
        contents.was_not_applied();
        assert!(!contents.has_arrived(b"second"));
        assert_eq!(contents.was_applied(), 0, "nothing was sent");
    }

    #[test]
    fn after_refused_data_the_node_has_what_was_applied_last() {
        let (commands, mut contents) = contents();
        assert!(!contents.can_fall_back());
        contents.send();
        contents.was_applied();
        for data in [b"refused", b"another"] {
            set(&commands, data);
            contents.update();
            assert!(contents.can_fall_back());
        }
        contents.send();
        assert_eq!(contents.was_refused(), 3);
        assert!(!contents.is_pending() && !contents.can_fall_back());
        assert_eq!(wanted(&contents), (0, &b"first"[..]));
        // It is created again.
        contents.send();
        assert_eq!(contents.was_applied(), 0);
        assert!(!contents.is_pending());
        set(&commands, b"new");
        contents.update();
        assert_eq!(wanted(&contents), (4, &b"new"[..]));
    }
}
