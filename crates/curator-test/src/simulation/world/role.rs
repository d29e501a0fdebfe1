//! Leader, follower, or neither.

use std::collections::{BTreeMap, BTreeSet};

use super::ServerId;
use crate::embedded::{ConnectionId, Millis};

/// What a server takes itself for.
#[derive(Debug)]
pub(crate) enum Role {
    /// It has no leader, and serves no client.
    Looking,
    Following {
        leader: ServerId,
        epoch: u32,
    },
    Leading(Leader),
}

impl Role {
    pub(super) fn is_leading(&self) -> bool {
        self.leading().is_some()
    }

    pub(super) fn leading(&self) -> Option<&Leader> {
        if let Self::Leading(leader) = self {
            Some(leader)
        } else {
            None
        }
    }

    pub(super) fn leading_mut(&mut self) -> Option<&mut Leader> {
        if let Self::Leading(leader) = self {
            Some(leader)
        } else {
            None
        }
    }

    pub(super) fn follows(&self, server: ServerId, its: u32) -> bool {
        matches!(self, Self::Following { leader, epoch } if *leader == server && *epoch == its)
    }
}

/// What only a leader knows.
#[derive(Debug)]
pub(crate) struct Leader {
    pub(crate) epoch: u32,
    /// The connection that each session last used.
    pub(super) owners: BTreeMap<i64, ConnectionId>,
    /// The sessions whose end was proposed.
    pub(super) closing: BTreeSet<i64>,
    /// When it looks for expired sessions next.
    pub(super) check: Option<Millis>,
    /// When the last proposal is acknowledged.
    pub(super) last_commit: Millis,
    /// Acknowledgements that arrived while there was no majority.
    pub(super) stalled: usize,
}

impl Leader {
    pub(super) fn new(epoch: u32) -> Self {
        Self {
            epoch,
            owners: BTreeMap::new(),
            closing: BTreeSet::new(),
            check: None,
            last_commit: 0,
            stalled: 0,
        }
    }
}
