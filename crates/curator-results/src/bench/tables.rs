//! The tables of a run of the bench.

use super::caches::{REMARK_ON_CACHES, caches};
use super::number::{NOTHING, number, optional, range};
use super::{CaseResults, Counts, Crowd, Document, EnvironmentResults, Kind, Peer, PeerResults};
use crate::Table;

/// Remarks on single clients.
const REMARKS: [(Peer, &str); 2] = [
    (
        Peer::CuratorShared,
        "In `curator-shared`, all threads of a crowd share one `InterProcessMutex` of Curator; in `curator`, each has a separate \
         one. `curator-shared` runs only `crowd-1000`, as its time grows with the square of the number of threads.",
    ),
    (
        Peer::ZookeeperClient,
        "`zookeeper-client` releases a lock when the guard is dropped, without waiting for the reply to the delete. With any \
         other client, a cycle includes the reply to the delete.",
    ),
];

/// The remark on crowds.
const REMARK_ON_CROWDS: &str = "With our client, at most 16 waiters of a crowd have nodes; the others wait in the process, and \
                                create their nodes while the crowd drains. So `to queue` is the time until 16 nodes exist and \
                                all other waiters wait in the process. With the other clients, it is the time until all nodes \
                                exist.";

/// The baseline of all cases except the hand-overs.
const FLOOR: &str = "cycle-floor";
/// The baseline of the hand-over cases.
const HANDOVER_FLOOR: &str = "handover-floor";

/// The tables, as Markdown.
#[must_use]
pub fn markdown(document: &Document) -> String {
    let mut about = Table::of_words(&["", ""]);
    for (what, value) in &document.about {
        about.row([what.clone(), value.clone()]);
    }
    let mut text = about.markdown();
    for (peer, remark) in REMARKS {
        if document
            .environments
            .iter()
            .flat_map(|environment| &environment.cases)
            .any(|case| case.of(peer).is_some())
        {
            text += &format!("\n{remark}\n");
        }
    }
    for (kind, remark) in [
        (Kind::Crowd, REMARK_ON_CROWDS),
        (Kind::Cache, REMARK_ON_CACHES),
    ] {
        if document
            .environments
            .iter()
            .flat_map(|environment| &environment.cases)
            .any(|case| case.kind == kind)
        {
            text += &format!("\n{remark}\n");
        }
    }
    for environment in &document.environments {
        text += &format!(
            "\n### {}\n\n{}.\n",
            environment.name, environment.description
        );
        if !environment.left_out.is_empty() {
            text += &format!(
                "\nNot run on these servers: {}.\n",
                environment.left_out.join(", ")
            );
        }
        for rows in [timed(environment), crowds(environment), caches(environment)]
            .iter()
            .filter(|table| !table.is_empty())
        {
            text.push('\n');
            text += &rows.markdown();
        }
    }
    text
}

/// The table of cases that repeat an operation for a given time. Each number is for one operation.
fn timed(environment: &EnvironmentResults) -> Table {
    table(environment, Kind::Timed, |case, results| {
        let time = results.time();
        let median = time.map(|time| time.median);
        let [requests, round_trips, sent, received] =
            counts_per_operation(results.counts.as_ref(), case.kind);
        vec![
            ("µs", optional(median.map(|time| time / 1e3))),
            ("from … to", range(time, 1e-3)),
            ("per s", optional(median.map(|time| 1e9 / time))),
            ("× best peer", times(case.best_peer(), median)),
            (
                "× floor",
                times(median, floor(environment, case, results.peer)),
            ),
            (
                "processor µs",
                optional(results.processor().map(|spread| spread.median / 1e3)),
            ),
            (
                "switches",
                optional(results.switches().map(|spread| spread.median)),
            ),
            ("requests", requests),
            ("round trips", round_trips),
            ("bytes out", sent),
            ("bytes in", received),
        ]
    })
}

