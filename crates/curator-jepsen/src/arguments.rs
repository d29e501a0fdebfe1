//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use curator_jepsen::nemesis::Nemesis;
use curator_jepsen::peer::Peer;
use curator_jepsen::run::{Cast, Choice, Options};
use curator_jepsen::work::{LockKind, Part, Transport, Variant};

/// Tests the recipes under faults: clients do work under locks while servers, networks and clients
/// fail. Afterwards, a checker reads the histories that the clients have recorded.
#[derive(Debug, Parser)]
#[command(name = "curator-jepsen", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) program: Program,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Program {
    /// Conducts a run and checks it. Needs a real ZooKeeper, see `cargo xtask prepare`.
    ///
    /// Ends with status 0 if the run was clean: there were no violations, every client recovered
    /// from each nemesis, nothing was left behind, and each part of the work (a lock in one
    /// variant, a counter, the caches, the services or the shards) had a result: an acknowledged write or a
    /// completed read. Otherwise ends with 1; with 2 if the arguments are invalid, and with 3 if
    /// the run could not be completed.
    Run(RunArguments),
    /// Checks a run again, from the files in its directory. The status is the same as for `run`
    /// without `--expect-violations`.
    Check {
        /// The directory of the run.
        directory: PathBuf,
    },
    /// Checks several runs again, and prints their numbers in common tables, as Markdown. Ends with
    /// status 0 if all runs can be read, even if they have violations.
    Summary {
        /// Also write the numbers to this file: `docs/faults/results.json` for published runs.
        #[arg(long, requires = "section", value_name = "FILE")]
        json: Option<PathBuf>,
        /// The section of the file to replace, for example `locks`. Other sections are kept.
        #[arg(long, requires = "json", value_name = "NAME")]
        section: Option<String>,
        /// The directories of the runs.
        #[arg(required = true)]
        directories: Vec<PathBuf>,
    },
    /// One client of a run: reads its work from standard input, and does it until the input ends.
    Worker,
    /// Runs a program that is killed when its parent ends.
    #[command(hide = true)]
    Tied {
        /// The process that starts this one.
        parent: u32,
        /// The program.
        program: PathBuf,
        /// Its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// The options of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArguments {
    /// For how many seconds nemeses strike. The run takes longer, as it also starts and ends all
    /// processes.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=7 * 24 * 60 * 60))]
    seconds: u64,
    /// The nemeses, separated by commas. They strike one after the other, in an order that the seed
    /// determines. `all`: all but `clock-rate` and `reconfig`; in every fourth strike, two nemeses
    /// strike at once. `none`: no nemeses. `mixed`, alone or with names, as in
    /// `kill-leader,cut-client,mixed`: in every strike, two nemeses strike at once, of the named
    /// ones or of those of `all`; `reconfig` does not go with `all`, `kill-client`, the
    /// nemeses that isolate servers, and kazoo; a nemesis that cannot be mixed with another strikes alone. Next to `all`, `mixed` has no
    /// effect.
    #[arg(
        long,
        default_value = "all",
        value_delimiter = ',',
        value_name = "NAMES"
    )]
    nemesis: Vec<Choice>,
    /// The locks, separated by commas: `mutex`, `read-write`, `semaphore`, `multi`, `leader-latch`,
    /// `leader-selector`; or `all`; or `none`, for a run with only caches, counters, services or
    /// shards.
    #[arg(long, default_value = "all", value_parser = all_or::<LockKind>, value_name = "LOCKS")]
    lock: Several<LockKind>,
    /// How a client that has lost its lock is kept from writing, separated by commas: `plain`, not
    /// at all; `guarded`, by `guard.run(..)` and a check of the guard before each write;
    /// `transaction`, by writes in the guard's transactions; `token`, by fencing tokens, which the
    /// store compares; or `all`.
    #[arg(long, default_value = "all", value_parser = all_or::<Variant>, value_name = "VARIANTS")]
    variant: Several<Variant>,
    /// Each client also keeps a cache of nodes that all clients write to. After each strike, the
    /// caches are compared with the servers.
    #[arg(long)]
    cache: bool,
    /// Each client also increments shared counters, one of each kind. At the end, their values are
    /// compared with the reported increments.
    #[arg(long)]
    counter: bool,
    /// Each client also registers an instance of a service, and watches the instances of all
    /// clients.
    #[arg(long)]
    service: bool,
    /// Each client also serves a part of common shards, of which there are twice as many as clients.
    /// The job of a shard writes with its lease's token.
    #[arg(long)]
    shards: bool,
    /// The seed of the random choices: the same seed repeats the choices of another run. By default
    /// a random seed, which is printed.
    #[arg(long)]
    seed: Option<u64>,
    /// The number of our clients.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    clients: u32,
    /// Which code speaks ZooKeeper's protocol for our clients.
    #[arg(long, default_value = "zookeeper-client", value_name = "NAME")]
    transport: Transport,
    /// Other ZooKeeper clients that do the same work, separated by commas. `kazoo`: three processes
    /// that use kazoo's lock. `curator`: if `--lock` includes a lock, three processes that use
    /// Curator's mutex; if `--lock` includes a leader recipe, three processes that use its leader
    /// latch and its leader selector, under each of its two error policies. For `--cache`:
    /// `curator-caches` and `kazoo-caches`, two processes each, with caches of the same nodes. For
    /// `--counter`: `curator-counters` and `kazoo-counters`, three processes each; the processes of
    /// a client share one counter. For `--service`: `curator-services`, three processes, each with
    /// an instance.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    peers: Vec<Peer>,
    /// The directory for the histories: empty or new. By default a temporary one, which is kept
    /// unless the run was clean.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Expects the violations of `clock-rate`, and fails without them.
    ///
    /// Expected are the violations by a client that relies on its session for too long: exclusivity
    /// (more holders at once than the lock allows), promise (a lock acquired before the
    /// `valid_until()` of another holder), token (a fencing token that is not greater than an
    /// earlier one) and fifo (a waiter was overtaken); and lost updates and changed reads of the
    /// variant `guarded`. All other violations, and everything else that makes a run unclean, still
    /// fail the run.
    #[arg(long)]
    pub(crate) expect_violations: bool,
}

