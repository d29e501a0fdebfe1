//! Set-up, demo and tests, one command each: `cargo xtask help`.

mod command;
mod debian;
#[expect(dead_code, unreachable_pub, reason = "a part of curator-test; set-up and tests must find the same ZooKeeper")]
#[path = "../../curator-test/src/distribution.rs"]
mod distribution;
mod maven;
mod prepare;
#[expect(dead_code, unreachable_pub, reason = "a part of curator-test; it writes the report that is read here")]
#[path = "../../curator-test/src/report.rs"]
mod report;
mod summary;
mod test;

use std::{env, path::PathBuf, process::ExitCode};

const HELP: &str = "\
cargo xtask <command>

  prepare              make sure that Java and ZooKeeper are there; quick when they are
  demo                 prepare, then run the example `mutex`
  test [-- <args>]     prepare, then run all tests, or `cargo test <args>`
  help                 print this

ZooKeeper is taken from ZOOKEEPER_HOME, else fetched by Maven, else installed as Debian's package `zookeeper`.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (command, rest) = arguments.split_first().map_or(("help", &[][..]), |(first, rest)| (first.as_str(), rest));
    let result = match (command, rest) {
        ("prepare", []) => prepare::prepare().map(drop),
        ("demo", []) => demo(),
        ("test", []) => test::run(&[]),
        ("test", [dashes, arguments @ ..]) if dashes == "--" => test::run(arguments),
        ("help" | "--help" | "-h", []) => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(format!("`{}` is not understood; see `cargo xtask help`", arguments.join(" "))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("xtask: {sentence}");
            ExitCode::FAILURE
        }
    }
}

/// Tells what is being done.
fn say(line: &str) {
    println!("xtask: {line}");
}

fn demo() -> Result<(), String> {
    prepare::prepare()?;
    say("running the example `mutex`");
    command::run(command::cargo().args(["run", "--quiet", "-p", "curator-examples", "--example", "mutex"]))
}

/// Cargo's target directory.
fn target_dir() -> Result<PathBuf, String> {
    let set = env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    std::path::absolute(&set).map_err(|e| format!("the target directory {} cannot be found: {e}", set.display()))
}

/// The top of the source tree: this package is at `crates/xtask`.
fn workspace() -> PathBuf {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).map_or_else(|| package.clone(), PathBuf::from)
}
