//! `--verbose`: prints each step, and the time of each message. `--quiet`: prints no warnings.

use std::fmt::Display;
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::print::print_message;

static VERBOSE: OnceLock<()> = OnceLock::new();
static QUIET: OnceLock<()> = OnceLock::new();

/// Prints each step from now on.
pub(crate) fn enable() {
    let _ = VERBOSE.set(());
}

/// Prints no warning from now on.
pub(crate) fn disable_warnings() {
    let _ = QUIET.set(());
}

/// Prints a warning, unless `--quiet` is set: it would be printed also when the lock is not acquired.
pub(crate) fn warn(line: impl Display) {
    if QUIET.get().is_none() {
        print_message(line);
    }
}

/// Prints a step, if `--verbose` is set.
pub(crate) fn step(line: impl Display) {
    if VERBOSE.get().is_some() {
        print_message(line);
    }
}

/// The beginning of each message: the name of the program; with `--verbose`, also the time, in UTC, as servers log it.
pub(crate) fn prefix() -> String {
    match VERBOSE.get() {
        Some(()) => format!("zklock: {} ", humantime::format_rfc3339_millis(SystemTime::now())),
        None => "zklock: ".to_owned(),
    }
}