/// A list in one argument.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Several<T>(Vec<T>);

/// Parses names that are separated by commas, or `all`, or `none`.
fn all_or<T: ValueEnum>(text: &str) -> Result<Several<T>, String> {
    if text == "all" {
        return Ok(Several(T::value_variants().to_vec()));
    }
    if text == "none" {
        return Ok(Several(Vec::new()));
    }
    text.split(',')
        .map(|name| {
            T::from_str(name, false).map_err(|_| {
                let known: Vec<_> = T::value_variants()
                    .iter()
                    .filter_map(ValueEnum::to_possible_value)
                    .map(|value| value.get_name().to_owned())
                    .collect();
                format!(
                    "unknown name {name:?}; give some of {}, or all, or none",
                    known.join(", ")
                )
            })
        })
        .collect::<Result<_, _>>()
        .map(Several)
}

/// The help text on the nemeses, with a line for each.
pub(crate) fn nemeses() -> String {
    let mut text = "Nemeses:\n".to_owned();
    for nemesis in Nemesis::value_variants() {
        text += &format!("  {:<18}{}\n", nemesis.to_string(), nemesis.description());
    }
    text
}

impl RunArguments {
    /// The options of the run, with a random seed if no seed was given.
    pub(crate) fn options(&self, program: PathBuf) -> Options {
        let cast = Cast {
            program,
            clients: self.clients,
            transport: self.transport,
            peers: self.peers.clone(),
            parts: self
                .lock
                .0
                .iter()
                .flat_map(|&lock| {
                    self.variant
                        .0
                        .iter()
                        .map(move |&variant| Part { lock, variant })
                })
                .collect(),
            caches: self.cache,
            counters: self.counter,
            services: self.service,
            shards: self.shards,
            // Short, so that it can be typed.
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..1_000_000)),
        };
        Options {
            cast,
            duration: Duration::from_secs(self.seconds),
            nemeses: self.nemesis.clone(),
            directory: self.directory.clone(),
        }
    }
}
