//! Replays the stream of a cache: each event must be consistent with the state that the earlier
//! events have built.

use super::nodes::{Nodes, by_path, show};
use crate::history::{CACHED, CacheSeen, Node};

/// The state that the events of a stream have built.
#[derive(Debug, Default)]
pub(super) struct Replay {
    pub(super) nodes: Nodes,
}

impl Replay {
    /// Applies an event. Returns a description if the event is inconsistent. It is applied anyway,
    /// so that each inconsistency is reported once.
    pub(super) fn see(&mut self, seen: &CacheSeen) -> Option<String> {
        match seen {
            CacheSeen::Created { node } => {
                let misfit = match self.nodes.get(&node.path) {
                    Some(known) => Some(format!(
                        "{} was created, but existed as {}",
                        show(node),
                        show(known)
                    )),
                    None => self
                        .is_orphan(node)
                        .then(|| format!("{} was created before its parent", show(node))),
                };
                self.nodes.insert(node.path.clone(), node.clone());
                misfit
            }
            CacheSeen::Changed { old, node } => {
                let before = self.nodes.insert(node.path.clone(), node.clone());
                match (before, old) {
                    (None, _) => Some(format!("{} was changed, but did not exist", show(node))),
                    (Some(before), Some(old)) if before != *old => Some(format!(
                        "{} was changed from {}, but was {}",
                        show(node),
                        show(old),
                        show(&before)
                    )),
                    _ => None,
                }
            }
            CacheSeen::Deleted { node } => match self.nodes.remove(&node.path) {
                None => Some(format!("{} was deleted, but did not exist", show(node))),
                Some(before) if before != *node => Some(format!(
                    "{} was deleted, but was {}",
                    show(node),
                    show(&before)
                )),
                Some(_) => self
                    .child(node)
                    .map(|child| format!("{} was deleted before its child {child}", show(node))),
            },
            CacheSeen::Resync { nodes } => {
                self.nodes = by_path(nodes);
                None
            }
            _ => None,
        }
    }

    /// Whether a node below the root has no parent.
    fn is_orphan(&self, node: &Node) -> bool {
        let parent = node.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        node.path != CACHED && !self.nodes.contains_key(parent)
    }

    fn child(&self, node: &Node) -> Option<&str> {
        let below = format!("{}/", node.path);
        self.nodes
            .keys()
            .find(|path| path.starts_with(&below))
            .map(String::as_str)
    }
}

/// Describes a change to a node with another `czxid`, which should be reported as a deletion and a
/// creation.
pub(super) fn replaced(seen: &CacheSeen) -> Option<String> {
    match seen {
        CacheSeen::Changed {
            old: Some(old),
            node,
        } if old.czxid != node.czxid => Some(format!(
            "{} was changed into another node, {}",
            show(old),
            show(node)
        )),
        _ => None,
    }
}
