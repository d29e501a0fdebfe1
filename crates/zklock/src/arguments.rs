//! The command line.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Parser, Subcommand};

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
  123 no connection, or refused            127 there is no such command";

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Run a command while a lock is held
    Run(Run),
    /// Started by `run`
    #[command(hide = true)]
    Guard(Orders),
}

#[derive(Debug, clap::Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct Run {
    /// The path of the lock; several are locked at once or not at all
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
    /// Run the command whenever this process leads, and again after each end, with growing pauses
    #[arg(long, group = "kind")]
    pub(crate) leader: bool,
    /// How long to wait for the lock [default: without a limit]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "leader")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait
    #[arg(long, conflicts_with_all = ["wait", "leader"])]
    pub(crate) no_wait: bool,
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

const RUN_HELP: &str = "The command finds ZKLOCK_PATH, ZKLOCK_TOKEN (a number that grows from holder to holder: a store can refuse
older ones) and ZKLOCK_VALID_UNTIL (seconds since 1970; it moves on while all is well).

It runs in its own process group, and cannot read from the terminal. When the session is in doubt, all processes of that group are
stopped before another client can get the lock; also if zklock is killed. Processes that leave the group (setsid, daemons) are not.

Example, in a crontab on several machines:
  0 3 * * *  zklock run --lock /cron/backup --no-wait -- /usr/local/bin/backup

Exit codes: see `zklock --help`.";
