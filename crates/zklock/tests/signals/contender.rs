//! One zklock of a round: its options, what it inherits, where it runs, and its command.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use fastrand::Rng;
use tokio::process::{Child, Command};

use crate::processes::NUMBER;
use crate::pseudo_terminal::PseudoTerminal;

/// The locks of a round are `/a` and `/b`.
pub(crate) const LOCKS: [&str; 2] = ["a", "b"];

/// The kind of the locks of a round. Only locks of one kind exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    ReadWrite,
    Semaphore,
    Leader,
}

/// Where a zklock runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Plain,
    /// On a terminal, as the leader of its session: after Ctrl-Z, no shell can continue it.
    SessionLeader,
    /// On a terminal, started by an interactive shell.
    Shell,
    /// As process 1 of a PID namespace.
    FirstProcess,
}

/// The words that start a program as process 1 of a PID namespace. Users other than root also need
/// `AS_ROOT`.
pub(crate) const NAMESPACE: [&str; 5] =
    ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
pub(crate) const AS_ROOT: [&str; 2] = ["--user", "--map-root-user"];

pub(crate) struct Contender {
    pub(crate) number: usize,
    pub(crate) place: Place,
    /// The signal that ends this zklock, which neither ignores nor blocks it.
    pub(crate) ending: &'static str,
    pub(crate) terminal: Option<PseudoTerminal>,
    /// Whether the command uses the terminal. The command may then have to wait until it is in the
    /// foreground, and until Ctrl-Q is typed.
    pub(crate) uses_terminal: bool,
    pub(crate) child: Child,
    output: PathBuf,
}

/// The settings with which a round starts contenders.
pub(crate) struct Stage<'a> {
    pub(crate) program: &'a str,
    pub(crate) folder: &'a Path,
    pub(crate) kind: Kind,
    /// The connect strings of the server and of a proxy.
    pub(crate) connect: [String; 2],
    /// Whether zklocks can be process 1.
    pub(crate) has_namespaces: bool,
    /// Whether all commands end by themselves.
    pub(crate) is_short: bool,
}

