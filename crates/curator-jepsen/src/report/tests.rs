//! The text of a report, and its files.

use std::fs;
use std::time::Duration;

use curator_results::faults::{Lost, Summary};

use super::*;
use crate::checker::tests::story::{Story, mutex, on};
use crate::checker::{HoldKey, Kind};
use crate::history::{CACHE, CACHED, CONDUCTOR, CacheSeen, Event, Node, Outcome, Phase, What};

const SECOND: u64 = 1_000_000_000;

fn second(second: u64) -> u64 {
    (100 + second) * SECOND
}

/// A write of the first client, under its first hold.
fn wrote(at: u64, part: &'static str, outcome: Outcome) -> Event {
    Story::of(part)
        .client(0)
        .acquires(at - 9, [mutex(7)])
        .writes(at, "a", outcome)
        .events[1]
        .clone()
}

/// Two clients hold a mutex at the same time from the tenth second on, and a peer writes.
fn events() -> Vec<Event> {
    let both = Story::of("mutex-plain")
        .client(0)
        .acquires(second(9), [mutex(7)])
        .client(1)
        .acquires(second(10) + SECOND / 2, [mutex(8)])
        .writes_until(
            second(11) - 1,
            second(12),
            second(11),
            "b",
            Outcome::Acknowledged,
        );
    let both = (11..19).fold(both, |story, at| {
        story.hold(1).valid(second(at)).hold(2).valid(second(at))
    });
    let nemesis = |phase| What::Nemesis {
        name: "leader-killed".into(),
        phase,
        detail: "server 2".into(),
    };
    let both = both
        .conductor(second(0), nemesis(Phase::Begin))
        .conductor(second(5), nemesis(Phase::End))
        .conductor(second(20), nemesis(Phase::Begin));
    let peer = Story::of("kazoo-plain")
        .client(2)
        .acquires(second(1), [on("/jepsen/kazoo", 9)]);
    [
        both.events,
        peer.writes(second(2), "c", Outcome::Acknowledged).events,
    ]
    .concat()
}

const NONE: LeftoverCounts = LeftoverCounts {
    nodes: 0,
    watches: Some(0),
};
const NOTHING: Leftovers = Leftovers {
    clients: 0,
    unclosed: 0,
    at_rest: NONE,
    at_end: NONE,
};

fn finale() -> Final {
    let recovered = |first, all: Option<u64>, not_recovered| Recovery {
        nemesis: "leader-killed".into(),
        first_acquire: Some(Duration::from_millis(first)),
        all_progress: all.map(Duration::from_millis),
        not_recovered,
        nodes_left: 0,
        watches_left: Some(0),
    };
    let sets = [("set".to_owned(), vec!["c".to_owned()])].into();
    let recovery = vec![
        recovered(120, Some(400), 0),
        recovered(80, None, 1),
        recovered(900, Some(950), 0),
    ];
    let parts = vec!["mutex-plain".to_owned()];
    Final {
        sets,
        about: vec![("seed".into(), "7".into())],
        parts,
        recovery,
        left: Some(NOTHING),
    }
}

/// A directory with these events, in a file for each process.
fn directory(events: &[Event]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for worker in [0, 1, 2, CONDUCTOR] {
        let lines: String = events
            .iter()
            .filter(|event| event.worker == worker)
            .map(|event| serde_json::to_string(event).unwrap() + "\n")
            .collect();
        fs::write(directory.path().join(format!("w{worker}.0.jsonl")), lines).unwrap();
    }
    directory
}

/// The report of a directory with these events.
fn checked(events: &[Event], end: &Final) -> Report {
    let directory = directory(events);
    end.write(directory.path()).unwrap();
    check_directory(directory.path()).unwrap()
}

