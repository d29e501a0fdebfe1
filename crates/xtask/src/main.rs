//! The commands for set-up, tests, checks and generated pages: see `cargo xtask help`.

mod calibration;
mod clients;
mod command;
#[path = "../../curator-recipes/tests/server/costs.rs"]
mod costs;
mod debian;
#[expect(
    dead_code,
    unreachable_pub,
    reason = "a part of curator-test; set-up and tests must find the same ZooKeeper"
)]
#[path = "../../curator-test/src/distribution.rs"]
mod distribution;
mod docs;
mod files;
mod jobs;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod links;
mod maven;
mod package;
#[cfg(test)]
mod pages;
mod plan;
mod prepare;
mod programs;
#[cfg(test)]
mod repeatable;
#[cfg(test)]
mod runbook;
mod runs;
#[expect(
    dead_code,
    unreachable_pub,
    reason = "a part of curator-test; it reads the variable that is set here, and writes the report that is read here"
)]
#[path = "../../curator-test/src/server_kind.rs"]
mod server_kind;
mod summary;
mod tally;
mod targets;
mod test;
#[cfg(test)]
mod versions;

use std::{env, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand, ValueEnum};
use clients::Client;
use targets::Tier;

/// Set-up, tests, checks and generated pages.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", after_help = ENVIRONMENT)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make sure that Java, ZooKeeper, Curator, kazoo and go-zookeeper are available, or one other
    /// prerequisite; quick if they are
    Prepare { what: Option<Prerequisite> },
    /// Test the alert rules in docs/operations with promtool
    Alerts,
    /// Prepare ZooKeeper and these clients, and print the environment variables with their
    /// locations; curator-bench runs this command itself
    Environment { clients: Vec<Client> },
    /// Prepare and run the tests that pass before a commit, on embedded servers and on the newest
    /// release
    Test {
        /// What else must pass before a commit lands: TLS, Kerberos, hostile servers, examples, and
        /// the tests whose outcome depends on the release, on older releases
        #[arg(long)]
        landing: bool,
        /// All tests, on all servers
        #[arg(long, conflicts_with = "landing")]
        nightly: bool,
        /// All tests, or `cargo test <args>`, on these servers: `embedded`, `eager` (embedded ones
        /// that remove empty containers at once), `simulated`, `debian` (Debian's package) or releases, as in 3.6.4,debian,3.9.5
        #[arg(long, value_name = "LIST", conflicts_with_all = ["landing", "nightly"])]
        servers: Option<String>,
        /// Run `cargo test` with these arguments: `-p curator-recipes --test interop curator::`
        /// runs the tests with Curator; also `go::`, `kazoo::`
        #[arg(last = true, value_name = "ARGS", conflicts_with_all = ["landing", "nightly"])]
        arguments: Vec<String>,
    },
    /// Print how long a fixed computation takes here, and how many times as long a run took; the
    /// budget is such a number
    Calibrate { seconds: u64, budget: u32 },
    /// Prepare ZooKeeper and the peers that `--peers` names, and run the locks under faults:
    /// `curator-jepsen run <args>`; `--help` lists the arguments
    #[command(disable_help_flag = true)]
    Jepsen {
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "ARGS"
        )]
        arguments: Vec<String>,
    },
    /// Search for failures of the recipes in simulated time; `--help` lists the arguments
    #[command(disable_help_flag = true)]
    Simulate {
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "ARGS"
        )]
        arguments: Vec<String>,
    },
    /// Use twenty locks in two hundred tasks while connections are cut, and check that no resource
    /// grows. Prints its seed
    Soak(runs::Soak),
    /// Regenerate the parts of pages that come from the sources and from JSON results: tables of
    /// files, features, costs and results, and the list of decisions
    Docs,
    /// Pack the published packages, and compile them from what is packed
    Package,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Prerequisite {
    /// What the feature sasl-gssapi needs: Debian's packages libkrb5-dev and libclang-dev are
    /// installed if they are missing
    SaslGssapi,
    /// It is extracted from Debian's package prometheus if it is missing
    Promtool,
}

const ENVIRONMENT: &str = "\
ZooKeeper is taken from ZOOKEEPER_HOME, or fetched with Maven, or installed as Debian's package `zookeeper`. The other clients
are fetched into the target directory, unless an environment variable is set: CURATOR_TEST_KAZOO_PYTHON,
CURATOR_TEST_GO_AGENT, CURATOR_TEST_GO_BENCH or CURATOR_TEST_CURATOR_CLASSPATH. CONTRIBUTING.md describes all prerequisites.
CURATOR_TEST_SERVER=embedded or =real runs the tests on one kind of server only. If it is not set, the soak uses a real server.
CURATOR_TEST_DIALECT=clickhouse-keeper-26.9, for example, makes embedded and simulated servers speak the protocol of that server.
The end of the output lists the tests that did not run. If CI is set, tests that did not run are a failure.";

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), String> {
    match command {
        Command::Prepare { what: None } => prepare::everything(),
        Command::Prepare {
            what: Some(Prerequisite::SaslGssapi),
        } => debian::prepare_kerberos_build(),
        Command::Prepare {
            what: Some(Prerequisite::Promtool),
        } => debian::prepare_promtool().map(drop),
        Command::Alerts => debian::test_alerts(),
        Command::Environment { clients } => prepare::environment(&clients),
        Command::Test {
            landing,
            nightly,
            servers,
            arguments,
        } => {
            let tier = match (landing, nightly || servers.is_some()) {
                (true, _) => Tier::Landing,
                (_, true) => Tier::Nightly,
                _ => Tier::Commit,
            };
            test::run(tier, servers.as_deref(), &arguments)
        }
        Command::Calibrate { seconds, budget } => {
            calibration::print(seconds, budget);
            Ok(())
        }
        Command::Jepsen { arguments } => runs::jepsen(&arguments),
        Command::Simulate { arguments } => runs::simulate(&arguments),
        Command::Soak(arguments) => runs::soak(arguments),
        Command::Docs => docs::write(),
        Command::Package => package::run(),
    }
}

/// Prints a progress message.
fn print_line(line: &str) {
    println!("xtask: {line}");
}

/// Cargo's target directory.
fn target_dir() -> Result<PathBuf, String> {
    let set =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    std::path::absolute(&set)
        .map_err(|e| format!("cannot find the target directory {}: {e}", set.display()))
}

/// The root of the workspace, which contains this package as `crates/xtask`.
fn workspace() -> PathBuf {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    package
        .ancestors()
        .nth(2)
        .map_or_else(|| package.clone(), PathBuf::from)
}
