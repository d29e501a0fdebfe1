//! Small runs with our client, and with its transport `zookeeper-client` alone.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test, a panic is the way to fail"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use support::{bench, results_of};

/// The client that is measured in addition to ours.
const PEER: &str = "zookeeper-client";

/// The operation of a case, from its name: the first word; for a cache, the first two words.
fn operation(case: &str) -> String {
    let words: Vec<_> = case.split_whitespace().next().unwrap().split('-').collect();
    let operation = if words[0] == "cache" {
        &words[..2]
    } else {
        &words[..1]
    };
    operation.join("-")
}

#[test]
fn a_smoke_run_measures_and_counts_every_kind_of_case_and_draws_all_plots() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    let json = file("run.json");
    let markdown = file("run.md");
    let svg = file("plots");
    let cases = [
        "--cases",
        "cycle-floor,cycle-mutex,cycle-semaphore-mutex,cycle-multi,reentry-mutex,distinct,handover,fleet,readers,crowd,\
         reconnect,cache,increment-counter,increment-counter-4,increment-receipt,register,find,\
         shards",
    ];
    let files = ["--json", &json, "--markdown", &markdown, "--svg", &svg];
    let (is_done, text) = bench(
        PEER,
        &[&["--quick", "--seconds", "0.15"][..], &cases, &files].concat(),
    );
    assert!(is_done, "{text}");

    let document: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let mut measured = BTreeSet::new();
    let mut counted = BTreeSet::new();
    for case in document["places"][0]["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let ours = results_of(&document, name, "ours");
        let has_operations = ours["rounds"]
            .as_array()
            .unwrap()
            .iter()
            .all(|round| round["operations"].as_u64().unwrap() > 0);
        assert!(
            has_operations && ours["rounds"].as_array().unwrap().len() == 1,
            "{case:#}"
        );
        assert_eq!(
            (&ours["note"], &ours["counts_note"]),
            (&Value::Null, &Value::Null),
            "{case:#}"
        );
        measured.insert(operation(name));
        let is_counted = ours["counts"]["operations"]
            .as_u64()
            .is_some_and(|operations| operations > 0);
        // Cases that cut the connection are counted in each round.
        let round = &ours["rounds"][0];
        if is_counted
            || round["crowd"]["reconnect"].is_object()
            || round["cache"]["counts"].is_object()
        {
            counted.insert(operation(name));
        }
    }
    let (is_done, list) = bench(PEER, &["--quick", "--list"]);
    assert!(is_done, "{list}");
    let all: BTreeSet<_> = list.lines().map(operation).collect();
    assert_eq!([measured, counted], [all.clone(), all]);

    // Counts, unlike times, are exact on any machine.
    let counts = &results_of(&document, "cycle-mutex", "ours")["counts"];
    let operations = counts["operations"].as_u64().unwrap();
    assert_eq!(
        counts["round_trips"].as_u64().unwrap(),
        2 * operations,
        "{counts}"
    );
    let mut requests: BTreeMap<String, u64> =
        serde_json::from_value(counts["requests"].clone()).unwrap();
    requests.remove("Sync");
    let expected = ["Create2", "Delete", "GetChildren"].map(|op| (op.to_owned(), operations));
    assert_eq!(requests, expected.into());
    let crowd = &results_of(&document, "reconnect-50", "ours")["rounds"][0]["crowd"];
    assert!(
        crowd["reconnect"]["requests"]["CreateSession"].as_u64() == Some(1),
        "{crowd}"
    );

    // The cache sets a watch, and reads the directory with its children, then the leaves in batches
    // of growing size.
    let load = &results_of(&document, "cache-load-1000", "ours")["counts"]["requests"];
    assert_eq!(load["AddWatch"], 1, "{load}");
    assert!(load["MultiRead"].as_u64().unwrap() <= 10, "{load}");
    let cache = &results_of(&document, "cache-reconnect-1000", "ours")["rounds"][0]["cache"];
    assert!(
        cache["counts"]["requests"]["MultiRead"].as_u64().unwrap() <= 10,
        "{cache}"
    );
    // One event for each change that the cache missed while its connection was cut.
    assert_eq!(cache["events"], 10, "{cache}");

    // An increment is a read and a write; with a receipt, the write is a transaction.
    for (case, write) in [
        ("increment-counter", "SetData"),
        ("increment-receipt", "Multi"),
    ] {
        let counts = &results_of(&document, case, "ours")["counts"];
        let requests = &counts["requests"];
        let each = [
            &requests["GetData"],
            &requests[write],
            &counts["operations"],
        ];
        assert!(each[0] == each[2] && each[1] == each[2], "{case}: {counts}");
    }
    // Concurrent increments conflict, so some writes are repeated.
    let counts = &results_of(&document, "increment-counter-4", "ours")["counts"];
    assert!(
        counts["requests"]["SetData"].as_u64() >= counts["operations"].as_u64(),
        "{counts}"
    );
    assert_eq!(counts["round_trips"], Value::Null, "{counts}");

    let requests = |case: &str| &results_of(&document, case, "ours")["counts"]["requests"];
    assert_eq!(
        requests("register-100")["Create2"],
        100,
        "{}",
        requests("register-100")
    );
    assert!(
        requests("find-100")["MultiRead"].as_u64().unwrap() <= 4,
        "{}",
        requests("find-100")
    );

    // The results have a note on each case that a client does not support.
    let other = results_of(&document, "cycle-semaphore-mutex", "zookeeper-client");
    assert_eq!(other["note"], "not supported: it has no such lock");
    let table = std::fs::read_to_string(&markdown).unwrap();
    assert!(
        table.contains("not supported: it has no such lock"),
        "{table}"
    );
    let plots = std::fs::read_dir(&svg)
        .unwrap()
        .map(|plot| plot.unwrap().file_name().into_string().unwrap());
    let expected = ["crowds", "cycles", "distinct", "handovers", "processor"];
    let environment = document["places"][0]["name"].as_str().unwrap();
    assert_eq!(
        plots.collect::<BTreeSet<_>>(),
        expected
            .map(|name| format!("{environment}-{name}.svg"))
            .into()
    );

    // `--from` prints the same tables from the JSON file.
    let again = file("again.md");
    let (is_done, text) = bench(PEER, &["--from", &json, "--markdown", &again]);
    assert!(is_done, "{text}");
    assert_eq!(std::fs::read_to_string(&again).unwrap(), table);
}

#[test]
fn a_client_that_exceeds_the_time_limit_is_reported_without_results() {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("run.json").display().to_string();
    let (is_done, text) = bench(
        PEER,
        &[
            "--cases",
            "cycle-mutex",
            "--seconds",
            "30",
            "--limit",
            "1",
            "--json",
            &json,
        ],
    );
    assert!(is_done, "{text}");
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    for peer in ["ours", "zookeeper-client"] {
        let results = results_of(&document, "cycle-mutex", peer);
        assert_eq!(results["note"], "took longer than 1 s");
        assert_eq!(results["rounds"].as_array().unwrap().len(), 0);
    }
}
