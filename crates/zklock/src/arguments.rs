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

/// Lines fit a terminal of 80 columns; clap wraps longer ones.
const EXIT_CODES: &str = "\
Exit codes: that of the command, or 128 + n if signal n ended it, or:
  121  the lock was not acquired in time; for revoke and break: it is free
  122  the lock was lost, or in doubt, while the command ran
  123  no connection, or the servers deny something, as by an ACL
  125  wrong options, or something on this machine failed
  126  the command cannot be executed
  127  there is no such command
With these, a line on standard error begins with `zklock:` or `error:`.

TIME is a number with a unit: 500ms, 30s, 2m, 1h.";

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
    /// Take a lock away from its holder, without stopping that: deletes its node
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
    /// Whether a lock that is not acquired in time is not reported.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(self, Self::Run(run) if run.quiet)
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct Run {
    /// The path of the lock. With several --lock, zklock joins all their queues in one step, and runs the command when it is first in
    /// all of them
    #[arg(long, required = true, value_name = "PATH")]
    pub(crate) lock: Vec<String>,
    /// Take the read lock of a read-write lock, together with other readers
    #[arg(long, group = "kind")]
    pub(crate) shared: bool,
    /// Take the write lock of a read-write lock: it excludes --shared and --exclusive users
    #[arg(long, group = "kind")]
    pub(crate) exclusive: bool,
    /// Take one of N leases of a semaphore; all users pass the same N
    #[arg(long, group = "kind", value_name = "N")]
    pub(crate) semaphore: Option<usize>,
    /// Run the command whenever this process leads, and again after each end, with growing pauses, until a signal ends zklock
    #[arg(long, group = "kind")]
    pub(crate) leader: bool,
    /// How long to wait for the lock [default: without a limit]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "leader")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait: exit with 121 if another client has the lock
    #[arg(long, conflicts_with_all = ["wait", "leader"])]
    pub(crate) no_wait: bool,
    /// Print nothing if the exit code is 121, as cron mails what is printed
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Hold the lock for at least this long, also if the command ends before
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "leader")]
    pub(crate) at_least: Option<Duration>,
    /// What to do with the command when the lock is lost
    #[arg(long, value_enum, default_value = "term", value_name = "ACTION")]
    pub(crate) on_lost: OnLost,
    /// The time between TERM and KILL, at most 0.3 of the session timeout [default: 10s, or that]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) grace: Option<Duration>,
    /// A text that `zklock ls` shows
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// The command and its arguments, after --
    #[arg(last = true, required = true, help_heading = "Arguments")]
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
#[command(after_help = REVOKE_HELP)]
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

const BREAK_HELP: &str = "\
The holder is not stopped: it may go on with its work until it notices, while
the next holder begins. Try `zklock revoke` first. If the lock has another
holder by now, or none, nothing is deleted, and the exit code is 121.";

const REVOKE_HELP: &str = "\
`zklock run` stops its command then, gives the lock back, and exits with 122.
Other programs give it back if they listen for that. The request replaces what
`zklock ls` shows of the holder. Exit code: 0 if there is a holder, else 121.";

const RUN_HELP: &str = "\
The command finds in its environment: ZKLOCK_PATH (several are separated by
colons), ZKLOCK_TOKEN (a number that rises from holder to holder: a store can
refuse older ones), ZKLOCK_VALID_UNTIL (seconds since 1970; zklock extends it
while it is connected).

All users of a path must use the same kind. A plain lock (without an option),
--shared with --exclusive, --semaphore and --leader do not exclude each other.

The command runs in a separate process group, and its standard input is empty
if it is a terminal. Before another client can get the lock, zklock stops all
processes of that group: when the session is in doubt, and when zklock is
killed. Processes that leave the group are not stopped:
  - those of `setsid`, and daemons
  - those of `timeout` inside a script; use `timeout --foreground`
  - those of another `zklock run`

Signals to zklock go to the command, and zklock waits until that ends. If a
machine dies, its lock is free after the session timeout.

Example, in a crontab on several machines:
  0 3 * * *  zklock run --lock /cron/x --no-wait --quiet --at-least 5m -- x

--at-least 5m keeps a machine whose clock is late from running it again.
Exit codes: see `zklock --help`.";