impl Stage<'_> {
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts a contender. Returns it with a description.
    pub(crate) fn start(&self, number: usize, rng: &mut Rng) -> (Contender, String) {
        let place = match rng.u8(0..8) {
            0 | 1 => Place::SessionLeader,
            2 | 3 => Place::Shell,
            4 if self.has_namespaces => Place::FirstProcess,
            _ => Place::Plain,
        };
        let (options, locks, mode) = self.options(rng);
        let (inherited, ending) = inherited(rng);
        let flavors: &[&str] = match place {
            Place::FirstProcess => &["orphans", "orphans", "alone", "family"],
            Place::SessionLeader | Place::Shell => &["terminal", "alone", "family", "quick"],
            Place::Plain => &["alone", "alone", "alone", "stubborn", "family", "quick"],
        };
        let flavor = flavors[rng.usize(..flavors.len())];
        // Some commands run longer than a session timeout. Commands that would run longer than the
        // round are used only where TERM ends them.
        let most = if !self.is_short && ending == "TERM" {
            4
        } else {
            3
        };
        let work = ["0.1", "0.7", "7", "1000"][rng.usize(..most)].to_owned();
        let mut words = inherited.clone();
        words.extend([self.program.to_owned(), "run".to_owned()]);
        words.extend(options.split(' ').map(str::to_owned));
        words.extend(["--", "bash"].map(str::to_owned));
        words.push(self.file("work.sh").to_string_lossy().into_owned());
        if place == Place::FirstProcess {
            words.splice(0..0, NAMESPACE.map(str::to_owned));
        }
        let mut line = format!("exec {}", words.join(" "));
        if rng.u8(0..4) == 0 {
            line += [" <&-", " >&-", " 2>&-", " <&- >&- 2>&-"][rng.usize(..4)];
        }
        let on_terminal = matches!(place, Place::SessionLeader | Place::Shell);
        if on_terminal && rng.bool() {
            line = format!("stty tostop; {line}");
        }
        let is_proxied = rng.bool();
        let mut command = Command::new("bash");
        let files: Vec<_> = locks
            .iter()
            .map(|lock| self.file(lock).to_string_lossy().into_owned())
            .collect();
        command
            .env(NUMBER, number.to_string())
            .env("SIGNALS_NOTES", self.file("notes"))
            .env("SIGNALS_FILES", files.join(" "))
            .envs([
                ("SIGNALS_MODE", mode),
                ("SIGNALS_FLAVOR", flavor),
                ("SIGNALS_WORK", &work),
            ])
            .env("ZOOKEEPER_CONNECT", &self.connect[usize::from(is_proxied)])
            .env("ZKLOCK_CONFIG", "");
        let description =
            format!("{number}: {place:?}, proxied: {is_proxied}, {flavor} {work}: {line}");
        let output = self.file(&format!("{number}.output"));
        let (child, terminal) = match place {
            Place::Plain | Place::FirstProcess => {
                let stream = |file: File| Stdio::from(file);
                let open = || {
                    OpenOptions::new()
                        .create(true)
                        .append(true)
                        .open(&output)
                        .unwrap()
                };
                command
                    .args(["-c", &line])
                    .stdin(Stdio::null())
                    .stdout(stream(open()))
                    .stderr(stream(open()));
                (
                    command.process_group(0).kill_on_drop(true).spawn().unwrap(),
                    None,
                )
            }
            Place::SessionLeader => {
                let terminal = PseudoTerminal::new();
                (terminal.spawn(command.args(["-c", &line])), Some(terminal))
            }
            Place::Shell => {
                let terminal = PseudoTerminal::new();
                let child = terminal.spawn(command.args(["--norc", "--noprofile", "-i"]));
                terminal.type_text(&format!("{}\n", line.replace("exec ", "")));
                (child, Some(terminal))
            }
        };
        let uses_terminal = flavor == "terminal";
        (
            Contender {
                number,
                place,
                ending,
                terminal,
                uses_terminal,
                child,
                output,
            },
            description,
        )
    }

    /// The options, the locks, and the mode of `flock` that has the same meaning.
    fn options(&self, rng: &mut Rng) -> (String, &'static [&'static str], &'static str) {
        let one: &[&str] = [&["a"], &["b"]][rng.usize(..2)];
        let (locks, mode, kind) = match self.kind {
            Kind::Mutex if rng.u8(0..4) == 0 => (LOCKS.as_slice(), "--exclusive", ""),
            Kind::Mutex => (one, "--exclusive", ""),
            Kind::ReadWrite if rng.bool() => (one, "--shared", " --shared"),
            Kind::ReadWrite => (one, "--exclusive", " --exclusive"),
            Kind::Semaphore => (one, "--exclusive", " --semaphore 1"),
            Kind::Leader => (one, "--exclusive", " --leader"),
        };
        let paths: Vec<_> = locks.iter().map(|lock| format!("--lock /{lock}")).collect();
        let mut options = format!(
            "{}{kind} --session-timeout {}ms",
            paths.join(" "),
            crate::round::SESSION.as_millis()
        );
        if rng.u8(0..3) == 0 {
            options += " --on-lost kill";
        }
        if self.kind != Kind::Leader {
            options += [
                "",
                "",
                "",
                "",
                "",
                " --at-least 1s",
                " --wait 3s",
                " --no-wait",
            ][rng.usize(..8)];
        }
        (options, locks, mode)
    }
}

/// `env` with random ignored and blocked signals, and the signal that still ends zklock.
fn inherited(rng: &mut Rng) -> (Vec<String>, &'static str) {
    // Without this, zklock inherits what the test ignores, such as HUP under `nohup`.
    let mut words = vec!["env".to_owned(), "--default-signal".to_owned()];
    let mut endings = vec!["TERM", "INT", "HUP"];
    for signal in [
        "CHLD", "TERM", "INT", "HUP", "PIPE", "TSTP", "TTOU", "TTIN", "CONT",
    ] {
        // CHLD is selected more often, because every wait for a child depends on it.
        let most = if signal == "CHLD" { 4 } else { 10 };
        let how = match rng.u8(0..most) {
            0 => "--ignore-signal",
            1 => "--block-signal",
            _ => continue,
        };
        if endings == [signal] {
            continue;
        }
        endings.retain(|ending| *ending != signal);
        words.push(format!("{how}={signal}"));
    }
    (words, endings[0])
}

impl Contender {
    /// What zklock has printed.
    pub(crate) fn printed(&self) -> String {
        self.terminal.as_ref().map_or_else(
            || std::fs::read_to_string(&self.output).unwrap_or_default(),
            PseudoTerminal::shown,
        )
    }

    /// Types what a user types to continue a stopped job.
    pub(crate) fn type_to_continue(&self) {
        self.type_text(if self.place == Place::Shell {
            "\x11fg\n"
        } else {
            "\x11"
        });
    }

    pub(crate) fn type_text(&self, text: &str) {
        if let Some(terminal) = &self.terminal {
            terminal.type_text(text);
        }
    }
}
