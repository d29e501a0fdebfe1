//! The command line, and what is made from its declarations: the completions of shells and the
//! manual page.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::{Command, CommandFactory as _, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::failure::Failure;
use crate::guardian::Duty;
use crate::print::print;
use crate::settings::Connection;
use crate::stopping::OnLost;
use crate::time::parse_time;

/// Runs commands under ZooKeeper locks, and shows who holds which.
#[derive(Debug, Parser)]
#[command(name = "zklock", version, after_help = include_str!("help/zklock.txt"))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) action: Action,
    /// Print each step on standard error, and the time of each message
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
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
    #[command(
        after_help = "Exit code: 0 if nothing is wrong, 1 otherwise. With --certify: 0 if there is no fault, 1 if there is one or if nodes remain, 123 if there is no connection or the servers refuse to create the first node, 125 if an option is invalid."
    )]
    Doctor {
        /// The node below which the locks are; the doctor creates and deletes a node below it
        #[arg(long, value_name = "PATH", default_value = "/")]
        root: String,
        /// Run each operation and each recipe of the library instead, below a node that is removed
        /// at the end, and print which of them may be used on these servers; takes up to 30s
        #[arg(long)]
        certify: bool,
    },
    /// Print the completions for a shell, to be installed or sourced
    Completions {
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the manual page, in the format of man(7)
    Man,
}

/// The command lines of zklock's child processes. They are not in [`Action`], so that no help,
/// completion or suggestion shows them.
#[derive(Debug, Parser)]
#[command(name = "zklock")]
pub(crate) enum Internal {
    /// The process that stops the command's process group
    Guard {
        #[arg(value_parser = |json: &str| serde_json::from_str::<Duty>(json))]
        duty: Duty,
    },
    /// The program that ends `run` by a signal
    End { signal: i32 },
    /// The process that `run` starts for the command; it waits for a byte on the file descriptor
    /// `gate`
    Start {
        gate: u32,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

impl Internal {
    /// Whether a command line with this subcommand is internal.
    pub(crate) fn has(subcommand: &OsStr) -> bool {
        ["guard", "start", "end"]
            .iter()
            .any(|internal| subcommand == *internal)
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/run.txt"))]
pub(crate) struct Run {
    /// The path of the lock. With several --lock, zklock joins all their queues in one step, and
    /// runs the command when it is first in all of them
    #[arg(short, long, required = true, value_name = "PATH")]
    pub(crate) lock: Vec<String>,
    /// Take the read lock of a read-write lock, together with other readers
    #[arg(short, long, group = "kind")]
    pub(crate) shared: bool,
    /// Take the write lock of a read-write lock: it excludes --shared and --exclusive users
    #[arg(short = 'x', long, group = "kind")]
    pub(crate) exclusive: bool,
    /// Take one of N leases of a semaphore; all users pass the same N
    #[arg(long, group = "kind", value_name = "N")]
    pub(crate) semaphore: Option<usize>,
    /// Run the command whenever this process leads. After the end of the command or of the term,
    /// join the election again after a growing pause, until a signal ends zklock or the command
    /// cannot be run
    #[arg(long, group = "kind")]
    pub(crate) leader: bool,
    /// How long to wait for the lock; connecting may take up to 4s in any case [default: without a
    /// limit]
    #[arg(short, long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true, conflicts_with = "leader")]
    pub(crate) wait: Option<Duration>,
    /// Do not wait: exit with 121 if another client has the lock; connecting may take up to 4s
    #[arg(short, long, conflicts_with_all = ["wait", "leader"])]
    pub(crate) no_wait: bool,
    /// Print no warnings before the lock is held, and nothing if the exit code is 121, because cron
    /// mails all output
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Hold the lock for at least this long, even if the command ends earlier, unless a signal ends
    /// it
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true, conflicts_with = "leader")]
    pub(crate) at_least: Option<Duration>,
    /// What to do with the command when the lock is lost
    #[arg(long, value_enum, default_value = "term", value_name = "ACTION")]
    pub(crate) on_lost: OnLost,
    /// The time between TERM and KILL, at most 0.3 of the session timeout [default: a sixth of it,
    /// at most 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_time, allow_hyphen_values = true)]
    pub(crate) grace: Option<Duration>,
    /// A text that `zklock ls` shows
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    /// The command and its arguments. Options after the first word belong to the command. If the
    /// first word begins with -, write -- before it
    #[arg(trailing_var_arg = true, required = true, help_heading = "Arguments", value_hint = ValueHint::CommandWithArguments)]
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

/// Prints the script that completes zklock's command lines in a shell.
pub(crate) fn completions(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "zklock", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

/// Prints the manual page.
pub(crate) fn man() -> Result<u8, Failure> {
    let page =
        page().map_err(|error| Failure::here(format!("cannot write the manual page: {error}")))?;
    print(&page)?;
    Ok(0)
}

/// Renders one page for zklock and all its subcommands, so that a package installs a single file.
fn page() -> std::io::Result<String> {
    let command = Arguments::command();
    let man = Man::new(command.clone()).manual("zklock");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    page += &text_section("EXIT STATUS AND TIMES", &command);
    for subcommand in command.get_subcommands() {
        page += &section(subcommand)?;
    }
    Ok(page)
}

/// Renders the section of a subcommand.
fn section(subcommand: &Command) -> std::io::Result<String> {
    let name = format!("zklock {}", subcommand.get_name());
    let man = Man::new(subcommand.clone().bin_name(&name));
    let mut sections = Vec::new();
    man.render_synopsis_section(&mut sections)?;
    man.render_description_section(&mut sections)?;
    man.render_options_section(&mut sections)?;
    let sections = String::from_utf8_lossy(&sections).replace(".SH ", ".SS ")
        + &text_section("NOTES", subcommand).replace(".SH ", ".SS ");
    Ok(format!(".SH \"{}\"\n{sections}", name.to_uppercase()))
}

/// Renders the text after the help with its line breaks (`.nf`).
fn text_section(heading: &str, command: &Command) -> String {
    let Some(text) = command.get_after_help() else {
        return String::new();
    };
    let lines: String = text
        .to_string()
        .lines()
        .map(|line| {
            let line = line.replace('\\', "\\e").replace('-', "\\-");
            // roff would read a line that begins with one of these as a request.
            if line.starts_with(['.', '\'']) {
                format!("\\&{line}\n")
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    format!(".SH \"{heading}\"\n.nf\n{lines}.fi\n")
}
