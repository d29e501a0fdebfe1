//! Creates the trees that caches load, and changes them, with a client that is not measured.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::Mutex;
use zookeeper_client::{Acls, Client, CreateMode, Error};

/// The size of a leaf's data, in bytes.
const DATA: usize = 100;
/// How often a storm changes each of its leaves.
pub(crate) const CHANGES: usize = 10;
/// The number of nodes that are created in one transaction: the request stays far below the
/// megabyte that a server accepts.
const BATCH: usize = 500;
/// The number of transactions in flight.
const PIPELINE: usize = 8;
/// Long, because the client idles while a slow peer loads.
const SESSION_TIMEOUT: Duration = Duration::from_secs(40);
const PARENT: &str = "/bench";

/// Creates trees and changes them. Each tree is one directory with leaves, which peers and cases
/// share.
#[derive(Debug)]
pub(crate) struct Trees {
    client: Client,
    /// The numbers of leaves of the existing trees.
    created: Mutex<BTreeSet<usize>>,
    marks: AtomicU64,
}

impl Trees {
    pub(crate) async fn connect(connect: &str) -> anyhow::Result<Self> {
        let client = Client::connector()
            .with_session_timeout(SESSION_TIMEOUT)
            .connect(connect)
            .await?;
        Ok(Self {
            client,
            created: Mutex::default(),
            marks: AtomicU64::new(1),
        })
    }

    /// A new mark. The worker recognizes the last changes of a run by it.
    pub(crate) fn next_mark(&self) -> u64 {
        self.marks.fetch_add(1, Relaxed)
    }

    /// Creates the tree with this number of leaves, unless it exists. Keeps the changes of earlier
    /// runs.
    pub(crate) async fn create(&self, nodes: usize) -> anyhow::Result<()> {
        let mut created = self.created.lock().await;
        if created.contains(&nodes) {
            return Ok(());
        }
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        for directory in [PARENT.to_owned(), path(nodes)] {
            match self.client.create(&directory, b"", &options).await {
                Ok(_) | Err(Error::NodeExists) => {}
                Err(error) => return Err(error).context("cannot create a tree"),
            }
        }
        let leaves: Vec<usize> = (0..nodes).collect();
        for pipeline in leaves.chunks(BATCH * PIPELINE) {
            let mut transactions = Vec::new();
            for batch in pipeline.chunks(BATCH) {
                let mut transaction = self.client.new_multi_writer();
                for leaf in batch {
                    transaction.add_create(&leaf_path(nodes, *leaf), &data(0, 0), &options)?;
                }
                transactions.push(transaction.commit());
            }
            for transaction in transactions {
                transaction.await?;
            }
        }
        created.insert(nodes);
        Ok(())
    }

    /// Changes `marked` leaves [`CHANGES`] times, in rounds over all these leaves, in one pipeline.
    /// The data of each leaf's last change begin with the mark.
    pub(crate) async fn storm(&self, nodes: usize, marked: usize, mark: u64) -> anyhow::Result<()> {
        let leaves = spread(nodes, marked);
        let mut changes = Vec::with_capacity(leaves.len() * CHANGES);
        for round in 1..=CHANGES {
            let data = if round == CHANGES {
                data(mark, round)
            } else {
                data(0, round)
            };
            changes.extend(
                leaves
                    .iter()
                    .map(|leaf| self.client.set_data(leaf, &data, None)),
            );
        }
        for change in changes {
            change.await?;
        }
        Ok(())
    }

    /// Changes `marked` leaves once.
    pub(crate) async fn change(
        &self,
        nodes: usize,
        marked: usize,
        mark: u64,
    ) -> anyhow::Result<()> {
        let data = data(mark, 0);
        let changes: Vec<_> = spread(nodes, marked)
            .iter()
            .map(|leaf| self.client.set_data(leaf, &data, None))
            .collect();
        for change in changes {
            change.await?;
        }
        Ok(())
    }
}

/// The directory of the tree with this number of leaves.
pub(crate) fn path(nodes: usize) -> String {
    format!("{PARENT}/tree-{nodes:06}")
}

/// A leaf's name has 19 characters, its path 38.
fn leaf_path(nodes: usize, leaf: usize) -> String {
    format!("{}/node-{leaf:014}", path(nodes))
}

/// The paths of `marked` leaves, evenly spread.
fn spread(nodes: usize, marked: usize) -> Vec<String> {
    (0..marked)
        .map(|number| leaf_path(nodes, number * nodes / marked.max(1)))
        .collect()
}

/// The mark, with twenty digits, and the number of the change.
fn data(mark: u64, change: usize) -> Vec<u8> {
    format!("{mark:020} {change:.<width$}", width = DATA - 21).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_data_have_the_documented_sizes() {
        assert_eq!(leaf_path(100_000, 99_999).len(), 38);
        assert_eq!((data(0, 0).len(), data(u64::MAX, 10).len()), (DATA, DATA));
        assert!(data(7, 3).starts_with(b"00000000000000000007 3."));
    }

    #[test]
    fn changes_are_spread_over_the_whole_tree() {
        let leaves = spread(1000, 4);
        assert_eq!(leaves, [0, 250, 500, 750].map(|leaf| leaf_path(1000, leaf)));
        assert_eq!(
            spread(50, 50).into_iter().collect::<BTreeSet<_>>().len(),
            50
        );
    }
}
