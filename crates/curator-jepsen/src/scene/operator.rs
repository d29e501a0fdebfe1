//! The conductor's client: reads the servers' nodes and watches, and deletes nodes, as an operator
//! may.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::bail;
use clap::ValueEnum as _;
use curator_recipes::client::{CuratorClient, Error};
use fastrand::Rng;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{Client, Journal, POLL, Scene, WAIT_LIMIT, now};
use crate::history::{
    CACHED, COUNTERS, CounterKind, CounterSeen, RECEIPTS, Receipts, SERVICES, SHARDS, What,
};
use crate::worker::node_sets;

/// The configuration of the ensemble.
pub(super) const CONFIG: &str = "/zookeeper/config";
/// The directory of all locks.
const ROOT: &str = "/jepsen";

/// A node of a lock that belongs to a session: of a holder or a waiter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LockNode {
    pub(crate) path: String,
    pub(crate) session: i64,
    /// The node's `czxid`.
    created: i64,
}

impl Scene {
    /// All nodes of our locks that belong to a session.
    pub(crate) async fn lock_nodes(&self) -> anyhow::Result<Vec<LockNode>> {
        self.request("the nodes of the locks", async || {
            lock_nodes(&self.operator, self.parts()).await
        })
        .await
    }

    /// The nodes of one of our locks.
    pub(crate) async fn nodes_of_one(&self, random: &mut Rng) -> anyhow::Result<Vec<LockNode>> {
        let part = random.choice(self.parts().collect::<Vec<_>>());
        self.request("the nodes of a lock", async || {
            lock_nodes(&self.operator, part.iter().cloned()).await
        })
        .await
    }

    /// Deletes a node, as an operator may, and records it in the history.
    pub(crate) async fn delete(&self, node: &LockNode, limit: Duration) -> bool {
        delete(&self.operator, node, limit, &self.journal).await
    }

    /// The watches that the servers keep, except watches on children: the node and the session of
    /// each watch. `None` if a server does not reply. Excludes the watches of caches, because
    /// caches use a second session of the client, which is not reported, and those of clients that
    /// follow the ensemble, among them the conductor.
    pub(crate) async fn node_watches(&self) -> Option<Vec<(String, i64)>> {
        let mut found = Vec::new();
        let agreed = format!("{ROOT}/{SHARDS}/agreed");
        for member in self.cluster.read().await.members() {
            let mut watches = member.watches_by_path().await.ok()?;
            watches.retain(|path, _| {
                ![CACHED, SERVICES, CONFIG, &agreed]
                    .iter()
                    .any(|root| path.starts_with(root))
            });
            for (path, sessions) in watches {
                found.extend(sessions.into_iter().map(|session| (path.clone(), session)));
            }
        }
        Some(found)
    }

    /// The sets in the store, and the sets in nodes.
    pub(crate) async fn sets(&self) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
        let mut sets = self
            .request("the sets in nodes", async || {
                node_sets(&self.operator)
                    .await
                    .map_err(|error| error.to_string())
            })
            .await?;
        sets.extend(self.store.sets());
        Ok(sets)
    }

    fn parts(&self) -> impl Iterator<Item = String> {
        self.ours().take(1).flat_map(Client::parts)
    }

    /// Repeats a request until it succeeds. The conductor's session may have to be re-established
    /// first.
    pub(super) async fn request<T, E: ToString>(
        &self,
        what: &str,
        send: impl AsyncFn() -> Result<T, E>,
    ) -> anyhow::Result<T> {
        let end = Instant::now() + WAIT_LIMIT;
        loop {
            let why = match timeout_at(end, send()).await {
                Ok(Ok(result)) => return Ok(result),
                Ok(Err(error)) => error.to_string(),
                Err(_) => "no reply".to_owned(),
            };
            if Instant::now() >= end {
                bail!("cannot read {what} from the ensemble within a minute: {why}");
            }
            sleep(POLL).await;
        }
    }

    /// Records the value of each counter: of the peers' counters that have a node, and of all our
    /// counters.
    pub(crate) async fn record_counters(&self) -> anyhow::Result<()> {
        let mut keys: BTreeSet<String> = self
            .request("the counters", async || {
                children(&self.operator, COUNTERS).await
            })
            .await?
            .into_iter()
            .collect();
        keys.extend(
            CounterKind::value_variants()
                .iter()
                .map(|kind| kind.key().to_owned()),
        );
        for part in keys {
            let path = CounterKind::path(&part);
            let value = self
                .request("a counter", async || {
                    counter_value(&self.operator, &path).await
                })
                .await?;
            let receipts = match CounterKind::of(&part) {
                Some(CounterKind::Receipt) => Some(
                    self.request("the receipts", async || receipts(&self.operator).await)
                        .await?,
                ),
                _ => None,
            };
            self.journal.write(What::Counter {
                part,
                seen: CounterSeen::AtEnd { value, receipts },
            })?;
        }
        Ok(())
    }
}

