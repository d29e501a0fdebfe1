//! Lists and deletes the nodes of locks, as an operator may.

use std::time::Duration;

use curator_recipes::client::{CuratorClient, Error, Result};
use tokio::time::timeout;

use super::{Journal, now};
use crate::history::What;

/// The directory of all locks.
const ROOT: &str = "/jepsen";

/// A node of a lock that belongs to a session: of a holder or a waiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockNode {
    pub(crate) path: String,
    pub(crate) session: i64,
    /// Its `czxid`.
    created: i64,
}

/// All nodes that belong to a session, below the directories of these parts.
pub(super) async fn lock_nodes(
    client: &CuratorClient,
    parts: impl Iterator<Item = String>,
) -> Result<Vec<LockNode>> {
    let mut found = Vec::new();
    let mut paths: Vec<String> = parts.map(|part| format!("{ROOT}/{part}")).collect();
    while let Some(path) = paths.pop() {
        let children = match client.get_children(&path).await {
            Ok(children) => children,
            // Deleted in the meantime.
            Err(Error::NoNode { .. }) => continue,
            Err(error) => return Err(error),
        };
        for child in children {
            let path = format!("{path}/{child}");
            match client.check_exists(&path).await? {
                // A directory of a lock.
                Some(stat) if stat.ephemeral_owner == 0 => paths.push(path),
                Some(stat) => found.push(LockNode {
                    path,
                    session: stat.ephemeral_owner,
                    created: stat.czxid,
                }),
                None => {}
            }
        }
    }
    Ok(found)
}

/// Deletes a node, and records the delete. Returns whether this may have deleted the node: false
/// after `NoNode`; after any other error, the outcome is unknown.
pub(super) async fn delete(
    client: &CuratorClient,
    node: &LockNode,
    limit: Duration,
    journal: &Journal,
) -> bool {
    let before = now();
    // The client does not retry, so the error is that of the only attempt.
    let deleted = timeout(limit, client.delete().for_path(&node.path)).await;
    if matches!(deleted, Ok(Err(Error::NoNode { .. }))) {
        return false;
    }
    let is_confirmed = matches!(deleted, Ok(Ok(())));
    let LockNode {
        path,
        session,
        created,
    } = node.clone();
    // If this fails, the next write to the history fails as well, which ends the run.
    journal
        .write(What::Deleted {
            node: path,
            session,
            created,
            before,
            is_confirmed,
        })
        .is_ok()
}
