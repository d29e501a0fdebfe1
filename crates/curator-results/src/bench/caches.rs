//! The table of caches.

use super::number::{NOTHING, number, optional, range};
use super::tables::{table, times};
use super::{Cache, Counts, EnvironmentResults, Kind, PeerResults};
use crate::Table;

/// The remark above the table.
pub(super) const REMARK_ON_CACHES: &str = "In a table with the column `lag`, memory is per node, and all other numbers are for the whole case. `resident` is \
                                           the growth of the process's memory; `heap` is the growth of Java's used heap, after \
                                           a garbage collection. `lag` is the time from the reply to the last change until the \
                                           cache has all changes. `since handshake` is the time from the first handshake after \
                                           the connection was cut until the cache has all changes.";

/// Builds the table.
pub(super) fn caches(environment: &EnvironmentResults) -> Table {
    table(environment, Kind::Cache, |case, results| {
        let operations = results.rounds.first().map_or(0, |round| round.operations) as f64;
        let time = results.time();
        let median =
            |what: fn(&Cache) -> Option<u64>| results.of_cache(what).map(|spread| spread.median);
        let [requests, sent, received] = total_counts(results);
        vec![
            (
                "ms",
                optional(time.map(|time| time.median * operations / 1e6)),
            ),
            ("from … to", range(time, operations / 1e6)),
            (
                "× best peer",
                times(case.best_peer(), time.map(|time| time.median)),
            ),
            ("requests", requests),
            ("bytes out", sent),
            ("bytes in", received),
            (
                "resident, bytes a node",
                memory(results, operations, |cache| Some(cache.memory)),
            ),
            (
                "heap, bytes a node",
                memory(results, operations, |cache| cache.heap),
            ),
            (
                "processor ms",
                optional(
                    results
                        .processor()
                        .map(|spread| spread.median * operations / 1e6),
                ),
            ),
            (
                "events",
                optional(median(|cache| {
                    Some(cache.events).filter(|events| *events > 0)
                })),
            ),
            (
                "lag, ms",
                optional(median(|cache| cache.lag).map(|time| time / 1e6)),
            ),
            (
                "since handshake, ms",
                optional(median(|cache| cache.since_handshake).map(|time| time / 1e6)),
            ),
        ]
    })
}

/// The counts of the separate run or, if each round has a proxy, of the last round.
fn total_counts(results: &PeerResults) -> [String; 3] {
    let of_round = results
        .rounds
        .iter()
        .filter_map(|round| round.cache.as_ref()?.counts.as_ref())
        .next_back();
    let Some(counts): Option<&Counts> = results.counts.as_ref().or(of_round) else {
        return [NOTHING; 3].map(str::to_owned);
    };
    [counts.requests(), counts.bytes_sent, counts.bytes_received].map(|count| number(count as f64))
}

/// The memory per node, from the first round, as later rounds reuse memory. Shown only for loads:
/// the other cases use the same trees.
fn memory(results: &PeerResults, nodes: f64, bytes: fn(&Cache) -> Option<u64>) -> String {
    let bytes = results
        .rounds
        .first()
        .and_then(|round| round.cache.as_ref())
        .filter(|cache| cache.events == 0)
        .and_then(bytes);
    optional(bytes.map(|bytes| bytes as f64 / nodes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{CaseResults, Peer, Round};

    fn results(peer: Peer, nanoseconds: u64, cache: &Cache) -> PeerResults {
        let round = |memory| Round {
            operations: 1000,
            nanoseconds,
            processor: 2_000_000,
            cache: Some(Cache {
                memory,
                ..cache.clone()
            }),
            ..Round::default()
        };
        PeerResults {
            rounds: vec![round(500_000), round(900_000), round(900_000)],
            ..PeerResults::new(peer)
        }
    }

    fn environment(cases: Vec<CaseResults>) -> EnvironmentResults {
        EnvironmentResults {
            name: String::new(),
            description: String::new(),
            left_out: Vec::new(),
            cases,
        }
    }

    fn rows(name: &str, peers: Vec<PeerResults>) -> Vec<Vec<String>> {
        let case = CaseResults {
            name: name.to_owned(),
            title: String::new(),
            kind: Kind::Cache,
            peers,
        };
        caches(&environment(vec![case]))
            .markdown()
            .lines()
            .filter(|line| line.contains(name))
            .map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect())
            .collect()
    }

    #[test]
    fn a_load_is_compared_by_time_and_by_the_memory_of_the_first_round() {
        let mut ours = results(Peer::Ours, 20_000_000, &Cache::default());
        let requests = [
            ("AddWatch".to_owned(), 1),
            ("MultiRead".to_owned(), 5),
            ("Sync".to_owned(), 3),
        ]
        .into();
        ours.counts = Some(Counts {
            requests,
            bytes_sent: 10,
            bytes_received: 20,
            ..Counts::default()
        });
        let curator = results(
            Peer::Curator,
            80_000_000,
            &Cache {
                heap: Some(350_000),
                ..Cache::default()
            },
        );
        let rows = rows("cache-load-1000", vec![ours, curator]);
        assert_eq!(
            rows[0][3..12],
            [
                "20.0",
                "20.0 to 20.0",
                "4.00",
                "6.00",
                "10.0",
                "20.0",
                "500",
                NOTHING,
                "2.00"
            ]
        );
        assert_eq!(
            rows[1][3..11],
            [
                "80.0",
                "80.0 to 80.0",
                "1.00",
                NOTHING,
                NOTHING,
                NOTHING,
                "500",
                "350"
            ]
        );
    }

    #[test]
    fn the_counts_of_a_reconnect_come_from_its_last_round() {
        let counts = Counts {
            requests: [("MultiRead".to_owned(), 7)].into(),
            ..Counts::default()
        };
        let cache = Cache {
            events: 10,
            since_handshake: Some(5_000_000),
            counts: Some(counts),
            ..Cache::default()
        };
        let rows = rows(
            "cache-reconnect-1000",
            vec![results(Peer::Ours, 20_000_000, &cache)],
        );
        assert_eq!(
            (rows[0][6].as_str(), rows[0][9].as_str()),
            ("7.00", NOTHING)
        );
        assert_eq!(rows[0][12..15], ["10.0", NOTHING, "5.00"]);
    }
}
