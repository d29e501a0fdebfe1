//! The results of the bench: [`Document`] is their JSON.

mod caches;
mod number;
mod tables;

pub use self::number::{NOTHING, Spread, number};
pub use self::tables::markdown;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Names and values: date, machine, versions, arguments.
    pub about: Vec<(String, String)>,
    /// The results in each environment.
    #[serde(rename = "places")]
    pub environments: Vec<EnvironmentResults>,
}

/// The results in one environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentResults {
    /// The name of the environment.
    pub name: String,
    /// The servers, and the network delay between clients and servers.
    pub description: String,
    /// The cases that were skipped on these servers to save time.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// The results of each case.
    pub cases: Vec<CaseResults>,
}

/// The results of one case for all peers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaseResults {
    /// The name on the command line.
    pub name: String,
    /// A description of the case.
    pub title: String,
    /// The table that the case belongs to.
    pub kind: Kind,
    /// The results of each client; ours is the first.
    pub peers: Vec<PeerResults>,
}

/// The results of one case for one peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PeerResults {
    /// The client.
    pub peer: Peer,
    /// The measurements.
    pub rounds: Vec<Round>,
    /// Why rounds are missing.
    pub note: Option<String>,
    /// The counts of a separate run.
    pub counts: Option<Counts>,
    /// Why the counts are missing.
    pub counts_note: Option<String>,
}

/// The kind of measurement, which determines the table that the case belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The number of operations in a given time.
    Timed,
    /// The time until a crowd of waiters has joined the queue, and until the queue has drained.
    Crowd,
    /// The time until a cache contains a tree or its changes, or until all instances of a service
    /// are registered or found.
    Cache,
}

/// One measurement. Times are in nanoseconds, memory is in bytes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Round {
    /// The number of operations: waiters of a crowd, nodes or changes of a cache, instances of a
    /// discovery.
    pub operations: u64,
    /// The duration by the worker's clock; with several processes, the duration of the slowest
    /// process.
    pub nanoseconds: u64,
    /// The processor time.
    pub processor: u64,
    /// Context switches of threads that waited for something.
    pub voluntary_switches: u64,
    /// Context switches of threads that were preempted.
    pub involuntary_switches: u64,
    /// Measured only for a crowd.
    pub crowd: Option<Crowd>,
    /// Measured only for a cache.
    #[serde(default)]
    pub cache: Option<Cache>,
    /// The baseline: creates and deletes of a node over the same session, right after the
    /// operations.
    #[serde(default)]
    pub floor: Option<Floor>,
}

/// The baseline of a lock: the create and the delete of a node, which no lock can avoid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// The number of pairs of a create and a delete.
    pub operations: u64,
    /// The time that all pairs took.
    pub nanoseconds: u64,
}

/// The measurements of a crowd besides the time of the drain, which is the round's time. The
/// round's other values include the time until all waiters have joined the queue.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Crowd {
    /// The time until all tasks waited.
    pub queueing: u64,
    /// The growth of the process's memory until all tasks waited, compared with the holder alone.
    pub memory: u64,
    /// Measured only if the case cuts the connection.
    pub reconnect: Option<Reconnect>,
}

/// The effect of cutting the connection while all tasks waited.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reconnect {
    /// The time from the cut until the last request of the reconnect.
    pub nanoseconds: u64,
    /// The number of requests by kind, without pings, and including the handshakes.
    pub requests: BTreeMap<String, u64>,
}

/// The measurements of a cache besides the round's time, which is the time of the load, of the
/// storm of changes, or of the reconnect.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Cache {
    /// The time until the cache contained all nodes.
    pub loading: u64,
    /// The growth of the process's memory from before the cache was opened until the cache
    /// contained all nodes.
    pub memory: u64,
    /// The growth of the used heap by the end, after a garbage collection, if the worker reports
    /// it.
    pub heap: Option<u64>,
    /// The number of reported changes.
    pub events: u64,
    /// The time from the reply to the last change until the cache contained all changes.
    pub lag: Option<u64>,
    /// The time from the first handshake after the cut until the cache contained all changes.
    pub since_handshake: Option<u64>,
    /// The counts of the proxy, if there was one.
    pub counts: Option<Counts>,
}

/// The counts of a proxy for a number of operations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// The number of operations.
    pub operations: u64,
    /// The number of requests by kind.
    pub requests: BTreeMap<String, u64>,
    /// `None` if the proxy did not delay frames.
    pub round_trips: Option<u64>,
    /// The number of watch events.
    pub notifications: u64,
    /// The number of bytes that the client has sent.
    pub bytes_sent: u64,
    /// The number of bytes that the client has received.
    pub bytes_received: u64,
}