/// The table of crowds. The times to queue and to drain, the range and the reconnect are for the
/// whole crowd; the other numbers are for one waiter.
fn crowds(environment: &EnvironmentResults) -> Table {
    table(environment, Kind::Crowd, |case, results| {
        let waiters = results.rounds.first().map_or(0, |round| round.operations) as f64;
        let drain = results.time();
        let median = drain.map(|drain| drain.median);
        let [requests, _, _, received] = counts_per_operation(results.counts.as_ref(), case.kind);
        let of_crowd =
            |what: fn(&Crowd) -> Option<u64>| results.of_crowd(what).map(|spread| spread.median);
        let reconnect_time = of_crowd(|crowd| Some(crowd.reconnect.as_ref()?.nanoseconds));
        let reconnect_requests =
            of_crowd(|crowd| Some(crowd.reconnect.as_ref()?.requests.values().sum()));
        vec![
            (
                "to queue, ms",
                optional(of_crowd(|crowd| Some(crowd.queueing)).map(|time| time / 1e6)),
            ),
            (
                "to drain, ms",
                optional(median.map(|time| time * waiters / 1e6)),
            ),
            ("from … to", range(drain, waiters / 1e6)),
            ("× best peer", times(case.best_peer(), median)),
            (
                "KiB",
                optional(
                    of_crowd(|crowd| Some(crowd.memory)).map(|bytes| bytes / 1024.0 / waiters),
                ),
            ),
            (
                "processor µs",
                optional(results.processor().map(|spread| spread.median / 1e3)),
            ),
            (
                "switches",
                optional(results.switches().map(|spread| spread.median)),
            ),
            ("requests", requests),
            ("bytes in", received),
            (
                "reconnect, ms",
                optional(reconnect_time.map(|time| time / 1e6)),
            ),
            ("requests then", optional(reconnect_requests)),
        ]
    })
}

/// The baseline of a case: the time of a create and a delete of a node or, for a hand-over, of a
/// delete and its event. Uses the first of these measurements that exists: in the case by the same
/// client, in the case by our client, in the baseline case by the same client, in the baseline case
/// by our client. `None` for a counter, which creates no node.
fn floor(environment: &EnvironmentResults, case: &CaseResults, peer: Peer) -> Option<f64> {
    if case.name.starts_with("increment-") {
        return None;
    }
    let floor = if case.name.starts_with("handover-") {
        HANDOVER_FLOOR
    } else {
        FLOOR
    };
    let in_case = |peer| case.of(peer)?.floor();
    let in_baseline_case = |peer| Some(environment.case(floor)?.of(peer)?.time()?.median);
    in_case(peer)
        .or_else(|| in_case(Peer::Ours))
        .or_else(|| in_baseline_case(peer))
        .or_else(|| in_baseline_case(Peer::Ours))
}

fn counts_per_operation(counts: Option<&Counts>, kind: Kind) -> [String; 4] {
    let Some(counts) = counts else {
        return [NOTHING; 4].map(str::to_owned);
    };
    let each = |count: u64| number(counts.per_operation(count));
    let round_trips = counts.round_trips.map_or_else(|| NOTHING.to_owned(), each);
    // With several processes on one counter, each further attempt sends a `sync`, so these are
    // counted, too; the lease probes are few in comparison.
    let processes_contend = kind == Kind::Timed && counts.round_trips.is_none();
    let requests = if processes_contend {
        counts.requests.values().sum()
    } else {
        counts.requests()
    };
    [
        each(requests),
        round_trips,
        each(counts.bytes_sent),
        each(counts.bytes_received),
    ]
}

