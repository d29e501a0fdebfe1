//! The server's side: the directories, and the sessions that are about to expire.

use std::collections::VecDeque;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) directories: Vec<Directory>,
    /// Sessions that their clients have given up.
    pub(super) dying: Vec<DyingSession>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Directory {
    pub(super) exists: bool,
    /// The number of the next node.
    next: i32,
    /// In the order of the queue.
    pub(super) nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) czxid: i64,
    pub(super) session: i64,
    pub(super) creator: Creator,
}

/// Whose node it is, as only the search knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Creator {
    Contest {
        client: u8,
        contest: u8,
    },
    /// Somebody's who is not part of the search.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct DyingSession {
    pub(super) id: i64,
    /// Creates that are still on their way.
    pub(super) creates: VecDeque<Create>,
}

/// One transaction: a node in each of these directories.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Create {
    pub(super) directories: Vec<usize>,
    pub(super) prefix: String,
    pub(super) session: i64,
    pub(super) creator: Creator,
}

impl Server {
    pub(super) fn new(exist: [bool; 2]) -> Self {
        let directory = |exists| Directory { exists, next: 0, nodes: Vec::new() };
        Self { directories: exist.map(directory).into(), dying: Vec::new() }
    }

    /// All the nodes, in the order of the directories given, or none.
    pub(super) fn create(&mut self, create: &Create) -> Option<Vec<Node>> {
        let Create { directories, prefix, session, creator } = create;
        if !directories.iter().all(|dir| self.directories[*dir].exists) {
            return None;
        }
        let make = |dir: &usize| {
            let directory = &mut self.directories[*dir];
            let number = directory.next;
            directory.next += 1;
            // It need not rise from one directory to the other: nobody compares those.
            let czxid = i64::from(number);
            let node = Node { name: format!("{prefix}{number:010}"), czxid, session: *session, creator: *creator };
            directory.nodes.push(node.clone());
            node
        };
        Some(directories.iter().map(make).collect())
    }

    pub(super) fn node(&self, dir: usize, name: &str) -> Option<&Node> {
        self.directories[dir].nodes.iter().find(|node| node.name == name)
    }

    /// All nodes, each with its directory and place.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (usize, usize, &Node)> {
        let directories = self.directories.iter().enumerate();
        directories.flat_map(|(dir, all)| all.nodes.iter().enumerate().map(move |(place, node)| (dir, place, node)))
    }
}

/// The session of all nodes that belong to nobody in the search.
pub(super) const OTHERS: i64 = -1;
