//! The command line.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::command::Start;
use crate::guardian::Orders;
use crate::settings::Connection;
use crate::stopping::OnLost;

/// Runs commands under ZooKeeper locks, and shows who holds which.
#[derive(Debug, Parser)]
#[command(name = "zklock", version, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) action: Action,
}

const EXIT_CODES: &str = "Exit codes: that of the command, or 128 + n if signal n ended it;
  121 the lock was not acquired in time    125 wrong options, or zklock itself failed
  122 the lock was lost                    126 the command cannot be executed
  123 no connection, or refused            127 there is no such command
A command should not use these itself. `revoke` and `break` exit with 121 if the lock is free.

TIME is a number with a unit, as 500ms, 30s, 2m or 1h.";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Run a command while a lock is held
    Run(Run),
    /// Show who holds a lock, and who waits for it
    Ls(List),
    /// Show all locks below a node
    Tree(Tree),
    /// Ask the holders of a lock to give it back
    Revoke(Revoke),
    /// Delete the node of a holder
    Break(Break),
    /// Look at the servers, the network, the permissions and this machine, and say what is wrong
    Doctor(Doctor),
    /// Started by `run`
    #[command(hide = true)]
    Guard(Orders),
    /// Started by `run`
    #[command(hide = true)]
    Start(Start),
}

impl Action {
    /// Whether a lock that is not acquired in time is no news.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(self, Self::Run(run) if run.quiet)
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct Run {
    /// The path of the lock; with several --lock, all are locked at once or none
    #[arg(long, required = true, value_name = "PATH")]
    pub(crate) lock: Vec<String>,
    /// Take the read lock of a read-write lock, together with other readers
    #[arg(long, group = "kind")]
    pub(crate) shared: bool,
    /// Take the write lock of a read-write lock, on a path with --shared holders
    #[arg(long, group = "kind")]
    pub(crate) exclusive: bool,
    /// Take one of N leases of a semaphore
    #[arg(long, group = "kind", value_name = "N")]
    pub(crate) semaphore: Option<usize>,
    /// Run the command whenever this process leads, and again after each end, with growing pauses, until a signal ends zklock
    #[arg(long, group = "kind")]
    pub(crate) leader: bool,
    /// How long to wait for the lock [default: without a limit]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "leader")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait
    #[arg(long, conflicts_with_all = ["wait", "leader"])]
    pub(crate) no_wait: bool,
    /// Print nothing if the lock is not acquired in time, as cron mails what is printed
    #[arg(long)]
    pub(crate) quiet: bool,
    /// What to do with the command when the lock is lost
    #[arg(long, value_enum, default_value = "term")]
    pub(crate) on_lost: OnLost,
    /// The time between TERM and KILL, at most 0.3 of the session timeout [default: 10s, or 0.3 of it]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) grace: Option<Duration>,
    /// A text that `zklock ls` shows
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// The command and its arguments, after --
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0 if there are contenders, 1 if there are none.")]
pub(crate) struct List {
    /// The path of the lock
    pub(crate) path: String,
    /// Print it again after each change
    #[arg(long)]
    pub(crate) watch: bool,
    /// Print JSON, one line for each state
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0 if there are locks, 1 if there are none.")]
pub(crate) struct Tree {
    /// Where to look
    #[arg(default_value = "/")]
    pub(crate) root: String,
    /// Print JSON, one line for each lock
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Revoke {
    /// The path of the lock
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, clap::Args)]
#[command(after_help = BREAK_HELP)]
pub(crate) struct Break {
    /// The path of the lock
    pub(crate) path: String,
    /// The token of the holder, as `zklock ls` shows it
    #[arg(long, value_name = "TOKEN")]
    pub(crate) if_token: i64,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0 if nothing is wrong, 1 otherwise.")]
pub(crate) struct Doctor {
    /// Where locks are: a node below it is created and deleted
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub(crate) root: String,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

const BREAK_HELP: &str =
    "The holder is not stopped: it may go on with its work until it notices. If it has another token by now, nothing is
deleted, and the exit code is 121.";

const RUN_HELP: &str = "The command finds ZKLOCK_PATH, ZKLOCK_TOKEN (a number that grows from holder to holder, one for all --lock: a store can refuse
older ones) and ZKLOCK_VALID_UNTIL (seconds since 1970; it moves on while all is well).

All users of a path must use the same kind: a plain lock, --shared and --exclusive, --semaphore and --leader do not exclude each other.

It runs in its own process group, and cannot read from the terminal. When the session is in doubt, all processes of that group are
stopped before another client can get the lock; also if zklock is killed. Processes that leave the group are not: those of `setsid`, of
daemons, of a `timeout` inside a script (use `timeout --foreground`), of another `zklock run`.

Example, in a crontab on several machines:
  0 3 * * *  zklock run --lock /cron/backup --no-wait --quiet -- /usr/local/bin/backup

Exit codes: see `zklock --help`.";
