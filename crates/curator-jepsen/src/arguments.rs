//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use curator_jepsen::nemesis::Nemesis;
use curator_jepsen::peer::Peer;
use curator_jepsen::run::{Choice, Options};
use curator_jepsen::work::{LockKind, Variant};

/// Proof under faults: clients do work under locks while servers, networks and clients fail, and a checker reads afterwards what
/// they have seen.
#[derive(Debug, Parser)]
#[command(name = "curator-jepsen", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) program: Program,
}

/// The programs.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Program {
    /// Conducts a run and checks it. Needs a real ZooKeeper, see `cargo xtask prepare`.
    ///
    /// Ends with status 0 if the run was clean: no rule was broken, every client came back after each nemesis, nothing
    /// was left behind, and each part of the work has had a write acknowledged. Otherwise with 1; with 2 if the
    /// arguments are wrong, and with 3 if the run could not be conducted.
    Run(RunArguments),
    /// Checks a run again, by what it has left in its directory. The status is as after `run` without
    /// `--expect-violations`.
    Check {
        /// The directory.
        directory: PathBuf,
    },
    /// Checks several runs again, and prints them in the same tables, as Markdown. Ends with status 0 if all of them
    /// can be read, whatever was found in them.
    Summary {
        /// Also write the numbers to this file: `docs/faults/results.json` for published runs.
        #[arg(long, requires = "section", value_name = "FILE")]
        json: Option<PathBuf>,
        /// The section of the file to replace: `locks`, for example. Other sections stay.
        #[arg(long, requires = "json", value_name = "NAME")]
        section: Option<String>,
        /// Their directories.
        #[arg(required = true)]
        directories: Vec<PathBuf>,
    },
    /// One client of a run: reads what to do from standard input, and does it until that ends.
    Worker,
    /// Runs a program that dies with its parent.
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

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct RunArguments {
    /// For how many seconds nemeses strike; starting and finishing come on top.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=7 * 24 * 60 * 60))]
    seconds: u64,
    /// Which of them, by name, with commas between: one after the other, in an order that the seed decides; `all` but
    /// `clock-rate`, and now and then two at a time; or `none`. `mixed`: two at a time, of all of these, or of those
    /// that are named beside it, as in `kill-leader,cut-client,mixed`; one that fits no other strikes alone.
    /// `all,mixed` is `all`.
    #[arg(long, default_value = "all", value_delimiter = ',', value_name = "NAMES")]
    nemesis: Vec<Choice>,
    /// Which locks: `mutex`, `read-write`, `semaphore`, `multi`, `leader-latch`, `leader-selector`, with commas between, or `all`;
    /// or `none`, beside caches or counters.
    #[arg(long, default_value = "all", value_parser = all_or::<LockKind>, value_name = "LOCKS")]
    lock: Several<LockKind>,
    /// What stands between a client that has lost its lock and the data: `plain` (nothing), `guarded`, `transaction`, `token`, with
    /// commas between, or `all`.
    #[arg(long, default_value = "all", value_parser = all_or::<Variant>, value_name = "VARIANTS")]
    variant: Several<Variant>,
    /// Each client also keeps a cache of nodes that all clients write to; after each strike it is compared with the servers.
    #[arg(long)]
    cache: bool,
    /// Each client also increments counters that all clients share, of each kind; their sums are compared at the end.
    #[arg(long)]
    counter: bool,
    /// Each client also registers an instance of a service, and watches those of all clients.
    #[arg(long)]
    service: bool,
    /// Repeats the decisions of another run. By default a random one, which is printed.
    #[arg(long)]
    seed: Option<u64>,
    /// How many clients of ours.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    clients: u32,
    /// Other clients of ZooKeeper that do the same work beside ours, three of each, with a mutex each: `curator`, `kazoo`. Beside
    /// leaders, three more of `curator`, with a leader latch and a selector for each of Curator's session error policies. With
    /// `--cache`, also `curator-caches` and `kazoo-caches`: two of each, with caches of the same nodes. With `--counter`, also
    /// `curator-counters` and `kazoo-counters`: three of each, with a counter for each peer. With `--service`, also
    /// `curator-services`: three, each with an instance.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    peers: Vec<Peer>,
    /// Where the histories go: an empty or a new directory. By default a temporary one, which is kept unless the run was clean.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Expects the violations of `clock-rate`, and fails without them.
    ///
    /// They are of the kinds that can follow when a client relies on its session for too long: exclusivity, promise,
    /// token and fifo; and lost updates and changed reads of the variant `guarded`. What a transaction or a store that
    /// compares tokens must prevent still fails the run, as does all else that makes a run unclean.
    #[arg(long)]
    pub(crate) expect_violations: bool,
}

/// A list that is one argument.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Several<T>(Vec<T>);

/// Reads names with commas between, or `all`, or `none`.
fn all_or<T: ValueEnum>(text: &str) -> Result<Several<T>, String> {
    if text == "all" {
        return Ok(Several(T::value_variants().to_vec()));
    }
    if text == "none" {
        return Ok(Several(Vec::new()));
    }
    let read = |name: &str| {
        T::from_str(name, false).map_err(|_| {
            let known = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
            let known: Vec<_> = known.map(|value| value.get_name().to_owned()).collect();
            format!("there is no {name:?}; there are {}, all and none", known.join(", "))
        })
    };
    text.split(',').map(read).collect::<Result<_, _>>().map(Several)
}

/// The nemeses, with a line for each.
pub(crate) fn nemeses() -> String {
    let mut text = "Nemeses:\n".to_owned();
    for nemesis in Nemesis::value_variants() {
        text += &format!("  {:<18}{}\n", nemesis.to_string(), nemesis.description());
    }
    text
}

impl RunArguments {
    /// With a random seed, if none was given.
    pub(crate) fn options(&self, program: PathBuf) -> Options {
        Options {
            program,
            duration: Duration::from_secs(self.seconds),
            nemeses: self.nemesis.clone(),
            locks: self.lock.0.clone(),
            variants: self.variant.0.clone(),
            caches: self.cache,
            counters: self.counter,
            services: self.service,
            clients: self.clients,
            peers: self.peers.clone(),
            // Short enough to be typed again.
            seed: self.seed.unwrap_or_else(|| fastrand::u64(..1_000_000)),
            directory: self.directory.clone(),
        }
    }
}
