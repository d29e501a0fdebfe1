//! The results of a run, as they are written to a file and read from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bench::peer::Peer;
use crate::bench::statistics::Spread;

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Names and values: date, machine, versions, arguments.
    pub about: Vec<(String, String)>,
    /// The results on each set of servers.
    pub places: Vec<PlaceResults>,
}

/// The results on one set of servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlaceResults {
    /// The name of the place.
    pub name: String,
    /// The servers, and the network before them.
    pub description: String,
    /// The cases that were skipped here to save time.
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
    /// What is measured.
    pub title: String,
    /// The table of the case.
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

/// What is measured, and thus the table of the case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Operations during a given time.
    Timed,
    /// The time in which a crowd of waiters joins the queue, and in which it drains.
    Crowd,
    /// The time until a cache contains a whole tree, or a discovery all instances.
    Cache,
}

/// One measurement. Times are in nanoseconds, memory is in bytes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Round {
    /// The number of operations; of a crowd, waiters; of a cache, nodes.
    pub operations: u64,
    /// By the worker's clock; with several processes, that of the slowest.
    pub nanoseconds: u64,
    /// The processor time.
    pub processor: u64,
    /// Context switches of a waiting thread.
    pub voluntary_switches: u64,
    /// Other context switches.
    pub involuntary_switches: u64,
    /// Only of a crowd.
    pub crowd: Option<Crowd>,
    /// Only of a cache.
    #[serde(default)]
    pub cache: Option<Cache>,
    /// Creations and deletions of a node over the same session, right after the operations.
    #[serde(default)]
    pub floor: Option<Floor>,
}

/// The cost that no lock can avoid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Floor {
    /// Pairs of a creation and a deletion.
    pub operations: u64,
    /// The time that they took.
    pub nanoseconds: u64,
}

/// The measurements of a crowd besides the time of the drain, which is the round's time. The round's other values count
/// from the first waiter on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Crowd {
    /// The time until all tasks waited.
    pub queueing: u64,
    /// How much the memory of the process had grown by then, compared with the holder alone.
    pub memory: u64,
    /// Only if the case cuts the connection.
    pub reconnect: Option<Reconnect>,
}

/// The effect of a cut of the connection while all tasks waited.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Reconnect {
    /// The time until the last request that followed from the cut.
    pub nanoseconds: u64,
    /// By kind, without pings, and including the handshakes.
    pub requests: BTreeMap<String, u64>,
}

/// The measurements of a cache besides the round's time, which is that of the case's subject: loading, following or
/// catching up.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Cache {
    /// The time until it contained all nodes.
    pub loading: u64,
    /// How much the memory of the process had grown by then, compared with the time before the cache was opened.
    pub memory: u64,
    /// How much the used heap had grown by then, after a garbage collection, if the worker reports it.
    pub heap: Option<u64>,
    /// The number of reported changes.
    pub events: u64,
    /// From the reply to the last change until the cache contained all changes.
    pub lag: Option<u64>,
    /// From the first handshake after the cut until the cache contained all changes.
    pub since_handshake: Option<u64>,
    /// The counts of the proxy, if there was one.
    pub counts: Option<Counts>,
}

/// The counts of a proxy for a number of operations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// The number of operations.
    pub operations: u64,
    /// By kind.
    pub requests: BTreeMap<String, u64>,
    /// `None` if the proxy did not delay frames.
    pub round_trips: Option<u64>,
    /// Events of watches.
    pub notifications: u64,
    /// From the client.
    pub bytes_sent: u64,
    /// From the server.
    pub bytes_received: u64,
}

impl PlaceResults {
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

    /// The smallest median of all peers but ours.
    #[must_use]
    pub fn best_peer(&self) -> Option<f64> {
        let others = self.peers.iter().filter(|results| results.peer != Peer::Ours);
        others.filter_map(|results| Some(results.time()?.median)).min_by(f64::total_cmp)
    }
}

impl PeerResults {
    /// Without measurements.
    #[must_use]
    pub fn new(peer: Peer) -> Self {
        Self { peer, rounds: Vec::new(), note: None, counts: None, counts_note: None }
    }

    /// Nanoseconds per operation.
    #[must_use]
    pub fn time(&self) -> Option<Spread> {
        self.per_operation(|round| round.nanoseconds)
    }

    /// Nanoseconds per operation of the floor, if it was played in the same rounds.
    #[must_use]
    pub fn floor(&self) -> Option<f64> {
        let floors = self.rounds.iter().filter_map(|round| round.floor).filter(|floor| floor.operations > 0);
        Some(Spread::of(floors.map(|floor| floor.nanoseconds as f64 / floor.operations as f64))?.median)
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

    /// A value that was measured of the crowd.
    #[must_use]
    pub fn of_crowd(&self, what: impl Fn(&Crowd) -> Option<u64>) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(|round| Some(what(round.crowd.as_ref()?)? as f64)))
    }

    /// A value that was measured of the cache.
    #[must_use]
    pub fn of_cache(&self, what: impl Fn(&Cache) -> Option<u64>) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(|round| Some(what(round.cache.as_ref()?)? as f64)))
    }

    fn per_operation(&self, what: impl Fn(&Round) -> u64) -> Option<Spread> {
        let rounds = self.rounds.iter().filter(|round| round.operations > 0);
        Spread::of(rounds.map(|round| what(round) as f64 / round.operations as f64))
    }
}

impl Counts {
    /// The number of requests, without the probes by which our client renews its lease on the session: these are sent
    /// periodically, independent of the locks.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.iter().filter(|(op, _)| *op != "Sync").map(|(_, count)| count).sum()
    }

    /// The part of a count for one operation.
    #[must_use]
    pub fn per_operation(&self, count: u64) -> f64 {
        count as f64 / self.operations.max(1) as f64
    }
}
