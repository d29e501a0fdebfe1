//! Replays the events of a cache, and checks that each is consistent with the earlier ones.

use std::collections::BTreeMap;

use curator_recipes::client::ZPath;
use curator_recipes::{CacheEvent, CacheEvents, CachedNode, Snapshot};

use super::soon;

/// The nodes as a consumer of the events knows them.
#[derive(Default)]
pub(crate) struct Replay {
    pub(crate) nodes: BTreeMap<ZPath, CachedNode>,
    /// The czxid and mzxid of each node, as last reported. Includes deleted nodes.
    latest: BTreeMap<ZPath, (i64, i64)>,
    pub(crate) resyncs: usize,
    pub(crate) readies: usize,
}

impl Replay {
    pub(crate) fn apply(&mut self, event: CacheEvent) {
        match event {
            CacheEvent::Created(node) => {
                let path = node.path().clone();
                let before = self.latest.get(&path).map(|latest| latest.0);
                assert!(
                    before.is_none_or(|before| before < node.stat().czxid),
                    "{path} was reported as created a second time"
                );
                self.check_order(&node);
                let is_related = |other: &ZPath| {
                    path.strip_prefix(other).is_some() || other.strip_prefix(&path).is_some()
                };
                if let Some(root) = self.nodes.keys().next()
                    && path != *root
                    && is_related(root)
                    && let Some(parent) = path.parent()
                {
                    assert!(
                        self.nodes.contains_key(&parent),
                        "{path} was reported before its parent"
                    );
                }
                assert_eq!(
                    self.nodes.insert(path.clone(), node),
                    None,
                    "{path} was reported as created while it existed"
                );
            }
            CacheEvent::Changed { old, new } => {
                self.check_order(&new);
                let path = new.path().clone();
                assert_eq!(
                    old.stat().czxid,
                    new.stat().czxid,
                    "{path}: the two states are of different nodes"
                );
                let had = self
                    .nodes
                    .insert(path.clone(), new)
                    .expect("the node was reported as created");
                assert_eq!(
                    (had.data(), had.stat().mzxid),
                    (old.data(), old.stat().mzxid),
                    "{path}: `old` is not the last reported state"
                );
            }
            CacheEvent::Deleted(node) => {
                let had = self
                    .nodes
                    .remove(node.path())
                    .expect("the node was reported as created");
                assert_eq!(had.stat().czxid, node.stat().czxid);
                let below = self
                    .nodes
                    .keys()
                    .find(|path| path.parent().as_ref() == Some(node.path()));
                assert_eq!(
                    below,
                    None,
                    "{} was reported as deleted before its child",
                    node.path()
                );
            }
            CacheEvent::Resync(snapshot) => {
                self.resyncs += 1;
                snapshot.iter().for_each(|node| self.check_order(node));
                self.nodes = snapshot
                    .iter()
                    .map(|node| (node.path().clone(), node.clone()))
                    .collect();
            }
            CacheEvent::Ready => self.readies += 1,
            other => panic!("{other:?}"),
        }
    }

    /// Checks that the node is not older than its last reported state.
    fn check_order(&mut self, node: &CachedNode) {
        let now = (node.stat().czxid, node.stat().mzxid);
        let before = self.latest.insert(node.path().clone(), now);
        assert!(
            before.is_none_or(|before| before <= now),
            "{}: {now:?} after {before:?}",
            node.path()
        );
    }

    /// Replays until the nodes equal the snapshot's.
    pub(crate) async fn until(&mut self, events: &mut CacheEvents, snapshot: &Snapshot) {
        while !self.is(snapshot) {
            self.apply(soon(events.next()).await.expect("the cache has ended"));
        }
    }

    /// Whether the nodes equal the snapshot's.
    pub(crate) fn is(&self, snapshot: &Snapshot) -> bool {
        let state = |node: &CachedNode| {
            (
                node.path().clone(),
                node.stat().czxid,
                node.stat().mzxid,
                node.data().to_vec(),
            )
        };
        if self.nodes.len() != snapshot.len() {
            return false;
        }
        let mut expected: Vec<_> = snapshot.iter().map(state).collect();
        expected.sort();
        self.nodes.values().map(state).eq(expected)
    }
}