#[test]
fn a_run_is_checked_from_the_files_in_its_directory() {
    let report = checked(&events(), &finale());
    assert!(!report.is_clean());
    let [shown] = &report.shown[..] else {
        panic!("{:?}", report.shown)
    };
    assert_eq!(shown.violation.kind, Kind::Exclusivity);
    assert_eq!(
        shown.violation.holds,
        [1, 0].map(|worker| HoldKey {
            worker,
            life: 0,
            hold: u64::from(worker) + 1
        })
    );
    let text = report.text();
    let expected = "\
| Run |  |
|---|---|
| seed | 7 |

| Part | acquires | acknowledged | lost | lost, % | to stopped clients | to late clients | to an operator | refused | not sent | unknown | reads changed | lost early | held twice |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
| kazoo-plain | 1 | 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 |
| mutex-plain | 2 | 1 | 1 | 100.00 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 1 |

| Nemesis | times | first acquire, median | worst | all clients, median | worst | not recovered | orphaned nodes | orphaned watches |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
| leader-killed | 3 | 0.12 s | 0.90 s | 0.95 s | never | 1 | 0 | 0 |

Left at rest, while the sessions are open: 0 nodes of locks and 0 watches.
Left at the end: 0 nodes of locks and 0 watches. Clients that did not finish: 0. Unconfirmed closes: 0.

1 violation: 1 exclusivity.

10.500000 s, exclusivity, mutex-plain: hold 2 of w1.0 claims 1 of 1 of /jepsen/lock, while others claim 1 by hold 1 of w0.0, certainly until 18.000000 s: 2 in total

  5.000000 s conductor leader-killed ends: server 2
  9.000000 s w0.0 acquires hold 1, requested at 8.999999 s, as task in session 0x64: 1 of 1 of /jepsen/lock, token 7, place 7
  10.500000 s w1.0 acquires hold 2, requested at 10.499999 s, as task in session 0x65: 1 of 1 of /jepsen/lock, token 8, place 8
  11.000000 s w1.0 writes b to set under hold 2, checked after 10.999999 s, promised until 12.000000 s: acknowledged
  11.000000 s w0.0 hold 1 is valid after 11.000000 s
  11.000000 s w1.0 hold 2 is valid after 11.000000 s
  18.000000 s w0.0 hold 1 is valid after 18.000000 s
  18.000000 s w1.0 hold 2 is valid after 18.000000 s
";
    assert_eq!(text, expected, "{text}");
}

/// Changes the results at the end of a run, so that it is not clean.
type Spoil = fn(&mut Final);

#[test]
fn a_run_is_clean_only_if_all_clients_recovered_all_parts_ran_and_nothing_is_left() {
    const NODE: LeftoverCounts = LeftoverCounts { nodes: 1, ..NONE };
    const WATCH: LeftoverCounts = LeftoverCounts {
        watches: Some(1),
        ..NONE
    };
    const UNKNOWN: LeftoverCounts = LeftoverCounts {
        watches: None,
        ..NONE
    };
    let mut clean: Vec<_> = events()
        .into_iter()
        .filter(|event| event.worker != 1)
        .collect();
    clean.push(wrote(second(15), "mutex-plain", Outcome::Acknowledged));
    let mut end = finale();
    end.recovery[1].not_recovered = 0;
    // A session whose close was not confirmed expires.
    end.left = Some(Leftovers {
        unclosed: 1,
        ..NOTHING
    });
    let report = checked(&clean, &end);
    assert!(
        report.is_clean() && report.text().contains("\nNo violations.\n"),
        "{}",
        report.text()
    );
    let spoilt: [(&str, Spoil); 12] = [
        ("a client never recovered", |end| {
            end.recovery[1].not_recovered = 1;
        }),
        ("an orphaned node", |end| end.recovery[1].nodes_left = 1),
        ("an orphaned watch", |end| {
            end.recovery[1].watches_left = Some(1);
        }),
        ("orphaned watches that were not counted", |end| {
            end.recovery[1].watches_left = None;
        }),
        ("a client did not finish", |end| {
            end.left = Some(Leftovers {
                clients: 1,
                ..NOTHING
            });
        }),
        ("a node at rest", |end| {
            end.left = Some(Leftovers {
                at_rest: NODE,
                ..NOTHING
            });
        }),
        ("a watch at rest", |end| {
            end.left = Some(Leftovers {
                at_rest: WATCH,
                ..NOTHING
            });
        }),
        ("watches at rest that were not counted", |end| {
            end.left = Some(Leftovers {
                at_rest: UNKNOWN,
                ..NOTHING
            });
        }),
        ("a node at the end", |end| {
            end.left = Some(Leftovers {
                at_end: NODE,
                ..NOTHING
            });
        }),
        ("a watch at the end", |end| {
            end.left = Some(Leftovers {
                at_end: WATCH,
                ..NOTHING
            });
        }),
        ("watches at the end that were not counted", |end| {
            end.left = Some(Leftovers {
                at_end: UNKNOWN,
                ..NOTHING
            });
        }),
        ("a part without an acknowledged write", |end| {
            end.parts.push("mutex-token".to_owned());
        }),
    ];
    for (why, spoil) in spoilt {
        let mut end = end.clone();
        spoil(&mut end);
        let report = checked(&clean, &end);
        assert!(report.violations() == 0 && !report.is_clean(), "{why}");
    }
    // A write with an unknown outcome does not count as acknowledged.
    clean.pop();
    clean.push(wrote(second(15), "mutex-plain", Outcome::Unknown));
    assert_eq!(checked(&clean, &end).idle, ["mutex-plain"]);
}

