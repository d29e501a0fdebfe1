//! A cache is current again soon after an outage, and its stream says so.

use super::nodes::Snapshot;
use crate::history::CacheSeen;

/// For how long, in nanoseconds, a cache may be stale while no nemesis is at work: a session timeout, and a little more. On a machine that
/// is too busy, a server may end connections at any time.
const PATIENCE: u64 = 6_000_000_000;

/// What a stream and its cache have said of being current.
#[derive(Debug, Default)]
pub(super) struct Currency {
    /// Whether the stream owes a `Ready`: none has come since the cache was stale, or since it began.
    is_owed: bool,
    has_begun: bool,
    /// Whether the states of the cache are reported beside this stream.
    has_states: bool,
    /// Since when the cache is not current, as it has answered.
    stale: Option<u64>,
}

impl Currency {
    /// Returns since when the cache was not current, if that was too long.
    pub(super) fn see(&mut self, at: u64, seen: &CacheSeen) -> Option<u64> {
        match seen {
            CacheSeen::Ready | CacheSeen::Resync { .. } => (self.is_owed, self.has_begun) = (false, true),
            CacheSeen::State { state } => {
                self.has_states = true;
                match state.as_str() {
                    "stale" | "loading" => self.is_owed = true,
                    _ => return self.stale.take().filter(|since| at.saturating_sub(*since) > PATIENCE),
                }
            }
            _ => {}
        }
        None
    }

    /// What is wrong with the answer to a question of the conductor: no nemesis is at work then, and all clients have come back.
    pub(super) fn check(&mut self, snapshot: &Snapshot) -> Option<&'static str> {
        // Peers do not say.
        match snapshot.is_current? {
            false => {
                self.stale = self.stale.or(Some(snapshot.at)).filter(|_| self.has_states);
                None
            }
            true => {
                let is_silent = self.is_owed || !self.has_begun;
                is_silent.then_some("is current, and its stream has not reported Ready")
            }
        }
    }

    /// Since when the cache is not current, if it never was again.
    pub(super) fn stale(&self) -> Option<u64> {
        self.stale
    }
}
