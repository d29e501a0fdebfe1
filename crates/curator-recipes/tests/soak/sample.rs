//! The measurements at one moment.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;

use curator_recipes::client::CuratorClient;
use curator_test::four_letter_word;
use tokio::runtime::Handle;

use super::support::status;
use super::work::Done;

/// Levels, which must not grow, in the order of the table.
pub(crate) const LEVELS: [&str; 11] = [
    "memory (KiB)",
    "threads",
    "tasks",
    "descriptors",
    "sockets",
    "pending deletes",
    "watches, of the clients",
    "watches, of the server",
    "nodes",
    "ephemeral nodes",
    "connections of the server",
];

/// Counts, which only grow.
pub(crate) const COUNTS: [&str; 6] = [
    "acquired",
    "timed out",
    "cancelled",
    "failed",
    "connections resumed",
    "sessions replaced",
];

/// Levels and counts by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sample(pub(crate) BTreeMap<&'static str, u64>);

/// The server and the clients that a sample measures.
pub(crate) struct Source {
    pub(crate) clients: Vec<CuratorClient>,
    pub(crate) done: Arc<Done>,
    pub(crate) server: SocketAddr,
}

impl Source {
    pub(crate) async fn sample(&self) -> Sample {
        let mut sample = BTreeMap::new();
        let mntr = four_letter_word(self.server, "mntr").await.unwrap();
        for (name, key) in [
            ("watches, of the server", "zk_watch_count\t"),
            ("nodes", "zk_znode_count\t"),
            ("ephemeral nodes", "zk_ephemerals_count\t"),
            ("connections of the server", "zk_num_alive_connections\t"),
        ] {
            let value = mntr
                .lines()
                .find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
            sample.insert(name, value.unwrap_or_else(|| panic!("no {key} in {mntr}")));
        }
        let descriptors = descriptors();
        let health: Vec<_> = self.clients.iter().map(CuratorClient::health).collect();
        // Anonymous memory only: file-backed memory includes the program itself.
        sample.insert("memory (KiB)", status("RssAnon"));
        sample.insert("threads", status("Threads"));
        sample.insert(
            "tasks",
            Handle::current().metrics().num_alive_tasks() as u64,
        );
        sample.insert("descriptors", descriptors.len() as u64);
        sample.insert(
            "sockets",
            descriptors
                .iter()
                .filter(|target| target.starts_with("socket:"))
                .count() as u64,
        );
        sample.insert(
            "pending deletes",
            health
                .iter()
                .map(|health| health.pending_deletes as u64)
                .sum(),
        );
        sample.insert(
            "watches, of the clients",
            health.iter().map(|health| health.watches as u64).sum(),
        );
        sample.insert(
            "connections resumed",
            health.iter().map(|health| health.connections_resumed).sum(),
        );
        sample.insert(
            "sessions replaced",
            health.iter().map(|health| health.sessions_replaced).sum(),
        );
        sample.extend(self.done.counts());
        Sample(sample)
    }
}

impl Sample {
    pub(crate) fn get(&self, name: &str) -> u64 {
        self.0
            .get(name)
            .copied()
            .unwrap_or_else(|| panic!("{name} was not measured"))
    }
}

/// The targets of this process's descriptors.
fn descriptors() -> Vec<String> {
    let targets = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets
        .map(|target| target.to_string_lossy().into_owned())
        .collect()
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = self.0.iter().map(|(name, value)| format!("{name} {value}"));
        f.write_str(&numbers.collect::<Vec<_>>().join(", "))
    }
}
