//! Which node at the path is ours.
//!
//! An ephemeral node is ours if a session of ours has created it: if its zxid is that of a create that was answered, or if it
//! belongs to a session whose create was not. A node of another mode is ours if its zxid is known from the answer, or if its
//! name is protected. Any other node is foreign.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use curator_client::Stat;

/// Whose the node at the path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// We have created it, and it stays while the current session lives.
    Ours,
    /// We have created it in a session that is over for us. The servers may not know that yet.
    OursOfAnEndedSession,
    /// Another client has created it, and we may take it over.
    Adoptable,
    /// Another client has created it, or another part of this program: in this session, or 0 if it is not ephemeral.
    Foreign(i64),
}

/// How nodes of ours are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recognition {
    /// By the session that they belong to.
    Ephemeral,
    /// By their names alone, which nobody else uses.
    Protected,
    /// By the answer to the create alone.
    Answered { adopts: bool },
}

/// The creates that were answered, in all persistent nodes of a client: by their zxids.
///
/// Two persistent nodes of one client at one path have the same session, and neither takes the other's node for its own.
#[derive(Debug, Default)]
pub(super) struct InClient(Mutex<BTreeSet<i64>>);

impl InClient {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<i64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one persistent node has created.
#[derive(Debug)]
pub(super) struct Claims {
    pub(super) recognition: Recognition,
    /// The node of the last create that was answered.
    confirmed: Option<Confirmed>,
    /// The sessions in which the answer to a create was lost since then.
    doubts: Vec<i64>,
    in_client: Arc<InClient>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Confirmed {
    pub(super) czxid: i64,
    /// The session that it belongs to; 0 if it is not ephemeral.
    pub(super) owner: i64,
}

/// More sessions than can be lost in a row between creates and their answers.
const MOST_DOUBTS: usize = 16;

impl Claims {
    pub(super) fn new(recognition: Recognition, in_client: Arc<InClient>) -> Self {
        Self { recognition, confirmed: None, doubts: Vec::new(), in_client }
    }

    /// Whose the node with this stat is, for a client in this session.
    pub(super) fn owner(&self, stat: &Stat, session: i64) -> Owner {
        let owner = owning_session(stat);
        // A client has one session at a time, so any other of its sessions is over.
        let ours = if owner == 0 || owner == session { Owner::Ours } else { Owner::OursOfAnEndedSession };
        if self.confirmed.is_some_and(|node| node.czxid == stat.czxid) {
            return ours;
        }
        let is_taken = || self.in_client.lock().contains(&stat.czxid);
        match self.recognition {
            Recognition::Ephemeral if self.doubts.contains(&owner) && !is_taken() => ours,
            Recognition::Protected if owner == 0 => Owner::Ours,
            Recognition::Answered { adopts: true } if owner == 0 && !is_taken() => Owner::Adoptable,
            _ => Owner::Foreign(owner),
        }
    }

    /// The node with this stat is ours.
    pub(super) fn confirm(&mut self, stat: &Stat) {
        let node = Confirmed { czxid: stat.czxid, owner: owning_session(stat) };
        if self.confirmed != Some(node) {
            self.abandon();
            self.in_client.lock().insert(node.czxid);
            self.confirmed = Some(node);
        }
        self.doubts.clear();
    }

    /// The answer to a create in this session was lost.
    pub(super) fn doubt(&mut self, session: i64) {
        if !self.doubts.contains(&session) {
            self.doubts.push(session);
        }
        if self.doubts.len() > MOST_DOUBTS {
            self.doubts.remove(0);
        }
    }

    /// Whether the answer to a create was lost, and its node has not been found.
    pub(super) fn is_in_doubt(&self) -> bool {
        !self.doubts.is_empty()
    }

    /// Whether that was in this session.
    pub(super) fn is_in_doubt_in(&self, session: i64) -> bool {
        self.doubts.contains(&session)
    }

    /// The create in this session, whose answer was lost, was not applied.
    pub(super) fn was_not_applied(&mut self, session: i64) {
        self.doubts.retain(|doubt| *doubt != session);
    }

    /// Forgets the node of the last create that was answered, and returns it.
    pub(super) fn abandon(&mut self) -> Option<Confirmed> {
        let node = self.confirmed.take()?;
        self.in_client.lock().remove(&node.czxid);
        Some(node)
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// The session that a node belongs to; 0 if it is not ephemeral.
pub(super) fn owning_session(stat: &Stat) -> i64 {
    /// The server marks a container by this owner,
    const CONTAINER: i64 = i64::MIN;
    /// and a node with a time to live by the first byte of it.
    const WITH_TTL: u64 = 0xff;
    match stat.ephemeral_owner {
        CONTAINER => 0,
        owner if owner.cast_unsigned() >> 56 == WITH_TTL => 0,
        owner => owner,
    }
}
