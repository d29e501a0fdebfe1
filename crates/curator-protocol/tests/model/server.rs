//! The modelled server: the directories, and the sessions that will expire.

use std::collections::VecDeque;

use curator_protocol::{Limit, ReadLockInternalsDriver};

use super::client::Call;
use super::part::Part;
use super::scenario::Scenario;

/// The nodes of the recipe, and facts that only the search knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    /// Two queues, or a queue and the leases.
    pub(crate) directories: [Part<Directory>; 2],
    /// The node that contains the limit of the leases, if it exists.
    pub(crate) limit: Option<Limit>,
    /// Sessions that their clients have lost.
    pub(crate) dying: Vec<DyingSession>,
    /// Whether leases were taken beyond the limit.
    pub(crate) exceeded: bool,
    /// Whether leases were taken although the contender had not read the latest data of its place.
    pub(crate) unread: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Directory {
    pub(crate) exists: bool,
    /// The number of the next node.
    next: i32,
    /// How many nodes were created; also the `czxid` of the last. The `czxid`s of two directories
    /// are never compared.
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
    /// Whether this is a read node: readers can own the lock together with it.
    pub(crate) reads: bool,
    /// How often the node was written; counted only in a semaphore's queue, where the version
    /// matters.
    pub(crate) version: i32,
}

/// The creator of a node, known only to the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Creator {
    /// A client, in its contest of this number.
    Contest { client: u8, contest: u8 },
    /// A client outside the search.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DyingSession {
    pub(crate) id: i64,
    pub(crate) who: usize,
    /// The requests in flight that create nodes.
    pub(crate) calls: VecDeque<Call>,
}

/// The session of all nodes of clients outside the search.
pub(crate) const OTHERS: i64 = -1;

impl Server {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut directories = scenario.directories.map(|exists| {
            Part::new(Directory {
                exists,
                next: 0,
                created: 0,
                nodes: Vec::new(),
            })
        });
        directories[0].next = scenario.counter;
        let limit = match scenario.limit_node {
            Some(true) => Some(Limit {
                leases: scenario.limit,
                version: Some(0),
            }),
            _ => None,
        };
        Self {
            directories,
            limit,
            dying: Vec::new(),
            exceeded: false,
            unread: false,
        }
    }

    pub(crate) fn node(&self, dir: usize, name: &str) -> Option<&Node> {
        self.directories[dir]
            .nodes
            .iter()
            .find(|node| node.name == name)
    }

    /// All nodes, each with its directory and place.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (usize, usize, &Node)> {
        let directories = self.directories.iter().enumerate();
        directories.flat_map(|(dir, all)| {
            all.nodes
                .iter()
                .enumerate()
                .map(move |(place, node)| (dir, place, node))
        })
    }
}

impl Directory {
    /// `None` if a node with this name exists.
    pub(crate) fn create(&mut self, prefix: &str, session: i64, creator: Creator) -> Option<Node> {
        let sequence = self.next;
        let czxid = self.created + 1;
        let name = format!("{prefix}{sequence:010}");
        if self.nodes.iter().any(|node| node.name == name) {
            return None;
        }
        self.created = czxid;
        // An exhausted counter repeats its last number.
        self.next = self.next.saturating_add(1);
        let reads = prefix.ends_with(ReadLockInternalsDriver::LOCK_NAME);
        let node = Node {
            sequence,
            name,
            czxid,
            session,
            creator,
            reads,
            version: 0,
        };
        self.nodes.push(node.clone());
        Some(node)
    }

    /// A second node of the same holder, with the same number.
    pub(crate) fn create_second(&mut self, place: usize, name: String) {
        self.created += 1;
        let reads = name.contains(ReadLockInternalsDriver::LOCK_NAME);
        let node = Node {
            name,
            czxid: self.created,
            reads,
            ..self.nodes[place].clone()
        };
        self.nodes.insert(place, node);
    }

    /// Whether a node of this contest is first in the queue, or is a read node with only read nodes
    /// before it.
    pub(crate) fn is_entitled(&self, creator: Creator) -> bool {
        self.nodes
            .iter()
            .filter(|node| node.creator == creator)
            .any(|own| {
                let before = self
                    .nodes
                    .iter()
                    .take_while(|node| node.sequence < own.sequence);
                own.reads && before.clone().all(|node| node.reads) || before.count() == 0
            })
    }

    pub(crate) fn is_missing_or_used(&self) -> bool {
        !self.exists || self.next > 0
    }

    pub(crate) fn children(&self) -> Vec<String> {
        // Reversed, because a real server's lists have no order.
        self.nodes
            .iter()
            .rev()
            .map(|node| node.name.clone())
            .collect()
    }

    /// Removes the empty directory. If it is recreated, its numbers start from 0.
    pub(crate) fn reap(&mut self) {
        self.exists = false;
        self.next = 0;
    }
}
