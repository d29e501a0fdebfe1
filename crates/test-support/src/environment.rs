//! Reads environment variables and `/proc/self/status`, and prints lines that are always shown.

use std::env;
use std::io::Write as _;
use std::time::UNIX_EPOCH;

/// A number from an environment variable.
pub fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} must be a number"))
    })
}

/// A seed that differs from run to run.
pub fn new_seed() -> u64 {
    UNIX_EPOCH
        .elapsed()
        .map_or(0, |time| time.as_millis() as u64)
}

/// Prints a line that is shown even if the test passes, unlike `println`.
pub fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("stdout is writable");
}

/// One field of `/proc/self/status`; memory in KiB.
pub fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
        .unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}
