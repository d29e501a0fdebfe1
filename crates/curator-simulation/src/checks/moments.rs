//! Checks copies of nodes, such as caches, which may be behind the servers for a limited time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::servers::Nodes;
use crate::world::World;

/// The state of a node: `czxid`, `mzxid` and data.
pub type State<'a> = (i64, i64, &'a [u8]);

/// Records the nodes that the servers have agreed on, and checks that each node of a copy is as the
/// node was at some recent enough moment. The moments of different nodes may differ.
///
/// Time is counted only while the process runs, because after a pause the client first receives the
/// events that it has missed. So [`note`](Self::note) must be called more often than every `pause`.
#[derive(Debug)]
pub struct Moments {
    root: String,
    /// How far a copy may be behind.
    most: Duration,
    pause: Duration,
    last: Instant,
    running: Duration,
    /// The first moment is the oldest that a copy may show.
    noted: VecDeque<Moment>,
}

/// The nodes that the servers had agreed on at a moment.
#[derive(Debug)]
struct Moment {
    /// When the servers had first agreed on these nodes.
    since: Duration,
    /// The zxid of the last transaction at that time.
    zxid: i64,
    nodes: Arc<Nodes>,
}

impl Moments {
    /// Begins to record the nodes at and below `root`.
    #[must_use]
    pub fn new(root: &str, most: Duration, pause: Duration) -> Self {
        let root = root.to_owned();
        let last = Instant::now();
        let running = Duration::ZERO;
        // A new copy may be as old as its server, which may have none of the nodes yet.
        let noted = VecDeque::from([Moment {
            since: running,
            zxid: 0,
            nodes: Arc::default(),
        }]);
        Self {
            root,
            most,
            pause,
            last,
            running,
            noted,
        }
    }

    /// Records the nodes that the servers have agreed on.
    pub fn note(&mut self, world: &World) {
        let now = Instant::now();
        self.running += (now - self.last).min(self.pause);
        self.last = now;
        let nodes = world.nodes_below(&self.root);
        if self
            .noted
            .back()
            .is_none_or(|before| !Arc::ptr_eq(&before.nodes, &nodes))
        {
            // While there is no leader, the last known zxid is used.
            let before = self.noted.back().map_or(0, |before| before.zxid);
            let zxid = world.servers().last_zxid().unwrap_or(before);
            self.noted.push_back(Moment {
                since: self.running,
                zxid,
                nodes,
            });
        }
        while self
            .noted
            .get(1)
            .is_some_and(|next| next.since + self.most <= self.running)
        {
            self.noted.pop_front();
        }
    }

    /// Fails if a node of the copy is older than it may be, or shows a state that the node never
    /// had. `hides` selects the nodes that the copy cannot show.
    pub fn check(
        &self,
        world: &World,
        who: &str,
        copied: &[(&str, State<'_>)],
        hides: impl Fn(&str) -> bool,
    ) {
        let (Some(oldest), Some(Moment { nodes: now, .. })) =
            (self.noted.front(), self.noted.back())
        else {
            return;
        };
        // The usual case: the copy equals the servers' current nodes.
        if copied.iter().copied().eq(states(now)) {
            return;
        }
        let copied: BTreeMap<_, _> = copied.iter().copied().collect();
        let paths = now.keys().map(String::as_str).chain(copied.keys().copied());
        for path in
            paths.filter(|path| copied.get(path).copied() != state(now, path) && !hides(path))
        {
            let copy = copied.get(path).copied();
            let then = state(&oldest.nodes, path);
            let now = state(now, path);
            let is_right = match (copy, then) {
                _ if copy == then => true,
                // The node was written after the oldest moment.
                (Some((_, mzxid, _)), _) => mzxid > oldest.zxid && self.has_been(world, path, copy),
                // The node was deleted, and perhaps created again.
                (None, then) => then.map(|(czxid, ..)| czxid) != now.map(|(czxid, ..)| czxid),
            };
            world.check(is_right, || {
                let [copy, then, now] = [copy, then, now].map(text);
                format!(
                    "{who}: a current copy shows {path} as {copy}; {:?} ago it was {then}, and now it is {now}",
                    self.most
                )
            });
        }
    }

    /// Whether the node ever had this state.
    fn has_been(&self, world: &World, path: &str, copy: Option<State<'_>>) -> bool {
        self.noted
            .iter()
            .any(|moment| state(&moment.nodes, path) == copy)
            || copy
                .is_some_and(|(_, mzxid, _)| state(&world.servers().nodes_at(mzxid), path) == copy)
    }
}

fn state<'a>(nodes: &'a Nodes, path: &str) -> Option<State<'a>> {
    nodes
        .get(path)
        .map(|node| (node.czxid, node.mzxid, node.data.as_slice()))
}

/// All nodes with their paths.
pub fn states(nodes: &Nodes) -> impl Iterator<Item = (&str, State<'_>)> {
    nodes.iter().map(|(path, node)| {
        (
            path.as_str(),
            (node.czxid, node.mzxid, node.data.as_slice()),
        )
    })
}

fn text(state: Option<State<'_>>) -> String {
    state.map_or_else(
        || "absent".to_owned(),
        |(czxid, mzxid, data)| {
            format!(
                "\"{}\" (czxid {czxid:x}, mzxid {mzxid:x})",
                data.escape_ascii()
            )
        },
    )
}
