//! Checks that a cache becomes current again soon after an outage, and that its stream reports that.

use super::nodes::Snapshot;
use crate::history::CacheSeen;

/// For how long, in nanoseconds, a cache may be stale while no nemesis is active: a session timeout plus a margin. On
/// an overloaded machine a server may close connections at any time.
const PATIENCE: u64 = 6_000_000_000;

/// What a stream and its cache have reported about being current.
#[derive(Debug, Default)]
pub(super) struct Currency {
    /// Whether the stream still has to report `Ready`: it has reported none since the cache was stale, or since the
    /// stream began.
    is_owed: bool,
    has_begun: bool,
    /// Whether the states of the cache are reported beside this stream.
    has_states: bool,
    /// Since when the cache has reported that it is not current.
    stale: Option<u64>,
}

impl Currency {
    /// Records an event. Returns the start of the stale period that this event ends, if that was longer than
    /// [`PATIENCE`].
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

    /// Checks the answer to a question of the conductor, which asks while no nemesis is active and all clients are
    /// connected again.
    pub(super) fn check(&mut self, snapshot: &Snapshot) -> Option<&'static str> {
        // Peers do not report it.
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

    /// Since when the cache is stale, if it has not become current again.
    pub(super) fn stale(&self) -> Option<u64> {
        self.stale
    }
}
