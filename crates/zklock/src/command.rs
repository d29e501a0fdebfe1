//! The command that runs under the lock, in a separate process group.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{self, ExitStatus, Stdio};
use std::time::Duration;

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::pipe::pipe;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};
use tokio::process::{Child, Command};

use crate::failure::{Code, Failure};
use crate::print::print_message;
use crate::signals::DEADLY;

/// A process that will execute a command. It waits for a byte on a pipe, the gate, until the guardian has started.
pub(crate) struct Prepared {
    child: Child,
    /// The write end of the pipe. If it is closed without a byte, because zklock was killed, the process exits.
    gate: OwnedFd,
    pub(crate) group: Pid,
    name: String,
}

/// In the process of a command: waits for the byte, then executes the command.
pub(crate) fn execute(gate: u32, command: &[OsString]) -> Failure {
    let opened = File::open(format!("/dev/fd/{gate}")).and_then(|mut gate| gate.read_exact(&mut [0]));
    if let Err(error) = opened {
        return Failure::here(format!("the command is not started: {error}"));
    }
    let [program, arguments @ ..] = command else { return Failure::here("no command") };
    let error = process::Command::new(program).args(arguments).exec();
    let code = if error.kind() == io::ErrorKind::NotFound { Code::NotFound } else { Code::NotExecutable };
    Failure::new(code, format!("cannot run {}: {error}", program.to_string_lossy()))
}

impl Prepared {
    /// Starts the process: another instance of zklock, which later executes the command. It inherits the streams and
    /// the environment, with `variables` added.
    pub(crate) fn start(words: &[OsString], variables: [(&str, String); 3]) -> Result<Self, Failure> {
        let name = words.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
        let failed = |error: io::Error| Failure::here(format!("cannot start a process for {name}: {error}"));
        // The process inherits the read end.
        let (read_end, gate) = pipe().map_err(|error| failed(error.into()))?;
        fcntl_setfd(&gate, FdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let mut command = Command::new(this_program().map_err(failed)?);
        command.arg("start").arg(read_end.as_raw_fd().to_string()).arg("--").args(words);
        if io::stdin().is_terminal() {
            // Reading from the terminal would stop a process of a background group.
            command.stdin(Stdio::null());
        }
        // If the guardian cannot be started, `Prepared` is dropped, and the process is killed.
        command.arg0("zklock").process_group(0).envs(variables).kill_on_drop(true);
        let child = command.spawn().map_err(failed)?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = id.ok_or_else(|| Failure::here(format!("{name} has no process id")))?;
        Ok(Self { child, gate, group, name })
    }

    /// Sends the byte, which starts the command. Waits until all processes in its group have ended: any of them may
    /// still work under the lock.
    pub(crate) async fn run(mut self) -> Result<ExitStatus, Failure> {
        // If the process was killed, the write fails, and waiting for the process reports that next.
        let _ = rustix::io::write(self.gate, b"!");
        let status = self.child.wait().await;
        let status = status.map_err(|error| Failure::here(format!("cannot wait for {}: {error}", self.name)))?;
        if has_living(self.group) {
            print_message(format_args!("{} has ended; waiting for processes that it has started", self.name));
        }
        while has_living(self.group) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(status)
    }
}

/// The path of this program, even if its file has been replaced.
pub(crate) fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Whether a process of the group runs. Zombies do not count where `/proc` exists; elsewhere they do.
fn has_living(group: Pid) -> bool {
    // As the first process of a container, zklock inherits orphaned processes and has to reap them.
    while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
    // Processes of another user count as running.
    if test_kill_process_group(group) == Err(Errno::SRCH) {
        return false;
    }
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = processes.filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok());
    let mut states = stats.filter_map(|stat| state_in(&stat, group)).peekable();
    states.peek().is_none() || states.any(|state| !matches!(state, 'Z' | 'X'))
}

/// The state of a process, from its `stat` line in `/proc`, if it belongs to the group.
fn state_in(stat: &str, group: Pid) -> Option<char> {
    // The program's name, in parentheses, may contain parentheses and blanks.
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace();
    let (state, _parent, of) = (fields.next()?, fields.next()?, fields.next()?);
    state.chars().next().filter(|_| of.parse() == Ok(group.as_raw_nonzero().get()))
}

/// Sends a signal to a process group: the command, and the processes that it has started and that have not left the
/// group. All of them may have ended; then nothing happens.
pub(crate) fn signal_group(group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
    if DEADLY.contains(&signal) {
        // A stopped process, for example after a read from the terminal, handles the signal only when it continues.
        let _ = kill_process_group(group, Signal::CONT);
    }
}

/// The exit code that a shell reports for this status.
pub(crate) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
