//! Checks the stream of a cache: each event must be consistent with the events before it, no state
//! may be older than one reported before, and the cache must soon be current after an outage.

use std::collections::HashMap;

use super::content::{Nodes, Snapshot, by_path, describe, differences, show};
use super::{Found, StreamKey};
use crate::checker::findings::{Kind, is_ours};
use crate::history::{CACHED, CacheSeen, Node};

/// A stream, and the snapshots of its cache.
#[derive(Debug, Default)]
pub(super) struct Stream {
    replay: Replay,
    newest: Newest,
    pub(super) currency: Currency,
    /// The times of the stream's events, and of its resyncs.
    pub(super) events: Vec<u64>,
    pub(super) resyncs: Vec<u64>,
    pub(super) snapshots: Vec<Snapshot>,
}

/// The detail of a violation: a cache was stale for too long.
pub(super) const STALE: &str = "is not current, although no nemesis is active";

impl Stream {
    pub(super) fn see(&mut self, at: u64, key: &StreamKey, seen: &CacheSeen) -> Vec<Found> {
        match seen {
            CacheSeen::State { .. } | CacheSeen::Ready => {}
            CacheSeen::Resync { .. } => self.resyncs.push(at),
            _ => self.events.push(at),
        }
        let stale = self
            .currency
            .see(at, seen)
            .map(|since| (Kind::Stale, STALE.to_owned(), since));
        let misfit = self
            .replay
            .see(seen)
            // Peers may report a replaced node as a change.
            .or_else(|| replaced(seen).filter(|_| is_ours(&key.2)))
            .map(|detail| (Kind::Replay, detail, at));
        let backwards = self
            .newest
            .see(seen)
            .into_iter()
            .map(|detail| (Kind::Backwards, detail, at));
        misfit
            .into_iter()
            .chain(backwards)
            .chain(stale)
            .map(|(kind, detail, at)| Found {
                kind,
                at,
                key: key.clone(),
                nodes: 1,
                detail,
            })
            .collect()
    }

    /// Checks a snapshot that the conductor has requested, without the nodes on the servers.
    pub(super) fn check_snapshot(&mut self, snapshot: &Snapshot, key: &StreamKey) -> Vec<Found> {
        let stale = self
            .currency
            .check(snapshot)
            .map(|detail| (Kind::Stale, 1, detail.to_owned()));
        let differences = differences(&self.replay.nodes, &snapshot.nodes);
        let stream = (!differences.is_empty()).then(|| {
            (
                Kind::StreamDiffers,
                differences.len(),
                describe("stream", &differences),
            )
        });
        stale
            .into_iter()
            .chain(stream)
            .map(|(kind, nodes, detail)| Found {
                kind,
                at: snapshot.at,
                key: key.clone(),
                nodes,
                detail,
            })
            .collect()
    }
}

/// The state that the events of a stream have built.
#[derive(Debug, Default)]
pub(super) struct Replay {
    pub(super) nodes: Nodes,
}

impl Replay {
    /// Applies an event. Returns a description if the event is inconsistent. The event is applied
    /// anyway, so that each inconsistency is reported once.
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
        // `Replay` finds a second delete.
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

/// For how long, in nanoseconds, a cache may be stale while no nemesis is active: a session timeout
/// plus a margin. A cache may be stale at any time, as a server on an overloaded machine may close
/// connections.
const MOST_STALE: u64 = 6_000_000_000;

/// Whether a stream and its cache have reported that the cache is current.
#[derive(Debug, Default)]
pub(super) struct Currency {
    /// Whether the cache was stale or loading, and the stream has not reported `Ready` or a resync
    /// since.
    ready_is_due: bool,
    /// Whether the stream has reported `Ready` or a resync.
    has_begun: bool,
    /// Whether the history records the states of the cache together with this stream.
    has_states: bool,
    /// Since when the cache has reported that it is not current.
    stale: Option<u64>,
}

impl Currency {
    /// Records an event. Returns the start of the stale period that this event ends, if that was
    /// longer than [`MOST_STALE`].
    pub(super) fn see(&mut self, at: u64, seen: &CacheSeen) -> Option<u64> {
        match seen {
            CacheSeen::Ready | CacheSeen::Resync { .. } => {
                self.ready_is_due = false;
                self.has_begun = true;
            }
            CacheSeen::State { state } => {
                self.has_states = true;
                match state.as_str() {
                    "stale" | "loading" => self.ready_is_due = true,
                    _ => {
                        return self
                            .stale
                            .take()
                            .filter(|since| at.saturating_sub(*since) > MOST_STALE);
                    }
                }
            }
            _ => {}
        }
        None
    }

    /// Checks a snapshot that the conductor has requested. The conductor requests snapshots while
    /// no nemesis is active and all clients are connected again.
    pub(super) fn check(&mut self, snapshot: &Snapshot) -> Option<&'static str> {
        // Peers do not report whether their caches are current.
        if !snapshot.is_current? {
            self.stale = self.stale.or(Some(snapshot.at)).filter(|_| self.has_states);
            return None;
        }
        (self.ready_is_due || !self.has_begun)
            .then_some("is current, but its stream has not reported Ready")
    }

    /// Since when the cache is stale, if it has not become current again.
    pub(super) fn stale(&self) -> Option<u64> {
        self.stale
    }
}