impl EnvironmentResults {
    /// The case with this name.
    #[must_use]
    pub fn case(&self, name: &str) -> Option<&CaseResults> {
        self.cases.iter().find(|case| case.name == name)
    }
}

impl CaseResults {
    /// The results of this client.
    #[must_use]
    pub fn of(&self, peer: Peer) -> Option<&PeerResults> {
        self.peers.iter().find(|results| results.peer == peer)
    }

    /// The shortest median time per operation of all peers except ours.
    #[must_use]
    pub fn best_peer(&self) -> Option<f64> {
        self.peers
            .iter()
            .filter(|results| results.peer != Peer::Ours)
            .filter_map(|results| Some(results.time()?.median))
            .min_by(f64::total_cmp)
    }
}

impl PeerResults {
    /// Makes results without measurements.
    #[must_use]
    pub fn new(peer: Peer) -> Self {
        Self {
            peer,
            rounds: Vec::new(),
            note: None,
            counts: None,
            counts_note: None,
        }
    }

    /// Nanoseconds per operation.
    #[must_use]
    pub fn time(&self) -> Option<Spread> {
        self.per_operation(|round| round.nanoseconds)
    }

    /// Nanoseconds per operation of the baseline, if it was measured in the same rounds.
    #[must_use]
    pub fn floor(&self) -> Option<f64> {
        let floors = self
            .rounds
            .iter()
            .filter_map(|round| round.floor)
            .filter(|floor| floor.operations > 0)
            .map(|floor| floor.nanoseconds as f64 / floor.operations as f64);
        Some(Spread::of(floors)?.median)
    }

    /// Nanoseconds of processor time per operation.
    #[must_use]
    pub fn processor(&self) -> Option<Spread> {
        self.per_operation(|round| round.processor)
    }

    /// Context switches per operation.
    #[must_use]
    pub fn switches(&self) -> Option<Spread> {
        self.per_operation(|round| round.voluntary_switches + round.involuntary_switches)
    }

    /// The spread of a value of the crowd over the rounds.
    #[must_use]
    pub fn of_crowd(&self, what: impl Fn(&Crowd) -> Option<u64>) -> Option<Spread> {
        Spread::of(
            self.rounds
                .iter()
                .filter_map(|round| Some(what(round.crowd.as_ref()?)? as f64)),
        )
    }

    /// The spread of a value of the cache over the rounds.
    #[must_use]
    pub fn of_cache(&self, what: impl Fn(&Cache) -> Option<u64>) -> Option<Spread> {
        Spread::of(
            self.rounds
                .iter()
                .filter_map(|round| Some(what(round.cache.as_ref()?)? as f64)),
        )
    }

    fn per_operation(&self, what: impl Fn(&Round) -> u64) -> Option<Spread> {
        let rounds = self
            .rounds
            .iter()
            .filter(|round| round.operations > 0)
            .map(|round| what(round) as f64 / round.operations as f64);
        Spread::of(rounds)
    }
}

impl Counts {
    /// The number of requests, without the probes of our client's session lease, which are sent
    /// periodically, independently of the locks.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
            .iter()
            .filter(|(op, _)| *op != "Sync")
            .map(|(_, count)| count)
            .sum()
    }

    /// A count divided by the number of operations.
    #[must_use]
    pub fn per_operation(&self, count: u64) -> f64 {
        count as f64 / self.operations.max(1) as f64
    }
}

/// A ZooKeeper client that the bench measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// This project's client; always measured.
    #[cfg_attr(feature = "clap", value(skip))]
    Ours,
    /// This project's client with its own transport, `Transport::Native`.
    Native,
    /// Apache Curator, in Java.
    Curator,
    /// Curator, where all threads of a crowd share one lock object.
    CuratorShared,
    /// Kazoo, in Python.
    Kazoo,
    /// go-zookeeper, in Go.
    Go,
    /// The crate `zookeeper-client`, the transport of this project's client, with its
    /// `Client::lock`.
    ZookeeperClient,
}

impl Peer {
    /// All clients; ours is the first.
    pub const ALL: [Self; 7] = [
        Self::Ours,
        Self::Native,
        Self::Curator,
        Self::CuratorShared,
        Self::Kazoo,
        Self::Go,
        Self::ZookeeperClient,
    ];
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours => "ours",
            Self::Native => "native",
            Self::Curator => "curator",
            Self::CuratorShared => "curator-shared",
            Self::Kazoo => "kazoo",
            Self::Go => "go",
            Self::ZookeeperClient => "zookeeper-client",
        })
    }
}
