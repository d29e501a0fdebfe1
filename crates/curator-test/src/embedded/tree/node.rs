//! A node of the tree, and the rules for its path.

use std::collections::BTreeSet;

use curator_client::Stat;

use crate::embedded::{acl::Acl, code::Code, family::Family};

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

/// The zxids, times and counters of a node. Small, so that a transaction can keep a copy for an
/// undo.
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
    /// How often the data of children was set.
    pub(crate) child_writes: i32,
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

    /// The stat as a server of this family reports it.
    pub(crate) fn stat(&self, family: Family) -> Stat {
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
            child_writes,
        } = self.state;
        let mut stat = Stat::default();
        (stat.czxid, stat.mzxid, stat.pzxid) = (czxid, mzxid, pzxid);
        (stat.ctime, stat.mtime) = (ctime, mtime);
        (stat.version, stat.aversion) = (version, aversion);
        // The number of changes: one for each child that exists, two for each that was deleted.
        let changes = creates.wrapping_mul(2).wrapping_sub(num_children);
        stat.cversion = match family {
            Family::ZooKeeper => changes,
            Family::ClickHouseKeeper => changes.wrapping_add(child_writes),
            Family::RaftKeeper => creates,
        };
        stat.ephemeral_owner = match self.lifetime {
            Lifetime::Ephemeral(owner) => owner,
            Lifetime::Container if family == Family::ClickHouseKeeper => i64::MIN,
            Lifetime::Container | Lifetime::Persistent | Lifetime::Ttl(_) => 0,
        };
        stat.data_length = number(self.data.as_ref().map_or(0, Vec::len));
        stat.num_children = num_children;
        stat
    }

    /// Whether the server may remove the node now: an empty container that has had children, or whose
    /// data is older than `unused`; or an expired TTL node. ZooKeeper's `ContainerManager` counts
    /// both times from the `mtime`.
    pub(crate) fn is_removable(&self, now: i64, unused: Option<i64>) -> bool {
        let over = match self.lifetime {
            Lifetime::Persistent | Lifetime::Ephemeral(_) => false,
            Lifetime::Container => {
                let age = now.saturating_sub(self.state.mtime);
                self.state.creates > 0 || unused.is_some_and(|unused| age > unused)
            }
            Lifetime::Ttl(ttl) => now.saturating_sub(self.state.mtime) > ttl,
        };
        over && self.children.is_empty()
    }
}

/// The parent of a path. The path itself is not validated.
///
/// If the parent is the root, returns the empty path.
pub(crate) fn parent(path: &str) -> Result<&str, Code> {
    match path.rsplit_once('/') {
        Some((parent, _)) if !path.contains('\0') => Ok(parent),
        _ => Err(Code::BadArguments),
    }
}

/// The last component of a path.
pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// All ancestors of a path, the nearest first, up to the root.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(above(path), |path| above(path))
}

fn above(path: &str) -> Option<&str> {
    let (above, name) = path.rsplit_once('/')?;
    match (above, name) {
        ("", "") => None,
        ("", _) => Some("/"),
        (above, _) => Some(above),
    }
}

/// The rules of ZooKeeper's `PathUtils.validatePath`.
pub(crate) fn validate_path(path: &str) -> Result<(), Code> {
    let Some(names) = path.strip_prefix('/') else {
        return Err(Code::BadArguments);
    };
    if names.is_empty()
        || names
            .split('/')
            .all(|name| !matches!(name, "" | "." | "..") && name.chars().all(is_allowed))
    {
        Ok(())
    } else {
        Err(Code::BadArguments)
    }
}

/// Rejects control characters, private-use characters, and characters beyond the 16 bits of a Java
/// `char`.
fn is_allowed(c: char) -> bool {
    !matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}