/// The table of the cases of a kind, with these cells for each client.
pub(super) fn table(
    environment: &EnvironmentResults,
    kind: Kind,
    cells: impl Fn(&CaseResults, &PeerResults) -> Vec<(&'static str, String)>,
) -> Table {
    let rows = environment
        .cases
        .iter()
        .filter(|case| case.kind == kind)
        .flat_map(|case| case.peers.iter().map(move |results| (case, results)))
        .map(|(case, results)| {
            let names = vec![
                ("case", case.name.clone()),
                ("client", results.peer.to_string()),
            ];
            [names, cells(case, results), vec![("note", note(results))]].concat()
        });
    Table::of_cells(rows)
}

/// The ratio `dividend / divisor`: how many times as large the first number is.
pub(super) fn times(dividend: Option<f64>, divisor: Option<f64>) -> String {
    optional(
        dividend
            .zip(divisor)
            .map(|(dividend, divisor)| dividend / divisor),
    )
}

/// The note that explains a number, or why it is missing.
fn note(results: &PeerResults) -> String {
    let counts = results
        .counts_note
        .as_ref()
        .map(|why| format!("not counted: {why}"));
    results
        .note
        .iter()
        .cloned()
        .chain(counts)
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Floor, PeerResults, Reconnect, Round};

    fn peer(peer: Peer, nanoseconds: u64) -> PeerResults {
        let round = |factor| Round {
            operations: 1000,
            nanoseconds: nanoseconds * factor * 1000,
            processor: 50_000_000,
            voluntary_switches: 4000,
            involuntary_switches: 2000,
            crowd: None,
            cache: None,
            floor: None,
        };
        // A round without operations is ignored.
        let rounds = vec![
            round(1),
            round(2),
            round(3),
            Round {
                operations: 0,
                ..round(9)
            },
        ];
        PeerResults {
            rounds,
            ..PeerResults::new(peer)
        }
    }

    fn document() -> Document {
        let case = |name: &str, kind, peers| CaseResults {
            name: name.to_owned(),
            title: name.to_owned(),
            kind,
            peers,
        };
        let mut ours = peer(Peer::Ours, 250_000);
        ours.counts = Some(Counts {
            operations: 1000,
            requests: [
                ("Create2".to_owned(), 2000),
                ("Delete".to_owned(), 1000),
                ("Sync".to_owned(), 4),
            ]
            .into(),
            round_trips: Some(2000),
            ..Counts::default()
        });
        let mut slow = PeerResults::new(Peer::Kazoo);
        slow.note = Some("took longer than 200 s".to_owned());
        let mut waiting = peer(Peer::Ours, 500_000);
        for round in &mut waiting.rounds {
            let reconnect = Reconnect {
                nanoseconds: 40_000_000,
                requests: [("SetWatches".to_owned(), 7)].into(),
            };
            round.crowd = Some(Crowd {
                queueing: 80_000_000,
                memory: 3 * 1024 * 1000,
                reconnect: Some(reconnect),
            });
        }
        let cases = vec![
            case(FLOOR, Kind::Timed, vec![peer(Peer::Ours, 200_000)]),
            case(
                "cycle-write",
                Kind::Timed,
                vec![
                    ours,
                    peer(Peer::Go, 400_000),
                    peer(Peer::Curator, 300_000),
                    slow,
                ],
            ),
            case(
                "reconnect-1000",
                Kind::Crowd,
                vec![waiting, peer(Peer::Curator, 1_000_000)],
            ),
        ];
        let environment = EnvironmentResults {
            name: "loopback".to_owned(),
            description: "one server".to_owned(),
            left_out: vec!["reentry-mutex".to_owned()],
            cases,
        };
        Document {
            about: vec![("date".to_owned(), "2026-11-22".to_owned())],
            environments: vec![environment],
        }
    }

    fn row<'a>(markdown: &'a str, case: &str, peer: &str) -> Vec<&'a str> {
        let start = format!("| {case} | {peer} |");
        markdown
            .lines()
            .find(|line| line.starts_with(&start))
            .unwrap()
            .split('|')
            .map(str::trim)
            .collect()
    }

    #[test]
    fn each_case_is_compared_with_the_best_peer_and_the_floor() {
        let text = markdown(&document());
        let ours = row(&text, "cycle-write", "ours");
        assert_eq!(
            ours[3..15],
            [
                "500",
                "250 to 750",
                "2,000",
                "1.20",
                "1.25",
                "50.0",
                "6.00",
                "3.00",
                "2.00",
                "0",
                "0",
                ""
            ]
        );
        let curator = row(&text, "cycle-write", "curator");
        assert_eq!(
            (curator[6], curator[7], curator[10]),
            ("1.00", "1.50", NOTHING)
        );
    }

    #[test]
    fn a_floor_measured_in_the_same_rounds_is_preferred() {
        let mut document = document();
        for round in &mut document.environments[0].cases[1].peers[0].rounds {
            round.floor = Some(Floor {
                operations: 2000,
                nanoseconds: 400_000_000,
            });
        }
        let text = markdown(&document);
        assert_eq!(
            (
                row(&text, "cycle-write", "ours")[7],
                row(&text, "cycle-write", "curator")[7]
            ),
            ("2.50", "3.00")
        );
    }

    #[test]
    fn syncs_count_as_requests_when_processes_contend() {
        let mut document = document();
        let peers = &mut document.environments[0].cases[1].peers;
        let counts = peers[0].counts.as_mut().unwrap();
        counts.round_trips = None;
        counts.requests.insert("Sync".to_owned(), 1000);
        let text = markdown(&document);
        assert_eq!(row(&text, "cycle-write", "ours")[10..12], ["4.00", NOTHING]);
    }

    #[test]
    fn missing_measurements_are_reported_with_their_reason() {
        let text = markdown(&document());
        let slow = row(&text, "cycle-write", "kazoo");
        assert_eq!((slow[3], slow[14]), (NOTHING, "took longer than 200 s"));
        assert!(
            text.contains("Not run on these servers: reentry-mutex."),
            "{text}"
        );
        // A client without results is not mentioned.
        assert!(!text.contains("zookeeper-client"), "{text}");
    }

    #[test]
    fn a_crowd_is_reported_with_its_times_and_its_memory_per_waiter() {
        let text = markdown(&document());
        let ours = row(&text, "reconnect-1000", "ours");
        // 80 ms to queue; 1,000 waiters drained in 1 s, twice as fast as the peer; 3 KiB for each
        // waiter.
        assert_eq!(
            ours[3..8],
            ["80.0", "1,000", "500 to 1,500", "2.00", "3.00"]
        );
        assert_eq!((ours[12], ours[13]), ("40.0", "7.00"));
    }
}
