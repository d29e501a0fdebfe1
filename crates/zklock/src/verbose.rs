//! `--verbose`: prints each step, and the time of each message. `--quiet`: prints no warnings
//! before the lock is held.

use std::fmt::Display;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use crate::print::print_message;

static VERBOSE: OnceLock<()> = OnceLock::new();
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Prints each step from now on.
pub(crate) fn enable() {
    let _ = VERBOSE.set(());
}

/// Sets whether warnings are dropped: with `--quiet`, until it is certain that the exit code is not
/// 121.
pub(crate) fn set_quiet(is_quiet: bool) {
    IS_QUIET.store(is_quiet, Ordering::Relaxed);
}

/// Prints a warning, such as about the connection, unless warnings are dropped.
pub(crate) fn warn(line: impl Display) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        print_message(line);
    }
}

/// Prints a step, if `--verbose` is set.
pub(crate) fn step(line: impl Display) {
    if VERBOSE.get().is_some() {
        print_message(line);
    }
}

/// The beginning of each message: the name of the program; with `--verbose`, also the time, in UTC,
/// as servers log it.
pub(crate) fn prefix() -> String {
    match VERBOSE.get() {
        Some(()) => format!(
            "zklock: {} ",
            humantime::format_rfc3339_millis(SystemTime::now())
        ),
        None => "zklock: ".to_owned(),
    }
}
