//! The data tree. It does no I/O and reads no clock: the zxid and the time of each change are
//! arguments.

mod create;
mod members;
mod node;
mod transaction;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use curator_client::Stat;
pub(super) use node::ancestors;
use node::{Lifetime, Node, State, name_of};

use super::{
    acl::{self, Acl, Id, permissions},
    code::Code,
    codec::EventKind,
    family::Family,
};

/// All nodes, by path. The root is `/`. As on the real server, the empty path means the root too.
#[derive(Debug)]
pub(crate) struct DataTree {
    nodes: BTreeMap<String, Node>,
    /// The ephemeral nodes by session.
    ephemerals: BTreeMap<i64, BTreeSet<String>>,
    /// For each node in which the current transaction has created children: the next sequence
    /// number. As on the real server, these numbers continue after `i32::MAX`, where the parent's
    /// counter stays.
    numbers: BTreeMap<String, i32>,
    rules: Rules,
}

/// What differs between the trees of servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) family: Family,
    /// Whether nodes can have a time to live.
    pub(crate) extended_types: bool,
    /// After how many milliseconds a container that never had a child may be removed.
    pub(crate) unused_container_timeout: Option<i64>,
    /// Whether the stat in the reply to a create has the length of the data.
    pub(crate) data_length_in_create: bool,
}

/// The nodes that every server has, and that cannot be deleted.
const ZOOKEEPER_NODES: [&str; 4] = ["/", "/zookeeper", "/zookeeper/quota", CONFIG];
const CLICKHOUSE_KEEPER_NODES: [&str; 5] = [
    "/",
    "/keeper",
    "/keeper/api_version",
    "/keeper/feature_flags",
    "/keeper/config",
];

/// The node with the members of the ensemble.
const CONFIG: &str = "/zookeeper/config";

/// The client, time and transaction of a change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) session_id: i64,
    pub(crate) identities: &'a [Id],
    pub(crate) zxid: i64,
    /// In milliseconds since 1970.
    pub(crate) time: i64,
}

/// An event that watches may report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    pub(crate) path: String,
    /// Only clients that may read the node are notified.
    pub(crate) acl: Vec<Acl>,
}

impl DataTree {
    /// A tree with the nodes that every server has.
    pub(crate) fn new(rules: Rules) -> Self {
        let mut tree = Self {
            nodes: BTreeMap::new(),
            ephemerals: BTreeMap::new(),
            numbers: BTreeMap::new(),
            rules,
        };
        for path in tree.system_nodes() {
            let acl = if *path == CONFIG {
                acl::read_only()
            } else {
                acl::open()
            };
            let data = Some(Vec::new());
            let node = Node::new(data, acl, Lifetime::Persistent, State::default());
            match ancestors(path).next() {
                Some(above) => tree.link(above, path, node),
                None => drop(tree.nodes.insert((*path).to_owned(), node)),
            }
        }
        if let Some(config) = tree.nodes.get_mut(CONFIG) {
            // The real server sets this node's ACL with the version -1, and stores that version.
            config.state.aversion = -1;
        }
        tree
    }

