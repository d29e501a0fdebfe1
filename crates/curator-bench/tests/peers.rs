//! Small runs with the workers for other clients: each runs every kind of case that its client
//! supports.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod support;

use serde_json::Value;
use support::{bench, results_of};

/// The prefixes of cases without separate counts: a re-entry sends nothing, hand-overs between
/// processes send the same requests as hand-overs between sessions, and a reconnect is counted in
/// its rounds. For `curator-shared`, no case is counted.
const UNCOUNTED: [&str; 4] = [
    "reentry",
    "handover-processes",
    "reconnect",
    "cache-reconnect",
];

/// Runs these cases, and checks that each was measured and, unless it is in `UNCOUNTED`, counted.
fn run(peer: &str, cases: &[&str]) -> Value {
    run_for("0.15", peer, cases)
}

/// Like [`run`], with rounds of this length.
fn run_for(seconds: &str, peer: &str, cases: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("run.json").display().to_string();
    let arguments = [
        "--quick",
        "--seconds",
        seconds,
        "--json",
        &json,
        "--cases",
        &cases.join(","),
    ];
    let (is_done, text) = bench(peer, &arguments);
    assert!(is_done, "{text}");
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    for case in cases {
        let results = results_of(&document, case, peer);
        assert_eq!(results["note"], Value::Null, "{case}: {results:#}");
        assert!(
            results["rounds"][0]["operations"].as_u64().unwrap() > 0,
            "{case}: {results:#}"
        );
        if peer != "curator-shared"
            && !UNCOUNTED
                .iter()
                .any(|uncounted| case.starts_with(uncounted))
        {
            assert!(
                results["counts"]["bytes_sent"].as_u64().unwrap() > 0,
                "{case}: {results:#}"
            );
        }
    }
    document
}

/// The round trips of an operation. Counts, unlike times, are exact on any machine.
fn round_trips(document: &Value, case: &str, peer: &str) -> f64 {
    let counts = &results_of(document, case, peer)["counts"];
    counts["round_trips"].as_f64().unwrap() / counts["operations"].as_f64().unwrap()
}

/// The cases of the clients with a cache.
const CACHES: [&str; 3] = [
    "cache-load-1000",
    "cache-storm-1000",
    "cache-reconnect-1000",
];

/// The number of requests that the cache sends to load the tree.
fn requests_of_load(document: &Value, peer: &str) -> u64 {
    let requests = &results_of(document, CACHES[0], peer)["counts"]["requests"];
    requests
        .as_object()
        .unwrap()
        .values()
        .map(|count| count.as_u64().unwrap())
        .sum()
}

/// The cases of the clients with a counter.
const COUNTERS: [&str; 2] = ["increment-counter", "increment-counter-4"];

#[test]
fn curators_counter_and_discovery_are_measured_with_curator() {
    let document = run(
        "curator",
        &[&COUNTERS[..], &["register-100", "find-100"]].concat(),
    );
    assert_eq!(round_trips(&document, COUNTERS[0], "curator"), 2.0);
}

#[test]
fn kazoos_counter_is_measured_with_kazoo() {
    // On a busy machine, each conflict of kazoo's counter takes longer than the rounds of the other
    // tests.
    let document = run_for("2", "kazoo", &COUNTERS);
    assert_eq!(round_trips(&document, COUNTERS[0], "kazoo"), 2.0);
}

/// The cases that every client supports.
const CASES: [&str; 7] = [
    "cycle-mutex",
    "distinct-4",
    "handover-4",
    "handover-processes-4",
    "crowd-50",
    "crowd-each-50",
    "reconnect-50",
];

#[test]
fn curators_locks_are_measured_with_curator() {
    let locks = ["cycle-write", "cycle-semaphore", "cycle-multi-3"];
    let document = run(
        "curator",
        &[&CASES[..], &locks, &["reentry-mutex", "readers-4"]].concat(),
    );
    assert_eq!(round_trips(&document, "cycle-mutex", "curator"), 3.0);
    // The member locks are acquired one after another.
    assert_eq!(round_trips(&document, "cycle-multi-3", "curator"), 9.0);
}

#[test]
fn curators_cache_is_measured_with_curator() {
    let document = run("curator", &CACHES);
    // One watch; then the data and the children of each node.
    assert_eq!(requests_of_load(&document, "curator"), 1 + 2 * 1001);
}

#[test]
fn kazoos_tree_cache_is_measured_with_kazoo() {
    let document = run("kazoo", &CACHES);
    // One `exists` request for the directory; then the data and the children of each node.
    assert_eq!(requests_of_load(&document, "kazoo"), 1 + 2 * 1001);
}

#[test]
fn a_crowd_on_one_object_is_measured_with_curator() {
    run("curator-shared", &["crowd-50"]);
}

#[test]
fn kazoos_locks_are_measured_with_kazoo() {
    let document = run(
        "kazoo",
        &[&CASES[..], &["cycle-semaphore", "readers-4"]].concat(),
    );
    assert_eq!(round_trips(&document, "cycle-mutex", "kazoo"), 4.0);
}

#[test]
fn the_mutex_of_go_zookeeper_is_measured_with_go() {
    let document = run("go", &CASES);
    assert_eq!(round_trips(&document, "cycle-mutex", "go"), 3.0);
}
