//! A cache is current again soon after an outage, and its stream says so.

use super::nodes::Snapshot;
use crate::history::CacheSeen;

/// What a stream and its cache have said of being current.
#[derive(Debug, Default)]
pub(super) struct Currency {
    /// Whether the stream owes a `Ready`: none has come since the cache was stale, or since it began.
    is_owed: bool,
    has_begun: bool,
}

impl Currency {
    pub(super) fn see(&mut self, seen: &CacheSeen) {
        match seen {
            CacheSeen::Ready | CacheSeen::Resync { .. } => (self.is_owed, self.has_begun) = (false, true),
            CacheSeen::State { state } if state == "stale" || state == "loading" => self.is_owed = true,
            _ => {}
        }
    }

    /// What is wrong with the answer to a question of the conductor: no nemesis is at work then, and all clients have come back.
    pub(super) fn check(&self, snapshot: &Snapshot) -> Option<&'static str> {
        // Peers do not say.
        let is_current = snapshot.is_current?;
        if !is_current {
            Some("is not current, though no nemesis is at work")
        } else if self.is_owed || !self.has_begun {
            Some("is current, and its stream has not reported Ready")
        } else {
            None
        }
    }
}
