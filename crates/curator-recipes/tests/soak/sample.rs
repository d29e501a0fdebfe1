//! What is measured, at one moment.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use curator_recipes::client::CuratorClient;
use tokio::runtime::Handle;

use super::work::Done;

/// What the clients' process says for the test begins with this.
pub(crate) const SAYS: &str = "soak-says ";

/// Levels, which must not grow. In this order in the table.
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

/// Counts, which grow all the time.
pub(crate) const COUNTS: [&str; 6] =
    ["acquired", "timed out", "cancelled", "failed", "connections resumed", "sessions replaced"];

/// Numbers by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sample(BTreeMap<&'static str, u64>);

impl Sample {
    /// What can be seen in the clients' process.
    pub(crate) fn of_clients(clients: &[CuratorClient], done: &Done) -> Self {
        let mut sample = Self::default();
        let descriptors = descriptors();
        let health: Vec<_> = clients.iter().map(CuratorClient::health).collect();
        // Without what is read from files, such as the program itself.
        sample.set("memory (KiB)", status("RssAnon"));
        sample.set("threads", status("Threads"));
        sample.set("tasks", Handle::current().metrics().num_alive_tasks() as u64);
        sample.set("descriptors", descriptors.len() as u64);
        sample.set("sockets", descriptors.iter().filter(|target| target.starts_with("socket:")).count() as u64);
        sample.set("pending deletes", health.iter().map(|health| health.pending_deletes as u64).sum());
        sample.set("watches, of the clients", health.iter().map(|health| health.watches as u64).sum());
        sample.set("connections resumed", health.iter().map(|health| health.connections_resumed).sum());
        sample.set("sessions replaced", health.iter().map(|health| health.sessions_replaced).sum());
        for (name, count) in done.counts() {
            sample.set(name, count);
        }
        sample
    }

    pub(crate) fn get(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_else(|| panic!("{name} was not measured"))
    }

    fn set(&mut self, name: &'static str, value: u64) {
        self.0.insert(name, value);
    }

    /// As [`read`](Self::read) reads it.
    pub(crate) fn line(&self, kind: &str) -> String {
        let numbers = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
        format!("{SAYS}{kind};{}", numbers.join(";"))
    }

    /// The sample in a line without its beginning, if it is of this kind.
    pub(crate) fn read(line: &str, kind: &str) -> Option<Self> {
        let mut sample = Self::default();
        for number in line.strip_prefix(kind)?.strip_prefix(';')?.split(';') {
            let (name, value) = number.split_once('=').unwrap();
            let known = LEVELS.iter().chain(&COUNTS).find(|known| **known == name).unwrap();
            sample.set(known, value.parse().unwrap());
        }
        Some(sample)
    }
}

/// Adds what a server says of itself.
pub(crate) fn of_server(sample: &mut Sample, mntr: &str) {
    for (name, key) in [
        ("watches, of the server", "zk_watch_count\t"),
        ("nodes", "zk_znode_count\t"),
        ("ephemeral nodes", "zk_ephemerals_count\t"),
        ("connections of the server", "zk_num_alive_connections\t"),
    ] {
        let value = mntr.lines().find_map(|line| line.strip_prefix(key)?.trim().parse().ok());
        sample.set(name, value.unwrap_or_else(|| panic!("no {key} in {mntr}")));
    }
}

fn status(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// What the descriptors of this process are.
fn descriptors() -> Vec<String> {
    let targets = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.map(|target| target.to_string_lossy().into_owned()).collect()
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = self.0.iter().map(|(name, value)| format!("{name} {value}"));
        f.write_str(&numbers.collect::<Vec<_>>().join(", "))
    }
}