    /// The nodes that every server of this family has.
    fn system_nodes(&self) -> &'static [&'static str] {
        match self.rules.family {
            Family::ZooKeeper | Family::RaftKeeper => &ZOOKEEPER_NODES,
            Family::ClickHouseKeeper => &CLICKHOUSE_KEEPER_NODES,
        }
    }

    /// The number of nodes. The real server has the root under two names, and counts both.
    pub(crate) fn node_count(&self) -> usize {
        self.nodes.len() + 1
    }

    pub(crate) fn ephemeral_count(&self) -> usize {
        self.ephemerals.values().map(BTreeSet::len).sum()
    }

    /// The size of all paths and data in bytes.
    pub(crate) fn approximate_size(&self) -> usize {
        self.nodes
            .iter()
            .map(|(path, node)| path.len() + node.data.as_ref().map_or(0, Vec::len))
            .sum()
    }

    /// The ephemeral nodes of a session, in order.
    pub(crate) fn ephemerals_of(&self, session_id: i64) -> Vec<String> {
        self.ephemerals
            .get(&session_id)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// The nodes that the server may remove now, in order.
    pub(crate) fn removable(&self, now: i64) -> Vec<String> {
        self.nodes
            .iter()
            .filter(|(_, node)| node.is_removable(now, self.rules.unused_container_timeout))
            .map(|(path, _)| path.clone())
            .collect()
    }

    /// The nodes from `path` on, ordered by path. Each has its data, its stat, and whether it is a
    /// container.
    #[cfg(feature = "simulation")]
    pub(crate) fn nodes_from(&self, path: &str) -> impl Iterator<Item = (&str, &[u8], Stat, bool)> {
        self.nodes.range(path.to_owned()..).map(|(path, node)| {
            let data = node.data.as_deref().unwrap_or_default();
            (
                path.as_str(),
                data,
                node.stat(self.rules.family),
                node.lifetime == Lifetime::Container,
            )
        })
    }

    /// Sets the number of the next sequential child of a node.
    pub(crate) fn set_creates(&mut self, path: &str, creates: i32) -> Result<(), Code> {
        self.node_mut(path)?.state.creates = creates;
        Ok(())
    }

    fn node(&self, path: &str) -> Result<&Node, Code> {
        self.nodes.get(key(path)).ok_or(Code::NoNode)
    }

    fn node_mut(&mut self, path: &str) -> Result<&mut Node, Code> {
        self.nodes.get_mut(key(path)).ok_or(Code::NoNode)
    }

    /// Adds a node below its parent, and to its session's list.
    fn link(&mut self, parent: &str, path: &str, node: Node) {
        if let Lifetime::Ephemeral(owner) = node.lifetime {
            self.ephemerals
                .entry(owner)
                .or_default()
                .insert(path.to_owned());
        }
        if let Some(parent) = self.nodes.get_mut(key(parent)) {
            parent.children.insert(name_of(path).to_owned());
        }
        self.nodes.insert(path.to_owned(), node);
    }

    /// Reverses [`link`](Self::link).
    fn unlink(&mut self, parent: &str, path: &str) -> Option<Node> {
        let node = self.nodes.remove(path)?;
        if let Lifetime::Ephemeral(owner) = node.lifetime
            && let Some(paths) = self.ephemerals.get_mut(&owner)
        {
            paths.remove(path);
            if paths.is_empty() {
                self.ephemerals.remove(&owner);
            }
        }
        if let Some(parent) = self.nodes.get_mut(key(parent)) {
            parent.children.remove(name_of(path));
        }
        Some(node)
    }
}

fn key(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

impl DataTree {
    /// The stat of a node. Fails with `NoNode` for a missing node, regardless of permissions.
    pub(crate) fn exists(&self, path: &str, identities: &[Id]) -> Result<Stat, Code> {
        if path.contains('\0') {
            return Err(Code::BadArguments);
        }
        let node = self.node(path)?;
        acl::check(&node.acl, permissions::READ, identities)?;
        Ok(node.stat(self.rules.family))
    }

    pub(crate) fn data(
        &self,
        path: &str,
        identities: &[Id],
    ) -> Result<(Option<Vec<u8>>, Stat), Code> {
        let node = self.node(path)?;
        acl::check(&node.acl, permissions::READ, identities)?;
        Ok((node.data.clone(), node.stat(self.rules.family)))
    }

    pub(crate) fn children(
        &self,
        path: &str,
        identities: &[Id],
    ) -> Result<(Vec<String>, Stat), Code> {
        let node = self.node(path)?;
        acl::check(&node.acl, permissions::READ, identities)?;
        Ok((
            node.children.iter().cloned().collect(),
            node.stat(self.rules.family),
        ))
    }

    /// The ACL of a node. Only clients with the admin permission see the password hashes.
    pub(crate) fn acl(&self, path: &str, identities: &[Id]) -> Result<(Vec<Acl>, Stat), Code> {
        let node = self.node(path)?;
        acl::check(
            &node.acl,
            permissions::READ | permissions::ADMIN,
            identities,
        )?;
        let administrator = acl::check(&node.acl, permissions::ADMIN, identities).is_ok();
        let list = if administrator {
            node.acl.clone()
        } else {
            acl::without_secrets(&node.acl)
        };
        Ok((list, node.stat(self.rules.family)))
    }

    /// The number of descendants of a node.
    pub(crate) fn all_children_number(&self, path: &str, identities: &[Id]) -> Result<usize, Code> {
        acl::check(&self.node(path)?.acl, permissions::READ, identities)?;
        if path == "/" {
            return Ok(self.nodes.len() - 1);
        }
        let below = format!("{path}/");
        let from = self.nodes.range(below.clone()..);
        Ok(from
            .take_while(|(path, _)| path.starts_with(&below))
            .count())
    }

    /// Whether a client that has seen all transactions up to `zxid` has missed a change of the
    /// data, and of the children. `None` if the node does not exist.
    pub(crate) fn changed_since(&self, path: &str, zxid: i64) -> Option<(bool, bool)> {
        let state = self.node(path).ok()?.state;
        Some((state.mzxid > zxid, state.pzxid > zxid))
    }
}
