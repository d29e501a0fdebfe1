//! Runs a test alone in a separate process.

use std::env;
use std::process::{Command, Stdio};

/// The environment variable that is set in such a process, to the name of its test.
const ALONE: &str = "CURATOR_TEST_ALONE";

/// Runs `work` alone in a new process, and asserts that the process succeeds.
///
/// `test` is the full name of the calling test, such as `module::test`. Use this for a test that
/// limits or changes the whole process, or that would abort it.
pub fn alone(test: &str, work: impl FnOnce()) {
    alone_with(test, |_| {}, work);
}

/// Like [`alone`], but applies `settings` to the command that starts the process.
pub fn alone_with(test: &str, settings: impl FnOnce(&mut Command), work: impl FnOnce()) {
    if env::var(ALONE).is_ok_and(|alone| alone == test) {
        return work();
    }
    let mut process = Command::new(env::current_exe().unwrap());
    process
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, test)
        .stdin(Stdio::null());
    settings(&mut process);
    let output = process.output().unwrap();
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(
        output.status.success(),
        "{}\n{stdout}\n{stderr}",
        output.status
    );
    assert!(
        stdout.contains("1 passed"),
        "there is no test {test}:\n{stdout}"
    );
}
