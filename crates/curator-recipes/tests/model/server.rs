//! The server's side: one directory, and the sessions that are about to expire.

use std::collections::VecDeque;

use curator_recipes::lock::contest::Answer;
use curator_recipes::lock::driver::ReadLockInternalsDriver;

/// The tree that matters, and what only the search knows about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) directory: bool,
    /// The number of the next node.
    next: i32,
    /// Creates so far; the last one's transaction.
    created: i64,
    /// In the order of the queue.
    pub(crate) nodes: Vec<Node>,
    /// Sessions that their clients have given up.
    pub(crate) dying: Vec<DyingSession>,
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
}

/// Whose node it is, as only the search knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Creator {
    /// A contender's, in its contest of this number.
    Contest { contender: u8, contest: u8 },
    /// Somebody's who is not part of the search.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DyingSession {
    pub(crate) id: i64,
    /// Creates that are still on their way.
    pub(crate) creates: VecDeque<(String, Creator)>,
}

impl Server {
    pub(crate) fn new(directory: bool, next: i32) -> Self {
        Self { directory, next, created: 0, nodes: Vec::new(), dying: Vec::new() }
    }

    pub(crate) fn create(&mut self, prefix: &str, session: i64, creator: Creator) -> Answer {
        let sequence = self.next;
        let name = format!("{prefix}{sequence:010}");
        if !self.directory {
            return Answer::NoParent;
        }
        if self.node(&name).is_some() {
            return Answer::NameTaken;
        }
        self.created += 1;
        // The last number is given again and again.
        self.next = self.next.saturating_add(1);
        let reads = prefix.ends_with(ReadLockInternalsDriver::LOCK_NAME);
        self.nodes.push(Node { sequence, name: name.clone(), czxid: self.created, session, creator, reads });
        Answer::Created { name, czxid: self.created }
    }

    /// A second node with the number of an existing one.
    pub(crate) fn create_beside(&mut self, place: usize, prefix: &str) {
        let sequence = self.nodes[place].sequence;
        self.create_second(place, format!("{prefix}{sequence:010}"));
    }

    /// A second node of the same holder and with the same number.
    pub(crate) fn create_second(&mut self, place: usize, name: String) {
        self.created += 1;
        let reads = name.contains(ReadLockInternalsDriver::LOCK_NAME);
        let node = Node { name, czxid: self.created, reads, ..self.nodes[place].clone() };
        self.nodes.insert(place, node);
    }

    /// Whether the node at this place owns the lock: there is none before it, or it reads, and so do those before it.
    pub(crate) fn is_entitled(&self, place: usize) -> bool {
        let own = &self.nodes[place];
        let before = self.nodes.iter().take_while(|node| node.sequence < own.sequence);
        own.reads && before.clone().all(|node| node.reads) || before.count() == 0
    }

    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    pub(crate) fn children(&self) -> Vec<String> {
        // Backwards: the server promises no order.
        self.nodes.iter().rev().map(|node| node.name.clone()).collect()
    }

    /// Removes the empty directory. The next one counts from the start.
    pub(crate) fn reap(&mut self) {
        self.directory = false;
        self.next = 0;
    }
}

/// The session of all nodes that belong to nobody in the search.
pub(crate) const OTHERS: i64 = -1;
