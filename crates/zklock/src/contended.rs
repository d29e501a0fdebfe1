//! Reads the contenders of a lock from the servers.

use std::time::{Duration, SystemTime};

use curator_recipes::client::{CuratorClient, Error as ClientError, Stat};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::contender::{Contender, Entry, Kind, LEASES, LOCKS, are_used_up, is_semaphore, queues};
use crate::failure::{Code, Failure};
use crate::print::print_message;

/// A lock, with its contenders in their order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LockContenders {
    pub(crate) path: String,
    pub(crate) kind: Kind,
    /// The directory has no more sequence numbers, so several contenders may hold the lock at the
    /// same time.
    pub(crate) used_up: bool,
    pub(crate) contenders: Vec<Node>,
}

/// The locks at a path, and the directories that could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) locks: Vec<LockContenders>,
    /// The directories of a semaphore that this client is not permitted to read. Without its
    /// leases, the semaphore is not among the locks, because its holders are not known.
    pub(crate) unreadable: Vec<String>,
}

/// The node of a contender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) path: String,
    pub(crate) holds: bool,
    pub(crate) reads: bool,
    pub(crate) contender: Contender,
    /// From the node's stat; `None` if this client is not permitted to read the node.
    pub(crate) stat: Option<NodeStat>,
}

/// The stat of a contender's node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeStat {
    /// The session id in hexadecimal, as in the servers' logs.
    pub(crate) session: String,
    /// When the node was created, before its contender began to wait. In seconds since 1970, by the
    /// servers' clock.
    pub(crate) created: u64,
    /// The fencing token of the contender when it holds the lock. A waiter for a lease gets another
    /// token with the lease.
    pub(crate) token: i64,
    pub(crate) version: i32,
    children: i32,
}

/// The maximum number of nodes that are read concurrently.
const AT_ONCE: usize = 32;

impl Found {
    /// Prints what this client is not permitted to read. Fails if nothing else was found.
    pub(crate) fn print_unreadable(&self) -> Result<(), Failure> {
        let line = |path: &String| {
            format!("no permission to read {path}: contenders below it are not shown")
        };
        match self.unreadable.first() {
            Some(path) if self.locks.is_empty() => {
                return Err(Failure::new(Code::NoConnection, line(path)));
            }
            _ => self.unreadable.iter().map(line).for_each(print_message),
        }
        Ok(())
    }
}

impl LockContenders {
    pub(crate) fn holders(&self) -> impl Iterator<Item = &Node> {
        self.contenders.iter().filter(|node| node.holds)
    }

    /// The paths of the contenders' nodes without children. A node with children is a directory
    /// whose name looks like a contender's.
    pub(crate) fn leaves(&self) -> impl Iterator<Item = &str> {
        self.contenders
            .iter()
            .filter(|node| node.stat.as_ref().is_none_or(|stat| stat.children == 0))
            .map(|node| node.path.as_str())
    }
}

impl NodeStat {
    fn new(stat: &Stat) -> Self {
        Self {
            session: format!("{:#x}", stat.ephemeral_owner),
            created: u64::try_from(stat.ctime / 1000).unwrap_or(0),
            token: stat.czxid,
            version: stat.version,
            children: stat.num_children,
        }
    }

    /// The time since the node was created.
    pub(crate) fn age(&self) -> Duration {
        let created = SystemTime::UNIX_EPOCH + Duration::from_secs(self.created);
        Duration::from_secs(
            SystemTime::now()
                .duration_since(created)
                .map_or(0, |age| age.as_secs()),
        )
    }
}

/// Reads the locks at `path`. Omits contenders that leave during the read.
pub(crate) async fn read(client: &CuratorClient, path: &str) -> Result<Found, ClientError> {
    among(client, path, &children(client, path).await?).await
}

/// Like [`read`], for a caller that has already read the children of `path`.
pub(crate) async fn among(
    client: &CuratorClient,
    path: &str,
    children: &[String],
) -> Result<Found, ClientError> {
    let mut found = Found {
        locks: Vec::new(),
        unreadable: Vec::new(),
    };
    if is_semaphore(children) {
        semaphore(client, path, &mut found).await?;
    }
    for (kind, entries) in queues(children) {
        let contenders = nodes(client, path, &entries).await?;
        found.locks.push(LockContenders {
            path: path.to_owned(),
            kind,
            used_up: are_used_up(&entries),
            contenders,
        });
    }
    found.locks.retain(|lock| !lock.contenders.is_empty());
    Ok(found)
}

async fn semaphore(
    client: &CuratorClient,
    path: &str,
    found: &mut Found,
) -> Result<(), ClientError> {
    let mut contenders = Vec::new();
    let mut used_up = false;
    let mut are_leases_read = true;
    for (name, holds) in [(LEASES, true), (LOCKS, false)] {
        let directory = format!("{}/{name}", path.trim_end_matches('/'));
        let children = match children(client, &directory).await {
            Err(ClientError::NoAuth { .. }) => {
                found.unreadable.push(directory);
                are_leases_read &= !holds;
                continue;
            }
            children => children?,
        };
        for (_, mut entries) in queues(&children) {
            // The holder of the semaphore's internal mutex holds no lease, but waits for one.
            entries.iter_mut().for_each(|entry| entry.holds = holds);
            contenders.extend(nodes(client, &directory, &entries).await?);
            used_up |= are_used_up(&entries);
        }
    }
    if are_leases_read {
        found.locks.push(LockContenders {
            path: path.to_owned(),
            kind: Kind::Semaphore,
            used_up,
            contenders,
        });
    }
    Ok(())
}

async fn children(client: &CuratorClient, path: &str) -> Result<Vec<String>, ClientError> {
    match client.get_children(path).await {
        Err(ClientError::NoNode { .. }) => Ok(Vec::new()),
        children => children,
    }
}

async fn nodes(
    client: &CuratorClient,
    directory: &str,
    entries: &[Entry],
) -> Result<Vec<Node>, ClientError> {
    let nodes = stream::iter(entries.to_vec())
        .map(|entry| async move {
            let path = format!("{}/{}", directory.trim_end_matches('/'), entry.name);
            let (data, stat) = match client.get_data(&path).await {
                Err(ClientError::NoNode { .. }) => return Ok(None),
                Err(ClientError::NoAuth { .. }) => (Vec::new(), None),
                read => read.map(|(data, stat)| (data, Some(NodeStat::new(&stat))))?,
            };
            let contender = Contender::from_data(&data);
            Ok(Some(Node {
                path,
                holds: entry.holds,
                reads: entry.reads,
                contender,
                stat,
            }))
        })
        .buffered(AT_ONCE);
    nodes
        .try_filter_map(|node| async { Ok(node) })
        .try_collect()
        .await
}
