//! Sets in nodes of the ensemble, which only the holder of a lock writes.

use std::collections::BTreeMap;

use anyhow::Context as _;
use curator_recipes::client::{
    CreateMode, CuratorClient, Error as ClientError, Outcome as ClientOutcome,
};
use curator_recipes::{GuardedTransaction, Result};

use crate::history::Outcome;

/// The parent of all sets.
const ROOT: &str = "/jepsen-sets";

/// A set as it was read from its node.
#[derive(Debug)]
pub(super) struct NodeSet {
    path: String,
    pub(super) elements: Vec<String>,
    /// Whether the node existed.
    exists: bool,
}

impl NodeSet {
    /// Reads a set. If its node does not exist, the set is empty.
    pub(super) async fn read(client: &CuratorClient, set: &str) -> anyhow::Result<Self> {
        // The only slash in a set's name precedes its number.
        let path = format!("{ROOT}/{}", set.replace('/', "-"));
        match client.get_data(&path).await {
            Ok((data, _)) => Ok(Self {
                elements: elements(&path, &data)?,
                path,
                exists: true,
            }),
            Err(ClientError::NoNode { .. }) => {
                make_root(client).await?;
                Ok(Self {
                    path,
                    elements: Vec::new(),
                    exists: false,
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The set with an additional element.
    pub(super) fn with(mut self, element: &str) -> Self {
        self.elements.push(element.to_owned());
        self
    }

    fn written_by<'a>(
        &self,
        transaction: GuardedTransaction<'a>,
    ) -> Result<GuardedTransaction<'a>> {
        let data = serde_json::json!(self.elements).to_string();
        if self.exists {
            transaction.set_data(&self.path, data, None)
        } else {
            // If another client has created the node since the read, the transaction fails. Only a
            // violation of the lock's exclusivity can cause that.
            transaction.create(&self.path, data, CreateMode::Persistent)
        }
    }
}

/// Writes all of these sets in one transaction, if the lock is still held.
pub(super) async fn write(
    transaction: Option<GuardedTransaction<'_>>,
    sets: Vec<NodeSet>,
) -> Outcome {
    // Every hold has a transaction.
    let Some(transaction) = transaction else {
        return Outcome::NotSent;
    };
    let transaction = sets
        .iter()
        .try_fold(transaction, |transaction, set| set.written_by(transaction));
    let written = match transaction {
        Ok(transaction) => transaction.commit().await,
        Err(error) => Err(error),
    };
    match written {
        Ok(_) => Outcome::Acknowledged,
        Err(error) if error.outcome() == ClientOutcome::Unknown => Outcome::Unknown,
        Err(_) => Outcome::Refused,
    }
}

async fn make_root(client: &CuratorClient) -> Result<(), ClientError> {
    if client.check_exists(ROOT).await?.is_some() {
        return Ok(());
    }
    match client.create().for_path(ROOT, "").await {
        Ok(_) | Err(ClientError::NodeExists { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Parses the data of a node. Malformed data is a bug in the tester, as no other program writes
/// these nodes.
fn elements(path: &str, data: &[u8]) -> anyhow::Result<Vec<String>> {
    serde_json::from_slice(data)
        .with_context(|| format!("the data of {path} are not a JSON list of elements"))
}

/// All sets of the variant `transaction` with their elements, by their names in the histories. Must
/// be called after the workers have ended. Syncs first, as a server may lag behind the leader.
///
/// # Errors
///
/// Errors of the client, when its retry policy stops retrying; and if a node's data is not a set.
///
/// # Cancel safety
///
/// Only reads: a dropped future has no effect.
pub async fn node_sets(client: &CuratorClient) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let mut sets = BTreeMap::new();
    client.sync(ROOT).await?;
    let nodes = match client.get_children(ROOT).await {
        Ok(nodes) => nodes,
        // No worker had a part of this variant.
        Err(ClientError::NoNode { .. }) => return Ok(sets),
        Err(error) => return Err(error.into()),
    };
    for node in nodes {
        let path = format!("{ROOT}/{node}");
        let (data, _) = client.get_data(&path).await?;
        let set = node.rsplit_once('-').map_or_else(
            || node.clone(),
            |(family, number)| format!("{family}/{number}"),
        );
        sets.insert(set, elements(&path, &data)?);
    }
    Ok(sets)
}
