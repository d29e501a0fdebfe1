//! Finds the stats of nodes that a transaction has created, for servers that do not return them.
//!
//! Servers older than 3.7.2, and 3.8.0 to 3.8.1, answer `create2` in a transaction like `create`:
//! with the path, and without a stat (ZOOKEEPER-4026). The transport then puts a stat in its place
//! whose `czxid` is -1. Fencing tokens are made from `czxid`, so this file finds the correct
//! number, or returns an error.

use std::fmt;

use futures_util::future::join_all;

use super::Answer;
use super::error::RequestError;
use crate::error::{Error, Result};
use crate::operation::{
    Created, NodeSpec, Stat, TRANSACTION, TransactionOperation, TransactionResult,
};
use crate::path::ZPath;

/// The stat that a transport puts in place of a missing one.
pub(crate) const MISSING_STAT: Stat = Stat {
    czxid: -1,
    mzxid: -1,
    pzxid: -1,
    ctime: -1,
    mtime: -1,
    version: -1,
    cversion: -1,
    aversion: -1,
    ephemeral_owner: -1,
    data_length: -1,
    num_children: -1,
};

/// Why the zxid and the time of a transaction could not be determined.
#[derive(Debug)]
enum CreationUnknown {
    /// The node is gone, perhaps deleted by the transaction itself.
    Gone,
    /// The node was replaced by another one, created later.
    Replaced,
    /// Reading the node's stat failed.
    Failed(RequestError),
}

/// The zxid and the time of a transaction, which all nodes that it creates have in their stats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Creation {
    czxid: i64,
    ctime: i64,
}

/// Fills in the missing stats. Sends nothing if no stat is missing, or if another result contains
/// the zxid and the time. `exists` sends the request for the stat of a node, in the session
/// `session_id`.
pub(crate) async fn with_stats(
    exists: impl Fn(&ZPath) -> Answer<Option<Stat>>,
    session_id: i64,
    operations: &[TransactionOperation],
    mut results: Vec<TransactionResult>,
) -> Result<Vec<TransactionResult>> {
    let missing_stats = missing_stats(operations, &results);
    if missing_stats.is_empty() {
        return Ok(results);
    }
    let creation = match results.iter().find_map(creation_of) {
        Some(creation) => creation,
        None => read_creation(exists, session_id, operations, &missing_stats).await?,
    };
    for MissingStat { index, node, .. } in missing_stats {
        if let TransactionResult::Created(created) = &mut results[index] {
            created.stat = at_creation(node, creation, session_id);
        }
    }
    Ok(results)
}

/// A new node whose stat the server did not return.
#[derive(Debug, Clone)]
struct MissingStat<'a> {
    index: usize,
    node: &'a NodeSpec,
    /// Includes the sequence number.
    path: ZPath,
}

fn missing_stats<'a>(
    operations: &'a [TransactionOperation],
    results: &[TransactionResult],
) -> Vec<MissingStat<'a>> {
    operations
        .iter()
        .zip(results)
        .enumerate()
        .filter_map(
            |(index, (operation, result)): (
                usize,
                (&'a TransactionOperation, &TransactionResult),
            )| {
                match (operation, result) {
                    (
                        TransactionOperation::Create(node),
                        TransactionResult::Created(Created { path, stat }),
                    ) if is_missing(stat) => Some(MissingStat {
                        index,
                        node,
                        path: path.clone(),
                    }),
                    _ => None,
                }
            },
        )
        .collect()
}

/// Whether the stat is [`MISSING_STAT`], or the stat that `zookeeper-client` returns instead.
fn is_missing(stat: &Stat) -> bool {
    stat.czxid == MISSING_STAT.czxid
}

/// Returns the zxid and the time of the transaction, if this result contains them. Containers and
/// nodes with a time to live have stats on all servers.
fn creation_of(result: &TransactionResult) -> Option<Creation> {
    match result {
        TransactionResult::DataSet(stat) => Some(Creation {
            czxid: stat.mzxid,
            ctime: stat.mtime,
        }),
        TransactionResult::Created(created) if !is_missing(&created.stat) => {
            Some(Creation::from_stat(&created.stat))
        }
        _ => None,
    }
}

/// Reads the stat of one new ephemeral node: its owner, this session, proves that this transaction
/// created it. If no new node is ephemeral, reads the stats of all new nodes in one pipeline: they
/// must all have the same zxid and time. (A single node is accepted without comparison.) Nodes the
/// transaction itself deletes are skipped.
///
/// On such servers, reading a node's stat needs no permission.
async fn read_creation(
    exists: impl Fn(&ZPath) -> Answer<Option<Stat>>,
    session_id: i64,
    operations: &[TransactionOperation],
    missing_stats: &[MissingStat<'_>],
) -> Result<Creation> {
    let staying: Vec<_> = missing_stats
        .iter()
        .filter(|new: &&MissingStat<'_>| {
            !operations[new.index..].iter().any(|later| {
            matches!(later, TransactionOperation::Delete { path, .. } if *path == new.path)
        })
        })
        .collect();
    let to_read = match staying.iter().find(|new| new.node.mode.is_ephemeral()) {
        Some(new) => vec![*new],
        None => staying,
    };
    // The calls send the requests, so all of them are in flight before the first await.
    let requests: Vec<_> = to_read.iter().map(|new| exists(&new.path)).collect();
    drop(exists);
    let mut creation = None;
    for (new, found) in to_read.into_iter().zip(join_all(requests).await) {
        let failed = |cause| stat_unknown(new.node, cause);
        let found = found
            .map_err(|error| failed(CreationUnknown::Failed(error)))?
            .ok_or_else(|| failed(CreationUnknown::Gone))?;
        let seen = Creation::from_stat(&found);
        let is_ours = found.ephemeral_owner == owner(new.node, session_id);
        if !is_ours || *creation.get_or_insert(seen) != seen {
            return Err(failed(CreationUnknown::Replaced));
        }
    }
    // `None` if there was no node to read.
    creation.ok_or_else(|| stat_unknown(missing_stats[0].node, CreationUnknown::Gone))
}

/// The error if the transaction was applied, but its zxid and time could not be determined.
fn stat_unknown(node: &NodeSpec, cause: CreationUnknown) -> Error {
    Error::StatUnknown {
        operation: TRANSACTION,
        path: node.path.clone(),
        cause: cause.to_string(),
    }
}

/// The stat of a new node, for the kinds of nodes whose stat the server does not return.
fn at_creation(node: &NodeSpec, Creation { czxid, ctime }: Creation, session_id: i64) -> Stat {
    Stat {
        czxid,
        mzxid: czxid,
        pzxid: czxid,
        ctime,
        mtime: ctime,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: owner(node, session_id),
        // No server accepts a request of 2 GiB.
        data_length: i32::try_from(node.data.len()).unwrap_or(i32::MAX),
        num_children: 0,
    }
}

fn owner(node: &NodeSpec, session_id: i64) -> i64 {
    if node.mode.is_ephemeral() {
        session_id
    } else {
        0
    }
}

impl Creation {
    fn from_stat(stat: &Stat) -> Self {
        Self {
            czxid: stat.czxid,
            ctime: stat.ctime,
        }
    }
}

impl fmt::Display for CreationUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("it is gone"),
            Self::Replaced => f.write_str("another node has its path now"),
            Self::Failed(error) => write!(f, "{error}"),
        }
    }
}
