//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use curator_test::ServerKind;

use crate::case;
use crate::peer::Peer;
use crate::place::Wanted;
use crate::run::Options;
use crate::worker::Client;

/// Measures the locks and caches of several clients of ZooKeeper on the same servers, in turns.
#[derive(Debug, Parser)]
#[command(name = "curator-bench", version, args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) program: Option<Program>,
    #[command(flatten)]
    pub(crate) run: RunArguments,
}

/// What this program is started as by itself.
#[derive(Debug, Subcommand)]
pub(crate) enum Program {
    /// Plays cases for a bench, which says by standard input which.
    #[command(hide = true)]
    Worker {
        client: Client,
        connect: String,
        /// In milliseconds.
        session_timeout: u64,
    },
    /// Runs a program that dies with its parent.
    #[command(hide = true)]
    Tied {
        parent: u32,
        program: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// What to measure.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// The clients to compare with, separated by commas. Ours is always measured.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAMES",
        default_value = "curator,curator-shared,kazoo,go,zookeeper-client"
    )]
    peers: Vec<Peer>,
    /// Also measure through a proxy that delays every frame by this many milliseconds, in each direction.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=1000))]
    delay_ms: Option<u64>,
    /// Also measure on an ensemble of this many servers, with fsync.
    #[arg(long, value_name = "SERVERS", value_parser = clap::value_parser!(u8).range(1..=9))]
    ensemble: Option<u8>,
    /// Do not measure on the single server without a delay.
    #[arg(long)]
    no_loopback: bool,
    /// Which cases, by name, or by the beginning of several names. By default all on the first kind of server, and fewer on
    /// the others.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    cases: Vec<String>,
    /// How often each peer has its turn in each case.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How long a turn lasts, in cases that last for a time.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    seconds: f64,
    /// How long a turn may take. A client that takes longer is stopped, and the table says so.
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// A smoke run: small numbers, one short round.
    #[arg(long)]
    quick: bool,
    /// The kind of the single server: `real` or `embedded`; an ensemble is always real.
    #[arg(long, default_value = "real", value_name = "KIND", value_parser = kind)]
    server: ServerKind,
    /// Where the servers of the ensemble have their data. By default beside this program.
    #[arg(long, value_name = "DIRECTORY")]
    disk: Option<PathBuf>,
    /// Print the cases, and measure nothing.
    #[arg(long)]
    pub(crate) list: bool,
    /// Print and draw what an earlier run has written with `--json`, and measure nothing.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Write everything that was measured to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the tables to this file, as Markdown.
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Draw plots into this directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) svg: Option<PathBuf>,
}

/// The length of a turn in a smoke run.
const QUICK: Duration = Duration::from_millis(300);

fn kind(text: &str) -> Result<ServerKind, String> {
    let known = ServerKind::ALL.into_iter().find(|kind| kind.name() == text);
    known.ok_or_else(|| format!("give one of {}", ServerKind::ALL.map(ServerKind::name).join(", ")))
}

/// A directory beside the program, which is seldom in memory, unlike that for temporary files.
fn beside(program: &Path) -> PathBuf {
    program.parent().map_or_else(std::env::temp_dir, Path::to_owned)
}

impl RunArguments {
    /// Validates the arguments. The error is a message for the user.
    pub(crate) fn options(&self, program: PathBuf) -> Result<Options, String> {
        let time = Duration::try_from_secs_f64(self.seconds).ok().filter(|time| !time.is_zero());
        let time = time.ok_or_else(|| format!("--seconds is {}: give a positive number", self.seconds))?;
        let mut places = Vec::new();
        places.extend((!self.no_loopback).then_some(Wanted::Loopback));
        places.extend(self.delay_ms.map(|delay| Wanted::Delayed(Duration::from_millis(delay))));
        places.extend(self.ensemble.map(|members| Wanted::Ensemble(members.into())));
        if places.is_empty() && !self.list {
            return Err("--no-loopback leaves nothing: give --delay-ms or --ensemble".to_owned());
        }
        let cases = case::chosen(&self.cases, self.quick)
            .map_err(|unknown| format!("--cases: no case begins with \"{unknown}\"; `--list` prints them"))?;
        let mut peers = vec![Peer::Ours];
        peers.extend(Peer::ALL.into_iter().filter(|peer| self.peers.contains(peer)));
        Ok(Options {
            peers,
            cases,
            places,
            kind: self.server,
            disk: self.disk.clone().unwrap_or_else(|| beside(&program)),
            is_selection: !self.cases.is_empty(),
            rounds: if self.quick { 1 } else { self.rounds },
            time: if self.quick { time.min(QUICK) } else { time },
            limit: Duration::from_secs(self.limit),
            program,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> Result<Options, String> {
        let arguments = ["curator-bench"].iter().chain(arguments);
        let arguments = Arguments::try_parse_from(arguments).map_err(|error| error.to_string())?;
        arguments.run.options("program".into())
    }

    #[test]
    fn our_client_comes_first_whichever_peers_are_chosen() {
        let line = ["--peers", "zookeeper-client,kazoo", "--delay-ms", "5", "--ensemble", "3", "--no-loopback"];
        let options = options(&line).unwrap();
        assert_eq!(options.peers, [Peer::Ours, Peer::Kazoo, Peer::ZookeeperClient]);
        assert_eq!(options.places, [Wanted::Delayed(Duration::from_millis(5)), Wanted::Ensemble(3)]);
    }

    #[test]
    fn invalid_options_are_refused_with_a_reason() {
        for (line, reason) in [
            (&["--peers", "etcd"][..], "zookeeper-client"),
            (&["--cases", "wheel"], "no case begins with \"wheel\""),
            (&["--seconds", "0"], "positive"),
            (&["--no-loopback"], "leaves nothing"),
            (&["--server", "fast"], "embedded"),
        ] {
            let error = options(line).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
