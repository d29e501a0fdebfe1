//! The server's side: one directory, and the sessions that are about to expire.

use std::collections::VecDeque;

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
    pub(crate) fn new(directory: bool) -> Self {
        Self { directory, next: 0, created: 0, nodes: Vec::new(), dying: Vec::new() }
    }

    pub(crate) fn create(&mut self, prefix: &str, session: i64, creator: Creator) -> Option<&Node> {
        if !self.directory {
            return None;
        }
        self.created += 1;
        let sequence = self.next;
        self.next += 1;
        let name = format!("{prefix}{sequence:010}");
        self.nodes.push(Node { sequence, name, czxid: self.created, session, creator });
        self.nodes.last()
    }

    /// A second node with the number of an existing one.
    pub(crate) fn create_beside(&mut self, place: usize, prefix: &str) {
        self.created += 1;
        let sequence = self.nodes[place].sequence;
        let name = format!("{prefix}{sequence:010}");
        let node = Node { sequence, name, czxid: self.created, session: OTHERS, creator: Creator::Other };
        self.nodes.insert(place, node);
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
