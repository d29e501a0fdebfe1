//! Checks that a cache becomes current again soon after an outage, and that its stream reports
//! that.

use super::nodes::Snapshot;
use crate::history::CacheSeen;

/// For how long, in nanoseconds, a cache may be stale while no nemesis is active: a session timeout
/// plus a margin. A cache may be stale at any time, as a server on an overloaded machine may close
/// connections.
const MOST_STALE: u64 = 6_000_000_000;

/// Whether a stream and its cache have reported that the cache is current.
#[derive(Debug, Default)]
pub(super) struct Currency {
    /// Whether the cache was stale or loading, and the stream has not reported `Ready` or a resync
    /// since.
    ready_is_due: bool,
    /// Whether the stream has reported `Ready` or a resync.
    has_begun: bool,
    /// Whether the states of the cache are recorded with this stream.
    has_states: bool,
    /// Since when the cache has reported that it is not current.
    stale: Option<u64>,
}

impl Currency {
    /// Records an event. Returns the start of the stale period that this event ends, if that was
    /// longer than [`MOST_STALE`].
    pub(super) fn see(&mut self, at: u64, seen: &CacheSeen) -> Option<u64> {
        match seen {
            CacheSeen::Ready | CacheSeen::Resync { .. } => {
                (self.ready_is_due, self.has_begun) = (false, true)
            }
            CacheSeen::State { state } => {
                self.has_states = true;
                match state.as_str() {
                    "stale" | "loading" => self.ready_is_due = true,
                    _ => {
                        return self
                            .stale
                            .take()
                            .filter(|since| at.saturating_sub(*since) > MOST_STALE);
                    }
                }
            }
            _ => {}
        }
        None
    }

    /// Checks a snapshot that the conductor has requested. It requests snapshots while no nemesis
    /// is active and all clients are connected again.
    pub(super) fn check(&mut self, snapshot: &Snapshot) -> Option<&'static str> {
        // Peers do not report whether their caches are current.
        match snapshot.is_current? {
            false => {
                self.stale = self.stale.or(Some(snapshot.at)).filter(|_| self.has_states);
                None
            }
            true => {
                let has_no_ready = self.ready_is_due || !self.has_begun;
                has_no_ready.then_some("is current, but its stream has not reported Ready")
            }
        }
    }

    /// Since when the cache is stale, if it has not become current again.
    pub(super) fn stale(&self) -> Option<u64> {
        self.stale
    }
}