#[test]
fn a_defect_of_a_peers_lock_is_reported_and_does_not_fail_the_run() {
    let mut events = events();
    for event in &mut events {
        if let What::Acquired { part, .. } = &mut event.what {
            *part = "kazoo-plain".into();
        }
    }
    let report = checked(
        &events,
        &Final {
            recovery: Vec::new(),
            parts: Vec::new(),
            ..finale()
        },
    );
    assert!(report.is_clean());
    assert!(
        report
            .text()
            .ends_with("\nViolations by peers, which do not fail the run: 1 exclusivity.\n"),
        "{}",
        report.text()
    );
}

/// A hold of a guarded mutex. Its write is two seconds late, and lost.
fn late_write() -> Story {
    Story::of("mutex-guarded")
        .client(0)
        .acquires(second(1), [mutex(7)])
        .valid(second(2))
        .writes_until(
            second(5) - 1,
            second(3),
            second(5),
            "a",
            Outcome::Acknowledged,
        )
}

#[test]
fn late_writes_that_no_stop_explains_are_reported() {
    let is_reported = |late: Story| {
        let text = checked(&late.events, &finale()).text();
        assert!(text.contains("\nNo violations."), "{text}");
        text.contains(
            "\nNo violations. Updates lost to late writes of clients that were not stopped: 1.\n",
        )
    };
    assert!(is_reported(late_write()));
    let stopped = |process| {
        late_write().conductor(
            second(3),
            What::Stopped {
                process,
                of_life: 0,
            },
        )
    };
    assert!(!is_reported(stopped(0)));
    assert!(is_reported(stopped(1)));
}

#[test]
fn slow_clocks_explain_only_exclusivity_and_lost_updates_of_guarded_sets() {
    let finale = Final {
        recovery: Vec::new(),
        ..finale()
    };
    let is_expected = |events: &[Event], finale: &Final| {
        let report = checked(events, finale);
        assert!(!report.is_clean() || !report.is_of_slow_clocks());
        report.is_of_slow_clocks()
    };
    let none: Vec<_> = events()
        .into_iter()
        .filter(|event| event.worker != 1)
        .collect();
    assert!(!is_expected(&none, &finale), "there are no violations");
    assert!(
        is_expected(&events(), &finale),
        "two clients hold the mutex"
    );
    let left = Final {
        left: Some(Leftovers {
            clients: 1,
            ..NOTHING
        }),
        ..finale.clone()
    };
    assert!(!is_expected(&events(), &left), "a client did not finish");
    let idle = Final {
        parts: vec!["mutex-token".to_owned()],
        ..finale.clone()
    };
    assert!(
        !is_expected(&events(), &idle),
        "a part has no acknowledged write"
    );
    // In each of these histories, an update of this part is also lost.
    for (part, expected) in [
        ("mutex-guarded", true),
        ("mutex-transaction", false),
        ("mutex-token", false),
    ] {
        let lost = [
            events(),
            vec![wrote(second(20), part, Outcome::Acknowledged)],
        ]
        .concat();
        assert_eq!(is_expected(&lost, &finale), expected, "{part}");
    }
    let revived = Story::of("mutex-plain")
        .client(0)
        .acquires(second(9), [mutex(7)])
        .lost(second(12))
        .valid(second(13));
    assert!(!is_expected(
        &[&events()[..], &revived.events[1..]].concat(),
        &finale
    ));
}

#[test]
fn an_aborted_run_cannot_be_checked() {
    let directory = directory(&events());
    let error =
        |directory: &tempfile::TempDir| check_directory(directory.path()).unwrap_err().to_string();
    assert!(
        error(&directory).ends_with("final.json cannot be read"),
        "{}",
        error(&directory)
    );
    fs::write(directory.path().join("final.json"), "{").unwrap();
    assert!(
        error(&directory).ends_with("final.json is malformed"),
        "{}",
        error(&directory)
    );
    let empty = tempfile::tempdir().unwrap();
    finale().write(empty.path()).unwrap();
    assert!(
        error(&empty).starts_with("there is no history in "),
        "{}",
        error(&empty)
    );
}

