//! The server's side: the queue, the leases, and how many there may be.

use std::collections::VecDeque;

use curator_recipes::lock::semaphore::claim::Limit;

use super::client::Call;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) limit: Limit,
    pub(super) queue: Directory,
    pub(super) leases: Directory,
    /// Sessions that their clients have given up, and what may still come of them.
    pub(super) dying: Vec<DyingSession>,
    /// Whether leases were taken over the limit.
    pub(super) exceeded: bool,
    /// Whether leases were taken for a place with something in it that its contender had not read.
    pub(super) unread: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Directory {
    /// The number of the next node.
    next: i32,
    /// In the order of their creation.
    pub(super) nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) czxid: i64,
    pub(super) session: i64,
    pub(super) creator: Creator,
    /// How often it was written.
    pub(super) version: u8,
}

/// A client, and its contest of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Creator {
    pub(super) client: u8,
    pub(super) contest: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct DyingSession {
    pub(super) id: i64,
    pub(super) who: usize,
    /// What creates something and is still on its way.
    pub(super) calls: VecDeque<Call>,
}

impl Directory {
    pub(super) fn create(&mut self, prefix: &str, session: i64, creator: Creator) -> Node {
        let number = self.next;
        self.next += 1;
        let node =
            Node { name: format!("{prefix}{number:010}"), czxid: i64::from(number), session, creator, version: 0 };
        self.nodes.push(node.clone());
        node
    }

    pub(super) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    pub(super) fn remove(&mut self, which: impl Fn(&Node) -> bool) -> Vec<Node> {
        let (gone, kept) = std::mem::take(&mut self.nodes).into_iter().partition(|node| which(node));
        self.nodes = kept;
        gone
    }
}
