//! The table of caches.

use curator_jepsen::report::Table;

use super::number::{NOTHING, number, optional, range};
use super::tables::{note, times};
use crate::case::Kind;
use crate::document::{Cache, Counts, PeerResults, PlaceResults};

/// What a reader of the table has to know.
pub(super) const REMARK_ON_CACHES: &str =
    "Of caches, every number is of the whole case, but for the memory. `bytes a node` is what the process grows by; of Curator it \
     is what its heap grows by, after a collection of garbage. `lag` is the time from the reply to the last change until the \
     cache has all; `since handshake` is the part of the time after the first handshake that follows the cut.";

const CACHES: [&str; 14] = [
    "case",
    "client",
    "ms",
    "from … to",
    "× best peer",
    "requests",
    "bytes out",
    "bytes in",
    "bytes a node",
    "processor ms",
    "events",
    "lag, ms",
    "since handshake, ms",
    "note",
];

/// None if no case is about a cache.
pub(super) fn caches(place: &PlaceResults) -> Option<Table> {
    let mut table = Table::new(&CACHES);
    let mut is_empty = true;
    for case in place.cases.iter().filter(|case| case.kind == Kind::Cache) {
        for results in &case.peers {
            is_empty = false;
            let operations = results.rounds.first().map_or(0, |round| round.operations) as f64;
            let time = results.time();
            let median = |what: fn(&Cache) -> Option<u64>| results.of_cache(what).map(|spread| spread.median);
            let [requests, sent, received] = counted(results);
            let cells = [
                optional(time.map(|time| time.median * operations / 1e6)),
                range(time, operations / 1e6),
                times(case.best_peer(), time.map(|time| time.median)),
                requests,
                sent,
                received,
                memory(results, operations),
                optional(results.processor().map(|spread| spread.median * operations / 1e6)),
                optional(median(|cache| Some(cache.events).filter(|events| *events > 0))),
                optional(median(|cache| cache.lag).map(|time| time / 1e6)),
                optional(median(|cache| cache.since_handshake).map(|time| time / 1e6)),
                note(results),
            ];
            table.row([case.name.clone(), results.peer.to_string()].into_iter().chain(cells));
        }
    }
    (!is_empty).then_some(table)
}

/// In a run of its own, or in the last round if each has a proxy.
fn counted(results: &PeerResults) -> [String; 3] {
    let of_round = results.rounds.iter().filter_map(|round| round.cache.as_ref()?.counts.as_ref()).next_back();
    let Some(counts): Option<&Counts> = results.counts.as_ref().or(of_round) else { return [NOTHING; 3].map(str::to_owned) };
    [counts.requests(), counts.bytes_sent, counts.bytes_received].map(|count| number(count as f64))
}

/// Only of loading: the other cases have the same trees.
fn memory(results: &PeerResults, nodes: f64) -> String {
    let has_loaded = results.rounds.iter().all(|round| round.cache.as_ref().is_some_and(|cache| cache.events == 0));
    let bytes = results.of_cache(|cache| Some(cache.heap.unwrap_or(cache.memory)));
    optional(bytes.filter(|_| has_loaded).map(|bytes| bytes.median / nodes))
}
