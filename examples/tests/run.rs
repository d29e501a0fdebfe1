//! Every example runs by itself and says what it is to say.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is the test's failure")]

use std::process::Command;

/// Runs an example that cargo has built beside this test, and returns what it printed.
fn run(example: &str) -> String {
    let this_test = std::env::current_exe().unwrap();
    let profile = this_test.parent().and_then(|deps| deps.parent()).expect("tests are built into `deps`");
    let program = profile.join("examples").join(example).with_extension(std::env::consts::EXE_EXTENSION);
    let output = Command::new(&program).env_remove("ZOOKEEPER_CONNECT").output().expect("cargo builds the examples");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example} has failed: {}\n{printed}\n{complained}", output.status);
    printed
}

#[test]
fn mutex() {
    let printed = run("mutex");
    assert!(printed.contains("The counter is 20, expected 20."), "{printed}");
    assert!(printed.contains("No update was lost"), "{printed}");
}

#[test]
fn custom_driver() {
    let printed = run("custom_driver");
    assert!(printed.contains("web-3 holds the lock: /curator-examples/shared-lock/web-3-W-0000000000"), "{printed}");
    assert!(printed.contains("batch-1-W-0000000002 (waits)"), "{printed}");
    assert!(
        printed.contains("batch-1 holds the lock: /curator-examples/shared-lock/batch-1-W-0000000002"),
        "{printed}"
    );
}
