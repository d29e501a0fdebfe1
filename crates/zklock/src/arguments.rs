//! The command line.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::settings::Connection;
use crate::stopping::{OnLost, Stopping};

/// Runs commands under ZooKeeper locks, and shows who holds which.
#[derive(Debug, Parser)]
#[command(name = "zklock", version, after_help = include_str!("help/zklock.txt"))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) action: Action,
    #[command(flatten)]
    pub(crate) connection: Connection,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Run a command while a lock is held
    Run(Run),
    /// Show who holds a lock, and who waits for it
    Ls(List),
    /// Show all locks below a node
    Tree(Tree),
    /// Ask the holders of a lock to give it back
    #[command(after_help = include_str!("help/revoke.txt"))]
    Revoke {
        /// The path of the lock
        path: String,
    },
    /// Take a lock away from its holder, by deleting the holder's node; does not stop the holder
    Break(Break),
    /// Check the servers, the network, the permissions and this machine, and print what is wrong
    #[command(after_help = "Exit code: 0 if nothing is wrong, 1 otherwise.")]
    Doctor {
        /// The node below which the locks are; the doctor creates and deletes a node below it
        #[arg(long, value_name = "PATH", default_value = "/")]
        root: String,
    },
    /// Internal: the process by which `run` stops the command's process group
    #[command(hide = true)]
    Guard {
        group: i32,
        #[arg(value_parser = |json: &str| serde_json::from_str::<Stopping>(json))]
        stopping: Stopping,
    },
    /// Internal: the process that `run` starts for the command; it waits for a byte on the file descriptor `gate`
    #[command(hide = true)]
    Start {
        gate: u32,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/run.txt"))]
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
    /// Run the command whenever this process leads. After the end of the command or of the term, join the election
    /// again after a growing pause, until a signal ends zklock or the command cannot be run
    #[arg(long, group = "kind")]
    pub(crate) leader: bool,
    /// How long to wait for the lock; connecting may take up to 4s in any case [default: without a limit]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "leader")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait: exit with 121 if another client has the lock
    #[arg(long, conflicts_with_all = ["wait", "leader"])]
    pub(crate) no_wait: bool,
    /// Print nothing if the exit code is 121, because cron mails all output
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Hold the lock for at least this long, even if the command ends earlier
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "leader")]
    pub(crate) at_least: Option<Duration>,
    /// What to do with the command when the lock is lost
    #[arg(long, value_enum, default_value = "term", value_name = "ACTION")]
    pub(crate) on_lost: OnLost,
    /// The time between TERM and KILL, at most 0.3 of the session timeout [default: a sixth of it, at most 10s]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) grace: Option<Duration>,
    /// A text that `zklock ls` shows
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// The command and its arguments, after --
    #[arg(last = true, required = true, help_heading = "Arguments")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Exit code: 0 if there are contenders, 1 if there are none.")]
pub(crate) struct List {
    /// The path of the lock
    pub(crate) path: String,
    /// Print the contenders again after each change, other than of their age
    #[arg(long)]
    pub(crate) watch: bool,
    /// Print JSON, one line for each lock; with --watch, for each lock that has changed
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if there are locks, 1 if there are none, 123 if only unreadable nodes can have some."
)]
pub(crate) struct Tree {
    /// The node below which to search
    #[arg(default_value = "/")]
    pub(crate) root: String,
    /// Print JSON, one line for each lock
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/break.txt"))]
pub(crate) struct Break {
    /// The path of the lock
    pub(crate) path: String,
    /// The token of the holder, as `zklock ls` shows it
    #[arg(long, value_name = "TOKEN")]
    pub(crate) if_token: i64,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
}
