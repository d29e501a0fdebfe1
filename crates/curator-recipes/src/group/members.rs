//! The members of a group, and their changes.

use std::fmt;
use std::future::ready;

use curator_client::{Stat, ZPath};
use futures_util::StreamExt as _;

use crate::cache::{CacheEvent, CacheState, CachedNode, CuratorCache, Snapshot};
use crate::changes::Changes;
use crate::debug::debug_line;

/// A member of a group. Clones share it.
#[derive(Clone, PartialEq, Eq)]
pub struct Member {
    node: CachedNode,
}

impl Member {
    /// The id: the name of the node.
    #[must_use]
    pub fn id(&self) -> &str {
        self.node.path().name()
    }

    /// The data of the member.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.node.data()
    }

    /// The stat of the node: since when the member belongs to the group (`ctime`), and in which session
    /// (`ephemeral_owner`).
    #[must_use]
    pub fn stat(&self) -> &Stat {
        self.node.stat()
    }
}

debug_line!(Member, |member| id: member.id(), bytes: member.data().len());

/// The members of a group at one moment, ordered by id. Taking or cloning them increments a few reference counts.
#[derive(Clone)]
pub struct Members {
    group: ZPath,
    nodes: Snapshot,
}

impl Members {
    pub(super) fn new(group: &ZPath, nodes: Snapshot) -> Self {
        Self { group: group.clone(), nodes }
    }

    /// The member with this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<Member> {
        let node = self.nodes.get(&self.group.child(id).ok()?).node()?;
        Some(Member { node })
    }

    /// All members.
    pub fn iter(&self) -> impl Iterator<Item = Member> {
        self.nodes.children(&self.group).map(|node| Member { node: node.clone() })
    }

    /// The number of members. Takes time proportional to that number.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.children(&self.group).count()
    }

    /// Whether there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.children(&self.group).next().is_none()
    }

    /// Whether the members were up to date when they were taken: [`Loading`](CacheState::Loading) before the first read
    /// is complete, and [`Stale`](CacheState::Stale) without a connection.
    #[must_use]
    pub fn state(&self) -> CacheState {
        self.nodes.state()
    }
}

/// Prints the ids.
impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.nodes.children(&self.group).map(|node| node.path().name()).collect();
        f.debug_struct("Members").field("state", &self.state()).field("ids", &ids).finish()
    }
}

/// A change in a group.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum GroupEvent {
    /// The member has joined.
    Joined(Member),
    /// The data of the member was set.
    Changed {
        /// The member before.
        old: Member,
        /// The member now.
        new: Member,
    },
    /// The member has left: it was closed, or its session has ended. Contains its last known state.
    Left(Member),
    /// The members are up to date: all are loaded, or the changes of an outage have been reported.
    Ready,
    /// This consumer was too slow, and events were dropped. Contains the present members; later events follow them.
    Resync(Members),
}

/// The changes of a group, for one consumer; made by [`GroupMember::events`](crate::GroupMember::events).
///
/// A [`Stream`](futures_core::Stream); [`next`](Changes::next) works without the trait. It begins with a
/// [`Joined`](GroupEvent::Joined) for each known member, and [`Ready`](GroupEvent::Ready) if these are up to date. It
/// ends when the group member is closed.
///
/// # Guarantees
///
/// Those of [`CacheEvents`](crate::CacheEvents): applied in order, the events give the members, and a member's states
/// are reported in order. A member that has left and joined again between two reads is reported as left and joined,
/// even with the same data.
///
/// # Cancel safety
///
/// Nothing is lost when a future of the next item is dropped.
pub type GroupEvents = Changes<GroupEvent>;

pub(super) fn events(cache: &CuratorCache) -> GroupEvents {
    let group = cache.path().clone();
    Changes::new(cache.events().filter_map(move |event| ready(translate(&group, event))))
}

/// Converts an event; `None` for an event of the group's node.
fn translate(group: &ZPath, event: CacheEvent) -> Option<GroupEvent> {
    let member = |node: CachedNode| (node.path() != group).then_some(Member { node });
    Some(match event {
        CacheEvent::Created(node) => GroupEvent::Joined(member(node)?),
        CacheEvent::Changed { old, new } => GroupEvent::Changed { old: member(old)?, new: member(new)? },
        CacheEvent::Deleted(node) => GroupEvent::Left(member(node)?),
        CacheEvent::Ready => GroupEvent::Ready,
        CacheEvent::Resync(nodes) => GroupEvent::Resync(Members::new(group, nodes)),
    })
}
