//! The server's side: one directory, and the sessions that are about to expire.

use std::collections::VecDeque;

/// The tree that matters, and what only the search knows about it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    pub directory: bool,
    /// The number of the next node.
    next: i32,
    /// Creates so far; the last one's transaction.
    created: i64,
    /// In the order of the queue.
    pub nodes: Vec<Node>,
    /// Sessions that their clients have given up.
    pub dying: Vec<DyingSession>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub sequence: i32,
    pub name: String,
    pub czxid: i64,
    pub session: i64,
    pub creator: Creator,
}

/// Whose node it is, as only the search knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Creator {
    /// A contender's, in its contest of this number.
    Contest { contender: u8, contest: u8 },
    /// Somebody's who is not part of the search.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DyingSession {
    pub id: i64,
    /// Creates that are still on their way.
    pub creates: VecDeque<(String, Creator)>,
}

impl Server {
    pub fn new(directory: bool) -> Self {
        Self { directory, next: 0, created: 0, nodes: Vec::new(), dying: Vec::new() }
    }

    pub fn create(&mut self, prefix: &str, session: i64, creator: Creator) -> Option<&Node> {
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
    pub fn create_beside(&mut self, place: usize, prefix: &str) {
        self.created += 1;
        let sequence = self.nodes[place].sequence;
        let name = format!("{prefix}{sequence:010}");
        let node = Node { sequence, name, czxid: self.created, session: OTHERS, creator: Creator::Other };
        self.nodes.insert(place, node);
    }

    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    pub fn children(&self) -> Vec<String> {
        // Backwards: the server promises no order.
        self.nodes.iter().rev().map(|node| node.name.clone()).collect()
    }

    /// Removes the empty directory. The next one counts from the start.
    pub fn reap(&mut self) {
        self.directory = false;
        self.next = 0;
    }
}

/// The session of all nodes that belong to nobody in the search.
pub const OTHERS: i64 = -1;
