//! What a test is told by its environment, and what it says to whoever runs it.

use std::env;
use std::io::Write as _;
use std::time::UNIX_EPOCH;

/// A number from the environment.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// One that no run before has begun with.
pub(crate) fn new_seed() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |time| time.as_millis() as u64)
}

/// Prints a line that is seen even if the test passes, unlike that of `println`.
pub(crate) fn say(line: &str) {
    writeln!(std::io::stdout(), "{line}").expect("a place to print to");
}
