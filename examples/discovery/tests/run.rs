//! Runs the example, and checks its output.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "in a test, a panic is the way to fail"
)]

use std::process::Command;

#[test]
fn no_request_fails_after_a_drain_or_once_a_killed_servers_instance_is_gone() {
    let output = Command::new(env!("CARGO_BIN_EXE_discovery"))
        .env_remove("ZOOKEEPER_CONNECT")
        .env_remove("ZOOKEEPER_NAMESPACE")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{printed}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let rest_of_line = |title: &str| {
        printed
            .lines()
            .find_map(|line| line.strip_prefix(title))
            .expect(&printed)
            .to_owned()
    };
    for two in ["Two servers: ", "a is there again: "] {
        let answers = rest_of_line(two);
        assert!(
            answers.contains(" by a and ") && answers.ends_with(" by b."),
            "{printed}"
        );
    }
    for title in ["a is drained: ", "a has ended: "] {
        assert_eq!(
            rest_of_line(title),
            "100 requests, answered 100 by b.",
            "{printed}"
        );
    }
    assert!(
        rest_of_line("b was killed: ").starts_with("it was gone after "),
        "{printed}"
    );
    assert_eq!(
        rest_of_line("b is gone: "),
        "100 requests, answered 100 by a.",
        "{printed}"
    );
}
