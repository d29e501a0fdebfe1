//! Set-up and tests, one command each: `cargo xtask help`.

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
#[expect(dead_code, unreachable_pub, reason = "a part of curator-test; it writes the report that is read here")]
#[path = "../../curator-test/src/report.rs"]
mod report;
#[cfg(test)]
mod runbook;
mod servers;
mod soak;
mod summary;
mod tally;
mod targets;
mod test;
#[cfg(test)]
mod versions;

use std::{env, path::PathBuf, process::ExitCode};

const HELP: &str = "\
cargo xtask <command>

  prepare              make sure that Java, ZooKeeper, Curator, kazoo and go-zookeeper are available; quick if they are
  prepare sasl-gssapi  make sure that the feature sasl-gssapi can be built: install Debian's packages libkrb5-dev and
                       libclang-dev if they are missing
  prepare promtool     make sure that promtool is available: take it out of Debian's package prometheus
  alerts               test the alert rules in docs/operations by promtool
  environment <client>...
                       prepare ZooKeeper and these clients, and print the variables that name them, for the bench:
                       `curator`, `go`, `kazoo`; curator-bench calls it itself
  test [--servers <list>] [-- <args>]
                       run all tests, or `cargo test <args>`, on embedded and on real servers, and prepare what they need;
                       with a list, on these: `embedded`, `debian` (its package) or releases, as in 3.6.4,debian,3.9.5;
                       `-- -p curator-test --test interop curator::` runs the tests with Curator; also `go::`, `kazoo::`
  jepsen [--peers curator,kazoo] <args>
                       prepare ZooKeeper and these peers, and run the locks under faults: `curator-jepsen run <args>`;
                       `cargo xtask jepsen --help` tells which arguments there are
  soak [--minutes <n>] [--seed <n>] [--table <file>]
                       use locks for ten minutes or for so many, while connections break, and see that nothing grows;
                       writes the table to the file too, in Markdown
  docs                 write again what the pages have from the sources and from the JSON of results: tables of files,
                       features, costs and results, and the list of decisions
  package              pack the packages that are published, check each alone, and use them in a new crate
  help                 print this

ZooKeeper is taken from ZOOKEEPER_HOME, or fetched with Maven, or installed as Debian's package `zookeeper`. Kazoo, for the
tests with other clients, is fetched with pip into the target directory; CURATOR_TEST_KAZOO_PYTHON names a Python that has it.
Go-zookeeper is fetched, and the programs that use it built, by Go, which is on PATH or Debian's package `golang-go`;
CURATOR_TEST_GO_AGENT and CURATOR_TEST_GO_BENCH name built programs.
Java Curator is fetched with Maven and our programs that use it compiled, into the target directory too;
CURATOR_TEST_CURATOR_CLASSPATH names a class path with both.
CURATOR_TEST_SERVER=embedded or =real runs the tests on one kind of server only; if it is not set, the soak uses a real one.
Without arguments, the conformance tests also run on ZooKeeper 3.8, which is Debian's package; where CI is set, so do the tests
that need one server and those with other clients, and again on the oldest supported release. The end of the output names what
was not run; where CI is set, that is a failure.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (command, rest) = arguments.split_first().map_or(("help", &[][..]), |(first, rest)| (first.as_str(), rest));
    let result = match (command, rest) {
        ("prepare", []) => prepare::everything(),
        ("prepare", [what]) if what == "sasl-gssapi" => kerberos::prepare_build(),
        ("prepare", [what]) if what == "promtool" => promtool::prepare().map(drop),
        ("alerts", []) => promtool::test(),
        ("test", []) => test::run(None, &[]),
        ("test", [servers, list]) if servers == "--servers" => test::run(Some(list), &[]),
        ("test", [servers, list, dashes, arguments @ ..]) if servers == "--servers" && dashes == "--" => {
            test::run(Some(list), arguments)
        }
        ("test", [dashes, arguments @ ..]) if dashes == "--" => test::run(None, arguments),
        ("environment", clients) => environment::run(clients),
        ("jepsen", arguments) => jepsen::run(arguments),
        ("docs", []) => docs::write(),
        ("package", []) => package::run(),
        ("soak", arguments) => soak::run(arguments),
        ("help" | "--help" | "-h", []) => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(format!("`{}` is not a known command; see `cargo xtask help`", arguments.join(" "))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("xtask: {sentence}");
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
