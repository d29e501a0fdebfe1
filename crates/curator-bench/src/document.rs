//! Everything that a run has measured, as it is written to a file and read from one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::case::Kind;
use crate::peer::Peer;
use crate::statistics::Spread;

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Document {
    /// Date, machine, versions, arguments: what each is of, and which it is.
    pub(crate) about: Vec<(String, String)>,
    pub(crate) places: Vec<PlaceResults>,
}

/// What was measured on one set of servers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlaceResults {
    pub(crate) name: String,
    pub(crate) description: String,
    /// What was not played here, so that a run does not take too long.
    #[serde(default)]
    pub(crate) left_out: Vec<String>,
    pub(crate) cases: Vec<CaseResults>,
}

/// One case of all peers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CaseResults {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) kind: Kind,
    pub(crate) peers: Vec<PeerResults>,
}

/// One case of one peer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PeerResults {
    pub(crate) peer: Peer,
    pub(crate) rounds: Vec<Round>,
    /// Why there is no round, or no more of them.
    pub(crate) note: Option<String>,
    /// What was counted in a run of its own.
    pub(crate) counts: Option<Counts>,
    /// Why nothing was counted, though it should have been.
    pub(crate) counts_note: Option<String>,
}

/// One measurement. Times are in nanoseconds, memory is in bytes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) operations: u64,
    /// By the worker's clock; of several processes, of the slowest.
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

/// What no lock can do with less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Floor {
    pub(crate) operations: u64,
    pub(crate) nanoseconds: u64,
}

/// What else is measured of a crowd. The round's time is that of the drain; what else it has is from the first waiter on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Crowd {
    /// Until all waited.
    pub(crate) queueing: u64,
    /// How much more memory the process had then than when only the holder was there.
    pub(crate) memory: u64,
    pub(crate) reconnect: Option<Reconnect>,
}

/// A connection was cut while all waited.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Reconnect {
    /// Until the last thing that the client sent because of it.
    pub(crate) nanoseconds: u64,
    /// By kind, without pings, and with the handshakes.
    pub(crate) requests: BTreeMap<String, u64>,
}

/// What else is measured of a cache. The round's time is that of what the case is about: loading, following or catching up.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Cache {
    /// Until it had all nodes.
    pub(crate) loading: u64,
    /// How much more memory the process had then than before it had opened one.
    pub(crate) memory: u64,
    /// How much more of the heap was in use then, after a collection of garbage, if the worker can say so.
    pub(crate) heap: Option<u64>,
    /// How many changes it has reported.
    pub(crate) events: u64,
    /// From the reply to the last change until the cache had all.
    pub(crate) lag: Option<u64>,
    /// From the first handshake after the cut until the cache had all.
    pub(crate) since_handshake: Option<u64>,
    /// At a proxy, if there was one.
    pub(crate) counts: Option<Counts>,
}

/// What was counted at a proxy for so many operations.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Counts {
    pub(crate) operations: u64,
    /// By kind.
    pub(crate) requests: BTreeMap<String, u64>,
    /// Not known if the proxy did not delay.
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

    /// The peer other than ours whose median is least.
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

    /// Nanoseconds of the floor, if it was played in the same rounds.
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

    /// Of what was measured of the crowd.
    pub(crate) fn of_crowd(&self, what: impl Fn(&Crowd) -> Option<u64>) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(|round| Some(what(round.crowd.as_ref()?)? as f64)))
    }

    /// Of what was measured of the cache.
    pub(crate) fn of_cache(&self, what: impl Fn(&Cache) -> Option<u64>) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(|round| Some(what(round.cache.as_ref()?)? as f64)))
    }

    fn per_operation(&self, what: impl Fn(&Round) -> u64) -> Option<Spread> {
        let rounds = self.rounds.iter().filter(|round| round.operations > 0);
        Spread::of(rounds.map(|round| what(round) as f64 / round.operations as f64))
    }
}

impl Counts {
    /// How many requests there were, but for the probes by which our client renews its lease on the session: they come at
    /// their own times, whatever the locks do.
    pub(crate) fn requests(&self) -> u64 {
        self.requests.iter().filter(|(op, _)| *op != "Sync").map(|(_, count)| count).sum()
    }

    pub(crate) fn per_operation(&self, count: u64) -> f64 {
        count as f64 / self.operations.max(1) as f64
    }
}
