//! What a schedule needs of the servers, the network and the processes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use curator_test::Faults;
use futures_util::future::BoxFuture;

/// The servers of a schedule, and the network between them and the clients.
pub trait Servers: Debug + Send + Sync {
    /// The connect string of the clients.
    fn connect_string(&self) -> String;

    /// A future that runs in the process of this name: with its network, and not while it is paused.
    fn in_process(&self, name: &str, future: BoxFuture<'static, ()>) -> BoxFuture<'static, ()>;

    /// The nodes that the servers have agreed on.
    fn nodes(&self) -> Nodes;

    /// The nodes after the transaction of this zxid. Takes as long as all transactions until then.
    fn nodes_at(&self, zxid: i64) -> Nodes;

    /// The zxid of the last transaction that the servers have agreed on; `None` while there is no leader.
    fn last_zxid(&self) -> Option<i64>;

    /// The node at this path and all below it, among those that the servers have agreed on.
    fn nodes_below(&self, path: &str) -> Nodes {
        let mut nodes = self.nodes().split_off(path);
        nodes.retain(|its, _| its.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')));
        nodes
    }

    /// The node at this path, among those that the servers have agreed on.
    fn node(&self, path: &str) -> Option<Node>;

    /// Deletes a node and all below it, as an operator does. Returns false without such a node, or without a leader.
    fn delete(&self, path: &str) -> bool;

    /// The requests so far of each process, by the name of their operation, without pings.
    fn requests(&self) -> Requests;

    /// Begins faults by chance. Returns the shortest session timeout that may be granted, if it may be shorter than what
    /// a client requests.
    fn begin_faults(&self, faults: Faults) -> Option<Duration>;

    /// Ends all faults.
    fn heal(&self);

    /// What happened, in text.
    fn trace(&self) -> String;

    /// A hash of all that happened.
    fn trace_hash(&self) -> u64;
}

/// All nodes by their paths.
pub type Nodes = BTreeMap<String, Node>;

/// The number of requests by process, and by operation.
pub type Requests = BTreeMap<String, BTreeMap<String, u64>>;

/// A node on the servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Its data.
    pub data: Vec<u8>,
    /// The transaction that created it.
    pub czxid: i64,
    /// The transaction that last changed its data.
    pub mzxid: i64,
    /// The session that it belongs to; 0 if it is not ephemeral.
    pub owner: i64,
    /// Whether the servers delete it when it has no children.
    pub is_container: bool,
}
