//! What is printed about a run that fails.

use std::{env, panic::catch_unwind, thread};

use super::{Shared, trace::last_lines};

/// The environment variable with which [`search`](crate::search) runs only one seed, and a failing
/// seed prints all events.
pub const SEED_VARIABLE: &str = "CURATOR_SEED";

/// How many of its last events a failing seed prints.
const LAST: usize = 40;

/// A run, and how to repeat it.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) seed: u64,
    command: String,
}

impl Run {
    /// The default command repeats the test that this thread runs.
    pub(super) fn new(seed: u64, command: Option<String>) -> Self {
        Self {
            seed,
            command: command.unwrap_or_else(|| TestName::of_thread().command(seed)),
        }
    }

    /// The reason, the last events, and the command.
    pub(super) fn report(&self, reason: &str, shared: Option<&Shared>) -> String {
        let Self { seed, command } = self;
        let trace = shared.map(|shared| {
            shared
                .trace()
                .unwrap_or_else(|| "(the simulation does not return)\n".to_owned())
        });
        let trace = trace.unwrap_or_default();
        // With one seed, all is printed.
        let last = if env::var_os(SEED_VARIABLE).is_some() {
            &trace
        } else {
            last_lines(&trace, LAST)
        };
        format!(
            "seed {seed} failed: {reason}\n\nIts last events:\n{last}\nTo repeat it and print all events:\n  {command}\n"
        )
    }

    /// Prints the report of a run in a panic, whose message has been printed. Does not panic.
    pub(super) fn print(&self, shared: &Shared) {
        let report = self.report("its test has panicked, see above", Some(shared));
        let _ = catch_unwind(|| eprintln!("\n{report}"));
    }
}

/// The test that a thread runs. The test harness names its thread after it.
pub(super) struct TestName(Option<String>);

impl TestName {
    pub(super) fn of_thread() -> Self {
        Self(
            thread::current()
                .name()
                .filter(|name| *name != "main")
                .map(str::to_owned),
        )
    }

    /// How to repeat a run of the test. Cargo sets the package.
    pub(super) fn command(&self, seed: u64) -> String {
        let package = env::var("CARGO_PKG_NAME")
            .map(|name| format!(" -p {name}"))
            .unwrap_or_default();
        // Without `--exact`, all tests whose names contain this one would run.
        let test = self
            .0
            .as_ref()
            .map(|name| format!(" {name} -- --exact"))
            .unwrap_or_default();
        format!("{SEED_VARIABLE}={seed} cargo test{package}{test}")
    }
}
