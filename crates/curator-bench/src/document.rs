//! The results of a run, as they are written to a file and read from it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::case::Kind;
use crate::peer::Peer;
use crate::statistics::Spread;

/// The results of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Document {
    /// Names and values: date, machine, versions, arguments.
    pub(crate) about: Vec<(String, String)>,
    pub(crate) places: Vec<PlaceResults>,
}

/// The results on one set of servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlaceResults {
    pub(crate) name: String,
    pub(crate) description: String,
    /// The cases that were skipped here to save time.
    #[serde(default)]
    pub(crate) left_out: Vec<String>,
    pub(crate) cases: Vec<CaseResults>,
}

/// The results of one case for all peers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CaseResults {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) kind: Kind,
    pub(crate) peers: Vec<PeerResults>,
}

/// The results of one case for one peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PeerResults {
    pub(crate) peer: Peer,
    pub(crate) rounds: Vec<Round>,
    /// Why rounds are missing.
    pub(crate) note: Option<String>,
    /// The counts of a separate run.
    pub(crate) counts: Option<Counts>,
    /// Why the counts are missing.
    pub(crate) counts_note: Option<String>,
}

/// One measurement. Times are in nanoseconds, memory is in bytes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) operations: u64,
    /// By the worker's clock; with several processes, that of the slowest.
    pub(crate) nanoseconds: u64,
    pub(crate) processor: u64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
    pub(crate) crowd: Option<Crowd>,
    #[serde(default)]
    pub(crate) cache: Option<Cache>,
    /// Creations and deletions of a node over the same session, right after the operations.
    #[serde(default)]
    pub(crate) floor: Option<Floor>,
}

/// The cost that no lock can avoid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Floor {
    pub(crate) operations: u64,
    pub(crate) nanoseconds: u64,
}

/// The measurements of a crowd besides the time of the drain, which is the round's time. The round's other values count
/// from the first waiter on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Crowd {
    /// The time until all tasks waited.
    pub(crate) queueing: u64,
    /// How much the memory of the process had grown by then, compared with the holder alone.
    pub(crate) memory: u64,
    pub(crate) reconnect: Option<Reconnect>,
}

/// The effect of a cut of the connection while all tasks waited.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Reconnect {
    /// The time until the last request that followed from the cut.
    pub(crate) nanoseconds: u64,
    /// By kind, without pings, and including the handshakes.
    pub(crate) requests: BTreeMap<String, u64>,
}

/// The measurements of a cache besides the round's time, which is that of the case's subject: loading, following or
/// catching up.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Cache {
    /// The time until it contained all nodes.
    pub(crate) loading: u64,
    /// How much the memory of the process had grown by then, compared with the time before the cache was opened.
    pub(crate) memory: u64,
    /// How much the used heap had grown by then, after a garbage collection, if the worker reports it.
    pub(crate) heap: Option<u64>,
    /// The number of reported changes.
    pub(crate) events: u64,
    /// From the reply to the last change until the cache contained all changes.
    pub(crate) lag: Option<u64>,
    /// From the first handshake after the cut until the cache contained all changes.
    pub(crate) since_handshake: Option<u64>,
    /// The counts of the proxy, if there was one.
    pub(crate) counts: Option<Counts>,
}

/// The counts of a proxy for a number of operations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) operations: u64,
    /// By kind.
    pub(crate) requests: BTreeMap<String, u64>,
    /// `None` if the proxy did not delay frames.
    pub(crate) round_trips: Option<u64>,
    pub(crate) notifications: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
}

impl PlaceResults {
    pub(crate) fn case(&self, name: &str) -> Option<&CaseResults> {
        self.cases.iter().find(|case| case.name == name)
    }
}

impl CaseResults {
    pub(crate) fn of(&self, peer: Peer) -> Option<&PeerResults> {
        self.peers.iter().find(|results| results.peer == peer)
    }

    /// The smallest median of all peers but ours.
    pub(crate) fn best_peer(&self) -> Option<f64> {
        let others = self.peers.iter().filter(|results| results.peer != Peer::Ours);
        others.filter_map(|results| Some(results.time()?.median)).min_by(f64::total_cmp)
    }
}

impl PeerResults {
    pub(crate) fn new(peer: Peer) -> Self {
        Self { peer, rounds: Vec::new(), note: None, counts: None, counts_note: None }
    }

    /// Nanoseconds per operation.
    pub(crate) fn time(&self) -> Option<Spread> {
        self.per_operation(|round| round.nanoseconds)
    }

    /// Nanoseconds per operation of the floor, if it was played in the same rounds.
    pub(crate) fn floor(&self) -> Option<f64> {
        let floors = self.rounds.iter().filter_map(|round| round.floor).filter(|floor| floor.operations > 0);
        Some(Spread::of(floors.map(|floor| floor.nanoseconds as f64 / floor.operations as f64))?.median)
    }

    /// Nanoseconds of processor time per operation.
    pub(crate) fn processor(&self) -> Option<Spread> {
        self.per_operation(|round| round.processor)
    }

    /// Context switches per operation.
    pub(crate) fn switches(&self) -> Option<Spread> {
        self.per_operation(|round| round.voluntary_switches + round.involuntary_switches)
    }

    /// A value that was measured of the crowd.
    pub(crate) fn of_crowd(&self, what: impl Fn(&Crowd) -> Option<u64>) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(|round| Some(what(round.crowd.as_ref()?)? as f64)))
    }

    /// A value that was measured of the cache.
    pub(crate) fn of_cache(&self, what: impl Fn(&Cache) -> Option<u64>) -> Option<Spread> {
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
    pub(crate) fn requests(&self) -> u64 {
        self.requests.iter().filter(|(op, _)| *op != "Sync").map(|(_, count)| count).sum()
    }

    pub(crate) fn per_operation(&self, count: u64) -> f64 {
        count as f64 / self.operations.max(1) as f64
    }
}
