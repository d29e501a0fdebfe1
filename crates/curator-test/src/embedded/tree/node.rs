//! A node of the tree.

use std::collections::BTreeSet;

use curator_client::Stat;

use crate::embedded::acl::Acl;

/// The lifetime of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    Persistent,
    /// Ends with this session.
    Ephemeral(i64),
    /// Ends after its last child is deleted.
    Container,
    /// Ends after this many milliseconds without changes and children.
    Ttl(i64),
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) data: Option<Vec<u8>>,
    pub(crate) acl: Vec<Acl>,
    pub(crate) lifetime: Lifetime,
    pub(crate) children: BTreeSet<String>,
    pub(crate) state: State,
}

/// The zxids, times and counters of a node. Small, so that a transaction can keep the old ones for
/// an undo.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) czxid: i64,
    pub(crate) mzxid: i64,
    pub(crate) pzxid: i64,
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
    pub(crate) version: i32,
    pub(crate) aversion: i32,
    /// How many children were ever created, at most `i32::MAX`. The source of sequence numbers.
    pub(crate) creates: i32,
}

impl Node {
    pub(crate) fn new(
        data: Option<Vec<u8>>,
        acl: Vec<Acl>,
        lifetime: Lifetime,
        state: State,
    ) -> Self {
        Self {
            data,
            acl,
            lifetime,
            children: BTreeSet::new(),
            state,
        }
    }

    pub(crate) fn stat(&self) -> Stat {
        let number = |length: usize| i32::try_from(length).unwrap_or(i32::MAX);
        let num_children = number(self.children.len());
        let State {
            czxid,
            mzxid,
            pzxid,
            ctime,
            mtime,
            version,
            aversion,
            creates,
        } = self.state;
        let mut stat = Stat::default();
        (stat.czxid, stat.mzxid, stat.pzxid) = (czxid, mzxid, pzxid);
        (stat.ctime, stat.mtime) = (ctime, mtime);
        (stat.version, stat.aversion) = (version, aversion);
        // The number of changes: one for each child that exists, two for each that was deleted.
        stat.cversion = creates.wrapping_mul(2).wrapping_sub(num_children);
        stat.ephemeral_owner = if let Lifetime::Ephemeral(owner) = self.lifetime {
            owner
        } else {
            0
        };
        stat.data_length = number(self.data.as_ref().map_or(0, Vec::len));
        stat.num_children = num_children;
        stat
    }

    /// Whether the server may remove the node now: an empty container that has had children, or an
    /// expired TTL node.
    pub(crate) fn is_removable(&self, now: i64) -> bool {
        let over = match self.lifetime {
            Lifetime::Persistent | Lifetime::Ephemeral(_) => false,
            Lifetime::Container => self.state.creates > 0,
            Lifetime::Ttl(ttl) => now.saturating_sub(self.state.mtime) > ttl,
        };
        over && self.children.is_empty()
    }
}
