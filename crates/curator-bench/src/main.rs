//! A bench that compares the locks and caches of several ZooKeeper clients on the same servers.
//!
//! ```text
//! cargo run --release -p curator-bench -- --delay-ms 5 --ensemble 3 --json out.json --svg plots
//! ```
//!
//! Every client, ours included, runs in separate processes, which all get the same requests
//! ([`protocol`]). The bench measures the time, by the worker's clock; processor time, context
//! switches and memory as the system reports them ([`process`]); requests, round trips and bytes at
//! a proxy. The proxy adds time, so requests are counted in a separate run.
//!
//! | Module | |
//! |---|---|
//! | [`arguments`] | the command line |
//! | [`run`] | runs all cases in all environments, and shows the progress |
//! | [`turns`] | one case: the peers take turns |
//! | [`runner`] | one peer in one case: starts its workers, runs the workload, counts the requests |
//! | [`tree`] | the trees that caches load, and their changes |
//! | [`environment`] | the servers, and the network delay between clients and servers |
//! | [`process`] | a worker's process, and the resources that it uses |
//! | [`worker`] | the worker for our client and for `zookeeper-client`; the others are in `peers/` |
//! | [`peer`] | the peers: how their workers are found or fetched, and started |
//! | [`case`](mod@case) | the cases |
//! | [`protocol`] | the lines between the bench and a worker |
//! | [`about`] | the machine and the versions |
//! | [`plot`] | the plots; the tables are in the crate `curator-results` |

mod about;
mod arguments;
mod case;
mod environment;
mod peer;
mod plot;
mod process;
mod protocol;
mod run;
mod runner;
mod tree;
mod turns;
mod worker;

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use curator_jepsen::exec_tied;
use curator_results::bench::{self, Document};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::arguments::{Arguments, Program, RunArguments};

/// The exit status for bad arguments, by convention.
const USAGE: u8 = 2;
/// A session through a proxy takes five file descriptors in this process, and there are hundreds of
/// sessions.
const FILES: u64 = 65_536;

fn main() -> ExitCode {
    let Arguments { program, run } = Arguments::parse();
    match program {
        Some(Program::Worker {
            client,
            connect,
            session_timeout,
        }) => worker::run(client, &connect, Duration::from_millis(session_timeout)),
        Some(Program::Tied {
            parent,
            program,
            arguments,
        }) => {
            let error = exec_tied(parent, Command::new(&program).args(arguments));
            eprintln!("curator-bench: cannot run {}: {error}", program.display());
            ExitCode::FAILURE
        }
        None => measure_or_print(&run),
    }
}

fn measure_or_print(arguments: &RunArguments) -> ExitCode {
    let result = match env::current_exe().map(|program| arguments.options(program)) {
        Ok(Ok(options)) if arguments.list => {
            options
                .cases
                .iter()
                .for_each(|case| println!("{:<26}{}", case.name, case.title()));
            Ok(())
        }
        Ok(Ok(options)) => match &arguments.from {
            Some(file) => read(file),
            None => measure(&options, arguments.json.as_deref()),
        }
        .and_then(|document| output(&document, arguments)),
        Ok(Err(message)) => {
            eprintln!("curator-bench: {message}");
            return ExitCode::from(USAGE);
        }
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("curator-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &run::Options, json: Option<&Path>) -> anyhow::Result<Document> {
    allow_many_files().context("cannot allow so many open files")?;
    // A worker is killed when the thread that started it ends, so the main thread starts the
    // workers.
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?
        .block_on(run::run(options, |document| {
            json.map_or(Ok(()), |file| save(document, file))
        }))
}

/// Raises the limit of open files as far as the system permits.
fn allow_many_files() -> std::io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = Some(maximum.unwrap_or(FILES).min(FILES));
    Ok(setrlimit(Resource::Nofile, Rlimit { current, maximum })?)
}

fn save(document: &Document, file: &Path) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(document)?;
    fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))
}

fn read(file: &Path) -> anyhow::Result<Document> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is not in the format of `--json`", file.display()))
}

/// Prints the tables, and writes the requested files and plots.
fn output(document: &Document, arguments: &RunArguments) -> anyhow::Result<()> {
    let tables = bench::markdown(document);
    println!("{tables}");
    if let Some(file) = &arguments.markdown {
        fs::write(file, tables).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(directory) = &arguments.svg {
        for file in plot::draw(document, directory)? {
            println!("drawn: {}", directory.join(file).display());
        }
    }
    Ok(())
}
