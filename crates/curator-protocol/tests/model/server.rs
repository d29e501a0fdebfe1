//! The server's side: the directories, and the sessions that are about to expire.

use std::collections::VecDeque;

use curator_protocol::{Limit, ReadLockInternalsDriver};

use super::client::Call;
use super::scenario::Scenario;

/// The tree that matters, and what only the search knows about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    /// Two queues, or a queue and the leases.
    pub(crate) directories: [Directory; 2],
    /// What the node says about the number of leases, if there is one.
    pub(crate) limit: Option<Limit>,
    /// Sessions that their clients have given up.
    pub(crate) dying: Vec<DyingSession>,
    /// Whether leases were taken over the limit.
    pub(crate) exceeded: bool,
    /// Whether leases were taken for a place with something in it that its contender had not read.
    pub(crate) unread: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Directory {
    pub(crate) exists: bool,
    /// The number of the next node.
    next: i32,
    /// Creates so far; the last one's transaction. Nobody compares those of two directories.
    created: i64,
    /// In the order of the queue.
    pub(crate) nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) sequence: i32,
    pub(crate) name: String,
    pub(crate) czxid: i64,
    pub(crate) session: i64,
    pub(crate) creator: Creator,
    /// Whether readers can own the lock together with it.
    pub(crate) reads: bool,
    /// How often it was written, where that matters.
    pub(crate) version: i32,
}

/// Whose node it is, as only the search knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Creator {
    /// A client's, in its contest of this number.
    Contest { client: u8, contest: u8 },
    /// Somebody's who is not part of the search.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DyingSession {
    pub(crate) id: i64,
    pub(crate) who: usize,
    /// What creates something and is still on its way.
    pub(crate) calls: VecDeque<Call>,
}

/// The session of all nodes that belong to nobody in the search.
pub(crate) const OTHERS: i64 = -1;

impl Server {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let directory = |exists| Directory { exists, next: 0, created: 0, nodes: Vec::new() };
        let mut directories = scenario.directories.map(directory);
        directories[0].next = scenario.counter;
        let says = scenario.limit_node == Some(true);
        let limit = says.then_some(Limit { leases: scenario.limit, version: Some(0) });
        Self { directories, limit, dying: Vec::new(), exceeded: false, unread: false }
    }

    pub(crate) fn node(&self, dir: usize, name: &str) -> Option<&Node> {
        self.directories[dir].nodes.iter().find(|node| node.name == name)
    }

    /// All nodes, each with its directory and place.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (usize, usize, &Node)> {
        let directories = self.directories.iter().enumerate();
        directories.flat_map(|(dir, all)| all.nodes.iter().enumerate().map(move |(place, node)| (dir, place, node)))
    }
}

impl Directory {
    /// `None` if there is a node with this name.
    pub(crate) fn create(&mut self, prefix: &str, session: i64, creator: Creator) -> Option<Node> {
        let (sequence, czxid) = (self.next, self.created + 1);
        let name = format!("{prefix}{sequence:010}");
        if self.nodes.iter().any(|node| node.name == name) {
            return None;
        }
        self.created = czxid;
        // The last number is given again and again.
        self.next = self.next.saturating_add(1);
        let reads = prefix.ends_with(ReadLockInternalsDriver::LOCK_NAME);
        let node = Node { sequence, name, czxid, session, creator, reads, version: 0 };
        self.nodes.push(node.clone());
        Some(node)
    }

    /// A second node of the same holder and with the same number.
    pub(crate) fn create_second(&mut self, place: usize, name: String) {
        self.created += 1;
        let reads = name.contains(ReadLockInternalsDriver::LOCK_NAME);
        let node = Node { name, czxid: self.created, reads, ..self.nodes[place].clone() };
        self.nodes.insert(place, node);
    }

    /// Whether this contest's node owns the queue: there is none before it, or it reads, and so do those before it.
    pub(crate) fn is_entitled(&self, creator: Creator) -> bool {
        self.nodes.iter().filter(|node| node.creator == creator).any(|own| {
            let before = self.nodes.iter().take_while(|node| node.sequence < own.sequence);
            own.reads && before.clone().all(|node| node.reads) || before.count() == 0
        })
    }

    pub(crate) fn is_missing_or_used(&self) -> bool {
        !self.exists || self.next > 0
    }

    pub(crate) fn children(&self) -> Vec<String> {
        // Backwards: the server promises no order.
        self.nodes.iter().rev().map(|node| node.name.clone()).collect()
    }

    /// Removes the empty directory. The next one counts from the start.
    pub(crate) fn reap(&mut self) {
        self.exists = false;
        self.next = 0;
    }
}
