//! The commands for set-up, tests, checks and generated pages: see `cargo xtask help`.

mod calibration;
mod choice;
mod class_archive;
mod clients;
mod command;
mod contents;
#[path = "../../curator-recipes/tests/server/costs.rs"]
mod costs;
mod curator;
mod debian;
#[expect(dead_code, unreachable_pub, reason = "a part of curator-test; set-up and tests must find the same ZooKeeper")]
#[path = "../../curator-test/src/real/distribution.rs"]
mod distribution;
mod docs;
mod environment;
mod go;
mod jepsen;
mod jobs;
mod kazoo;
mod kerberos;
#[expect(unreachable_pub, reason = "a part of curator-test; it reads the variable that is set here")]
#[path = "../../curator-test/src/server/kind.rs"]
mod kind;
#[cfg(test)]
mod layers;
#[cfg(test)]
mod links;
#[path = "../../curator-test/src/real/logging.rs"]
mod logging;
mod maven;
mod not_run;
mod package;
#[cfg(test)]
mod packaged;
#[cfg(test)]
mod pages;
mod plan;
mod prepare;
mod programs;
mod promtool;
#[cfg(test)]
mod repeatable;
#[expect(dead_code, unreachable_pub, reason = "a part of curator-test; it writes the report that is read here")]
#[path = "../../curator-test/src/report.rs"]
mod report;
#[cfg(test)]
mod runbook;
mod servers;
mod simulate;
mod soak;
mod summary;
mod tally;
mod targets;
mod test;
#[cfg(test)]
mod versions;

use std::{env, path::PathBuf, process::ExitCode};

use targets::Tier;

const HELP: &str = "\
cargo xtask <command>

  prepare              make sure that Java, ZooKeeper, Curator, kazoo and go-zookeeper are available; quick if they are
  prepare sasl-gssapi  make sure that the feature sasl-gssapi can be built: install Debian's packages libkrb5-dev and
                       libclang-dev if they are missing
  prepare promtool     make sure that promtool is available: extract it from Debian's package prometheus if it is missing
  alerts               test the alert rules in docs/operations with promtool
  environment <client>...
                       prepare ZooKeeper and these clients (`curator`, `go`, `kazoo`), and print the environment variables
                       with their locations; curator-bench runs this command itself
  test                 prepare and run the tests that pass before a commit, on embedded servers and on the newest release
  test --landing       what else must pass before a commit lands: TLS, Kerberos, hostile servers, examples, and the tests
                       whose outcome depends on the release, on older releases
  test --nightly       all tests, on all servers
  test [--servers <list>] [-- <args>]
                       all tests, or `cargo test <args>`, on these servers: `embedded`, `simulated`, `debian` (Debian's
                       package) or releases, as in 3.6.4,debian,3.9.5; without a list on embedded and on real servers;
                       `-- -p curator-recipes --test interop curator::` runs the tests with Curator; also `go::`, `kazoo::`
  calibrate <seconds> <budget>
                       print how long a fixed computation takes here, and how many times as long a run took; the budget is
                       such a number
  jepsen [--peers curator,kazoo] <args>
                       prepare ZooKeeper and these peers, and run the locks under faults: `curator-jepsen run <args>`;
                       `cargo xtask jepsen --help` lists the arguments
  simulate [--seeds <n>] [--from <seed>|commit] [--workload <name>] [--seed <n> [--trace]] [--planted]
                       search for failures of the recipes in simulated time; `cargo xtask simulate --help` lists the
                       arguments
  soak [--minutes <n>] [--seed <n>] [--table <file>]
                       use locks for ten or <n> minutes while connections are cut, and check that no resource grows;
                       with a file, also write the table to it, in Markdown
  docs                 regenerate the parts of pages that come from the sources and from JSON results: tables of files,
                       features, costs and results, and the list of decisions
  package              pack the published packages, and use them in a new crate
  help                 print this help

ZooKeeper is taken from ZOOKEEPER_HOME, or fetched with Maven, or installed as Debian's package `zookeeper`. The other clients
are fetched into the target directory, unless an environment variable is set:
- Kazoo, with pip. CURATOR_TEST_KAZOO_PYTHON is a Python that can import kazoo.
- go-zookeeper, with Go (on PATH, or Debian's package `golang-go`), which also builds the programs that use it.
  CURATOR_TEST_GO_AGENT and CURATOR_TEST_GO_BENCH are the paths of built programs.
- Java Curator, with Maven; our programs that use it are compiled. CURATOR_TEST_CURATOR_CLASSPATH is a class path with both.

CURATOR_TEST_SERVER=embedded or =real runs the tests on one kind of server only. If it is not set, the soak uses a real server.
The end of the output lists the tests that did not run. If CI is set, tests that did not run are a failure.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (command, rest) = arguments.split_first().map_or(("help", &[][..]), |(first, rest)| (first.as_str(), rest));
    let result = match (command, rest) {
        ("prepare", []) => prepare::everything(),
        ("prepare", [what]) if what == "sasl-gssapi" => kerberos::prepare_build(),
        ("prepare", [what]) if what == "promtool" => promtool::prepare().map(drop),
        ("alerts", []) => promtool::test(),
        ("test", []) => test::run(Tier::Commit, None, &[]),
        ("test", [tier]) if tier == "--landing" => test::run(Tier::Landing, None, &[]),
        ("test", [tier]) if tier == "--nightly" => test::run(Tier::Nightly, None, &[]),
        ("test", [servers, list]) if servers == "--servers" => test::run(Tier::Nightly, Some(list), &[]),
        ("test", [servers, list, dashes, arguments @ ..]) if servers == "--servers" && dashes == "--" => {
            test::run(Tier::Nightly, Some(list), arguments)
        }
        ("test", [dashes, arguments @ ..]) if dashes == "--" => test::run(Tier::Commit, None, arguments),
        ("calibrate", [seconds, budget]) => calibration::print(seconds, budget),
        ("environment", clients) => environment::run(clients),
        ("jepsen", arguments) => jepsen::run(arguments),
        ("docs", []) => docs::write(),
        ("package", []) => package::run(),
        ("simulate", arguments) => simulate::run(arguments),
        ("soak", arguments) => soak::run(arguments),
        ("help" | "--help" | "-h", []) => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(format!("`{}` is not a known command; see `cargo xtask help`", arguments.join(" "))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a progress message.
fn print_line(line: &str) {
    println!("xtask: {line}");
}

/// Cargo's target directory.
fn target_dir() -> Result<PathBuf, String> {
    let set = env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    std::path::absolute(&set).map_err(|e| format!("cannot find the target directory {}: {e}", set.display()))
}

/// The root of the workspace: this package is at `crates/xtask`.
fn workspace() -> PathBuf {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).map_or_else(|| package.clone(), PathBuf::from)
}
