//! Runs the program `curator-bench`, and reads its results.

use std::process::Command;

use curator_test::SERVER_VARIABLE;
use serde_json::Value;

/// Java starts faster with these options. The tests check counts, not durations.
const JAVA: &str = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1";

/// Runs the bench with `peer` in addition to our client, on the kind of server that an environment
/// variable selects. Returns whether it succeeded, and its output.
pub(crate) fn bench(peer: &str, arguments: &[&str]) -> (bool, String) {
    let kind = std::env::var(SERVER_VARIABLE).unwrap_or_else(|_| "embedded".to_owned());
    let mut command = Command::new(env!("CARGO_BIN_EXE_curator-bench"));
    command.env("JAVA_TOOL_OPTIONS", JAVA);
    let output = command
        .args(["--server", &kind, "--peers", peer])
        .args(arguments)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// The results of a peer in a case: rounds, note, counts.
pub(crate) fn results_of<'a>(document: &'a Value, case: &str, peer: &str) -> &'a Value {
    let named = |values: &'a Value, key: &str, name: &str| {
        values
            .as_array()
            .unwrap()
            .iter()
            .find(|value| value[key] == name)
            .unwrap_or_else(|| panic!("no {name}"))
    };
    named(
        &named(&document["places"][0]["cases"], "name", case)["peers"],
        "peer",
        peer,
    )
}
