//! Faults by chance.

use super::{ServerId, World};
use crate::embedded::{Arrived, ConnectionId, Millis};

/// The state of the faults by chance.
#[derive(Debug, Default)]
pub(crate) struct Mischief {}

/// When a connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Instead of the next reply.
    Reply,
}

impl World {
    pub(super) fn cut_before(&mut self, _s: ServerId, _id: ConnectionId, _arrived: &Arrived) -> bool {
        false
    }

    pub(super) fn cut_after(&mut self, _id: ConnectionId) -> bool {
        false
    }

    pub(super) fn frame_latency(&mut self) -> Millis {
        self.latency()
    }

    pub(super) fn expire_late(&mut self, l: ServerId, epoch: u32) {
        self.expire(l, epoch);
    }

    pub(super) fn make_mischief(&mut self, _round: u64) {}
}
