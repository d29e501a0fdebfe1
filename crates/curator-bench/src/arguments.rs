//! The command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use curator_test::ServerKind;

use crate::case;
use crate::environment::EnvironmentKind;
use crate::peer::Peer;
use crate::run::Options;
use crate::worker::Client;

/// Measures the locks and caches of several ZooKeeper clients, which take turns on the same
/// servers.
#[derive(Debug, Parser)]
#[command(
    name = "curator-bench",
    version,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) program: Option<Program>,
    #[command(flatten)]
    pub(crate) run: RunArguments,
}

/// The subcommands that the bench uses to start this program again.
#[derive(Debug, Subcommand)]
pub(crate) enum Program {
    /// Runs the cases that the bench requests on standard input.
    #[command(hide = true)]
    Worker {
        client: Client,
        connect: String,
        /// In milliseconds.
        session_timeout: u64,
    },
    /// Runs a program that is killed when the process `parent` ends.
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
    /// The clients to compare with, separated by commas; this project's client is always measured.
    /// `curator`: Apache Curator, in Java. `curator-shared`: Curator, where all threads of a crowd
    /// share one lock object. `kazoo`: in Python. `go`: go-zookeeper. `zookeeper-client`: the
    /// crate, which is the transport of this project's client.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAMES",
        default_value = "curator,curator-shared,kazoo,go,zookeeper-client"
    )]
    peers: Vec<Peer>,
    /// Also measure through a proxy that delays every frame by this many milliseconds, in each
    /// direction.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=1000))]
    delay_ms: Option<u64>,
    /// Also measure on an ensemble of this many servers, with fsync.
    #[arg(long, value_name = "SERVERS", value_parser = clap::value_parser!(u8).range(1..=9))]
    ensemble: Option<u8>,
    /// Do not measure on the single server without a delay.
    #[arg(long)]
    no_loopback: bool,
    /// The cases, by their names or by prefixes of names; cases that are named run on all servers.
    /// By default, the first of the measured servers runs all cases, and the others fewer. Their
    /// order: the single server without a delay, the single server with a delay, the ensemble.
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    cases: Vec<String>,
    /// The number of rounds: in each, every client runs the case once.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// How long a client runs a case in one round, if the case does not end by itself.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    seconds: f64,
    /// How long a client may take in one round. A client that takes longer is stopped, and has a
    /// note in the table.
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// A smoke run: small numbers of participants, one short round.
    #[arg(long)]
    quick: bool,
    /// The kind of the single server: `real` or `embedded`; an ensemble is always real.
    #[arg(long, default_value = "real", value_name = "KIND", value_parser = kind)]
    server: ServerKind,
    /// The directory for the data of the ensemble's servers. By default the directory of this
    /// program.
    #[arg(long, value_name = "DIRECTORY")]
    disk: Option<PathBuf>,
    /// Print the cases, and measure nothing.
    #[arg(long)]
    pub(crate) list: bool,
    /// Print and draw the results that an earlier run has written with `--json`, and measure
    /// nothing.
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Write all measurements to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the tables to this file, as Markdown.
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Draw plots into this directory.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) svg: Option<PathBuf>,
}

/// The length of a client's run in a smoke run.
const QUICK: Duration = Duration::from_millis(300);

fn kind(text: &str) -> Result<ServerKind, String> {
    const KINDS: [ServerKind; 2] = [ServerKind::Embedded, ServerKind::Real];
    KINDS
        .into_iter()
        .find(|kind| kind.name() == text)
        .ok_or_else(|| format!("give one of {}", KINDS.map(ServerKind::name).join(", ")))
}

/// The directory that contains the program. Unlike the temporary directory, it is rarely on a RAM
/// disk.
fn directory_of(program: &Path) -> PathBuf {
    program
        .parent()
        .map_or_else(std::env::temp_dir, Path::to_owned)
}

impl RunArguments {
    /// Validates the arguments. The error is a message for the user.
    pub(crate) fn options(&self, program: PathBuf) -> Result<Options, String> {
        let time = Duration::try_from_secs_f64(self.seconds)
            .ok()
            .filter(|time| !time.is_zero())
            .ok_or_else(|| format!("--seconds is {}: give a positive number", self.seconds))?;
        let mut environments = Vec::new();
        environments.extend((!self.no_loopback).then_some(EnvironmentKind::Loopback));
        environments.extend(
            self.delay_ms
                .map(|delay| EnvironmentKind::Delayed(Duration::from_millis(delay))),
        );
        environments.extend(
            self.ensemble
                .map(|members| EnvironmentKind::Ensemble(members.into())),
        );
        if environments.is_empty() && !self.list {
            return Err(
                "--no-loopback leaves no servers: give --delay-ms or --ensemble".to_owned(),
            );
        }
        let cases = case::selected(&self.cases, self.quick).map_err(|unknown| {
            format!("--cases: no case begins with \"{unknown}\"; `--list` prints them")
        })?;
        let mut peers = vec![Peer::Ours];
        peers.extend(
            Peer::ALL
                .into_iter()
                .filter(|peer| self.peers.contains(peer)),
        );
        Ok(Options {
            peers,
            cases,
            environments,
            kind: self.server,
            disk: self.disk.clone().unwrap_or_else(|| directory_of(&program)),
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
        Arguments::try_parse_from(arguments)
            .map_err(|error| error.to_string())?
            .run
            .options("program".into())
    }

    #[test]
    fn our_client_comes_first_whichever_peers_are_chosen() {
        let line = [
            "--peers",
            "zookeeper-client,kazoo",
            "--delay-ms",
            "5",
            "--ensemble",
            "3",
            "--no-loopback",
        ];
        let options = options(&line).unwrap();
        assert_eq!(
            options.peers,
            [Peer::Ours, Peer::Kazoo, Peer::ZookeeperClient]
        );
        assert_eq!(
            options.environments,
            [
                EnvironmentKind::Delayed(Duration::from_millis(5)),
                EnvironmentKind::Ensemble(3)
            ]
        );
    }

    #[test]
    fn invalid_options_are_refused_with_a_reason() {
        for (line, reason) in [
            (&["--peers", "etcd"][..], "zookeeper-client"),
            (&["--cases", "wheel"], "no case begins with \"wheel\""),
            (&["--seconds", "0"], "positive"),
            (&["--no-loopback"], "leaves no servers"),
            (&["--server", "fast"], "embedded"),
        ] {
            let error = options(line).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