#[test]
fn the_summary_puts_several_runs_into_the_same_tables() {
    let report = |seed: &str, workers: &[u32], nemesis: &str, left: Leftovers| {
        let events: Vec<_> = events()
            .into_iter()
            .filter(|event| workers.contains(&event.worker))
            .collect();
        let about = [("seconds", "60"), ("seed", seed)]
            .map(|(what, value)| (what.to_owned(), value.to_owned()))
            .into();
        let recovery = vec![Recovery {
            nemesis: nemesis.to_owned(),
            ..finale().recovery.remove(0)
        }];
        checked(
            &events,
            &Final {
                about,
                recovery,
                parts: Vec::new(),
                left: Some(left),
                ..finale()
            },
        )
    };
    let left = Leftovers {
        clients: 1,
        at_rest: LeftoverCounts { nodes: 1, ..NONE },
        ..NOTHING
    };
    let unknown = Leftovers {
        at_end: LeftoverCounts {
            watches: None,
            ..NONE
        },
        ..NOTHING
    };
    let reports = [
        report("7", &[0, 1, 2, CONDUCTOR], "one", NOTHING),
        report("8", &[2], "other", NOTHING),
        report("9", &[0], "one", left),
        report("10", &[0], "one + other", unknown),
    ];
    let summary = summary(&reports, kind);
    // The JSON format of the published results.
    let json = serde_json::to_string(&summary).unwrap();
    assert_eq!(serde_json::from_str::<Summary>(&json).unwrap(), summary);
    assert_eq!(
        summary.runs[0].lost["plain"],
        Lost {
            lost: 1,
            acknowledged: 1
        }
    );
    let text = summary.markdown();
    let lines = [
        // Old runs have not recorded their commit.
        "| commit | unknown |",
        "| seconds | 60 |",
        "| seed | strikes | plain: lost | guarded: lost | transaction: lost | token: lost | kazoo-plain: lost | violations | \
         not recovered | left | clean |",
        "| 7 | 1 | 1 of 1, 100.00 % | - | - | - | 0 of 1 | 1 | 0 | 0 | no |",
        "| 8 | 1 | - | - | - | - | 0 of 1 | 0 | 0 | 0 | yes |",
        "| 9 | 1 | - | - | - | - | - | 0 | 0 | 2 | no |",
        "| 10 | 1 | - | - | - | - | - | 0 | 0 | ? | no |",
        "| mutex-plain | 4 | 1 | 1 | 100.00 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 1 |",
        "| one | 2 | 0.12 s | 0.12 s | 0.40 s | 0.40 s | 0 | 0 | 0 |",
        "| other | 1 | 0.12 s | 0.12 s | 0.40 s | 0.40 s | 0 | 0 | 0 |",
        "| two at once | 1 | 0.12 s | 0.12 s | 0.40 s | 0.40 s | 0 | 0 | 0 |",
    ];
    for line in lines {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
}

#[test]
fn changes_missed_by_caches_are_tabulated_and_caches_never_compared_are_idle() {
    let node = |path: &str, czxid| Node {
        path: format!("{CACHED}{path}"),
        czxid,
        mzxid: czxid,
        data: "data".to_owned(),
    };
    let root = node("", 1);
    let other = node("/a", 2);
    let cache = Story::of("kazoo-cache")
        .client(3)
        .cache(second(6), CacheSeen::Created { node: root.clone() });
    let looked = CacheSeen::Snapshot {
        asked: second(7),
        look: Some(0),
        is_current: None,
        nodes: vec![root.clone()],
    };
    let tree = CacheSeen::Tree {
        look: 0,
        asked: vec![3],
        nodes: vec![root, other],
    };
    let cache = cache.cache(second(8), looked).conductor(
        second(9),
        What::Cache {
            part: CACHE.to_owned(),
            seen: tree,
        },
    );
    let mut events: Vec<_> = events()
        .into_iter()
        .filter(|event| event.worker == CONDUCTOR)
        .collect();
    events.extend(cache.events);
    let parts = vec![CACHE.to_owned()];
    let directory = directory(&events);
    let lines: String = events
        .iter()
        .filter(|event| event.worker == 3)
        .map(|event| serde_json::to_string(event).unwrap() + "\n")
        .collect();
    fs::write(directory.path().join("w3.0.jsonl"), lines).unwrap();
    Final {
        parts,
        recovery: Vec::new(),
        ..finale()
    }
    .write(directory.path())
    .unwrap();
    let report = check_directory(directory.path()).unwrap();
    assert_eq!(report.idle, [CACHE]);
    let text = summary(&[report], kind).markdown();
    let line = "| leader-killed | kazoo-cache | 1 | 1 | 1 | 0 | 0 | 1 | 0 | 0 | 0 |";
    assert!(text.lines().any(|it| it == line), "{text}");
}
