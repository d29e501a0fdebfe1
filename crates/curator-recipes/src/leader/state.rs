//! The leadership state of a participant.

use crate::fencing::FencingToken;

/// Whether a participant leads, as reported by a [`LeaderLatch`](super::LeaderLatch).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaderState {
    /// It leads, in the term with this token.
    Leader {
        /// Increases from leader to leader.
        token: FencingToken,
    },
    /// It has a connection and does not lead: it waits in the queue, or stands aside.
    Follower,
    /// It does not lead, and the leader is not known: there is no connection, or the session is
    /// suspended; it cannot take part (see
    /// [`LeaderLatch::last_error`](super::LeaderLatch::last_error)); or the latch has ended.
    Unknown,
}

impl LeaderState {
    /// Whether it is [`Leader`](Self::Leader).
    #[must_use]
    pub fn is_leader(self) -> bool {
        matches!(self, Self::Leader { .. })
    }
}