/// All nodes that belong to a session, below the directories of these parts.
async fn lock_nodes(
    client: &CuratorClient,
    parts: impl Iterator<Item = String>,
) -> Result<Vec<LockNode>, Error> {
    let mut found = Vec::new();
    let mut paths: Vec<String> = parts.map(|part| format!("{ROOT}/{part}")).collect();
    while let Some(path) = paths.pop() {
        let children = match client.get_children(&path).await {
            Ok(children) => children,
            // The node was deleted in the meantime.
            Err(Error::NoNode { .. }) => continue,
            Err(error) => return Err(error),
        };
        for child in children {
            let path = format!("{path}/{child}");
            match client.check_exists(&path).await? {
                // The node is a directory of a lock.
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

/// Deletes a node, and records the delete. Returns whether the node may have been deleted: false
/// after `NoNode`; after any other error, the outcome is unknown.
async fn delete(
    client: &CuratorClient,
    node: &LockNode,
    limit: Duration,
    journal: &Journal,
) -> bool {
    let before = now();
    // The client does not retry, so the error belongs to the only attempt.
    let deleted = timeout(limit, client.delete().for_path(&node.path)).await;
    if matches!(deleted, Ok(Err(Error::NoNode { .. }))) {
        return false;
    }
    // If this write fails, the next write to the history fails as well, which ends the run.
    journal
        .write(What::Deleted {
            node: node.path.clone(),
            session: node.session,
            created: node.created,
            before,
            is_confirmed: matches!(deleted, Ok(Ok(()))),
        })
        .is_ok()
}

async fn children(client: &CuratorClient, path: &str) -> Result<Vec<String>, Error> {
    client.sync(path).await?;
    match client.get_children(path).await {
        Err(Error::NoNode { .. }) => Ok(Vec::new()),
        children => children,
    }
}

/// Reads the value of a counter: four bytes for kazoo's counter, eight bytes for other counters.
/// Returns 0 if the node does not exist.
///
/// # Errors
///
/// When the node cannot be read, or its data is not a number.
pub async fn counter_value(client: &CuratorClient, path: &str) -> Result<i64, String> {
    let data = match client.get_data(path).await {
        Ok((data, _)) => data,
        Err(Error::NoNode { .. }) => return Ok(0),
        Err(error) => return Err(error.to_string()),
    };
    <[u8; 4]>::try_from(&data[..])
        .map(|bytes| i32::from_be_bytes(bytes).into())
        .or_else(|_| <[u8; 8]>::try_from(&data[..]).map(i64::from_be_bytes))
        .map_err(|_| format!("{path} is not a number: {data:?}"))
}

/// The number of applied increments of each client: the data of a receipt start with the number of
/// its last change.
async fn receipts(client: &CuratorClient) -> Result<Receipts, String> {
    let mut found = Receipts::new();
    for name in children(client, RECEIPTS)
        .await
        .map_err(|error| error.to_string())?
    {
        let (data, _) = client
            .get_data(&format!("{RECEIPTS}/{name}"))
            .await
            .map_err(|error| error.to_string())?;
        let data = String::from_utf8_lossy(&data);
        let number = data
            .split(' ')
            .next()
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| format!("the receipt {name} is malformed: {data:?}"))?;
        found.insert(name, number);
    }
    Ok(found)
}
