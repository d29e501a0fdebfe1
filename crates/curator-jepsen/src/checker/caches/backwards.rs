//! Finds events of a stream that report an older state of a node than an earlier event did.

use std::collections::HashMap;

use super::nodes::show;
use crate::history::{CacheSeen, Node};

/// The newest state of each path that a stream has reported.
#[derive(Debug, Default)]
pub(super) struct Newest {
    paths: HashMap<String, State>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    czxid: i64,
    mzxid: i64,
    is_deleted: bool,
}

impl Newest {
    /// Records an event. Returns each state that is older than the newest reported one, by `czxid`
    /// and then by `mzxid`. A node that was reported as deleted must not reappear with the same
    /// `czxid`.
    pub(super) fn see(&mut self, seen: &CacheSeen) -> Vec<String> {
        match seen {
            CacheSeen::Created { node } | CacheSeen::Changed { node, .. } => {
                self.report(node, false).into_iter().collect()
            }
            CacheSeen::Deleted { node } => self.report(node, true).into_iter().collect(),
            CacheSeen::Resync { nodes } => {
                let backwards = nodes
                    .iter()
                    .filter_map(|node| self.report(node, false))
                    .collect();
                for (path, state) in &mut self.paths {
                    state.is_deleted |= !nodes.iter().any(|node| node.path == *path);
                }
                backwards
            }
            _ => Vec::new(),
        }
    }

    fn report(&mut self, node: &Node, is_deleted: bool) -> Option<String> {
        let now = State {
            czxid: node.czxid,
            mzxid: node.mzxid,
            is_deleted,
        };
        let before = self.paths.insert(node.path.clone(), now)?;
        let State { czxid, mzxid, .. } = before;
        // `replay.rs` finds a second delete.
        if before.is_deleted && !is_deleted && now.czxid <= czxid {
            self.paths.insert(node.path.clone(), before);
            return Some(format!(
                "{} was reported after its deletion (created in {czxid:#x})",
                show(node)
            ));
        }
        if (now.czxid, now.mzxid) < (czxid, mzxid) {
            self.paths.insert(node.path.clone(), before);
            return Some(format!(
                "{} was reported after ({czxid:#x}, {mzxid:#x})",
                show(node)
            ));
        }
        None
    }
}
