//! What a participant knows of its leadership.

use crate::fencing::FencingToken;

/// Whether a participant leads, as a [`LeaderLatch`](super::LeaderLatch) reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaderState {
    /// It leads, for the term with this token.
    Leader {
        /// Increases from leader to leader.
        token: FencingToken,
    },
    /// It has a connection, and does not lead: it waits for its turn, or stands aside.
    Follower,
    /// It has no connection, so it does not lead, and does not know who does. Also when requests fail: see
    /// [`LeaderLatch::last_error`](super::LeaderLatch::last_error).
    Unknown,
}

impl LeaderState {
    /// Whether it is [`Leader`](Self::Leader).
    #[must_use]
    pub fn is_leader(self) -> bool {
        matches!(self, Self::Leader { .. })
    }
}
