//! The command that runs under the lock, in a process group of its own.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};
use tokio::process::{Child, Command};

use crate::failure::{Code, Failure};

/// A command that was started.
pub(crate) struct Running {
    child: Child,
    pub(crate) group: Pid,
    name: String,
    /// How it has ended.
    status: Option<ExitStatus>,
}

impl Running {
    /// Starts a command. It inherits the streams and the environment, which gets `variables` too.
    pub(crate) fn start(words: &[OsString], variables: &[(&str, String)]) -> Result<Self, Failure> {
        let [program, arguments @ ..] = words else { return Err(Failure::here("no command: write it after --")) };
        let name = program.to_string_lossy().into_owned();
        let mut command = Command::new(program);
        command.args(arguments).process_group(0).envs(variables.iter().map(|(name, value)| (name, value)));
        let child = command.spawn().map_err(|error| {
            let code = if error.kind() == io::ErrorKind::NotFound { Code::NotFound } else { Code::NotExecutable };
            Failure::new(code, format!("cannot run {name}: {error}"))
        })?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let group = id.ok_or_else(|| Failure::here(format!("{name} has no process id")))?;
        Ok(Self { child, group, name, status: None })
    }

    /// Sends a signal to the command, and to all processes that it has started and that have not left its group.
    pub(crate) fn signal(&self, signal: Signal) {
        signal_group(self.group, signal);
    }

    /// Waits until the command and the processes that it has left in its group have ended: they still work under the lock.
    pub(crate) async fn gone(&mut self) -> Result<ExitStatus, Failure> {
        let status = match self.status {
            Some(status) => status,
            None => {
                let ended = self.child.wait().await;
                let status = ended.map_err(|error| Failure::here(format!("cannot wait for {}: {error}", self.name)))?;
                if is_there(self.group) {
                    eprintln!("zklock: {} has ended; waiting for processes that it has started", self.name);
                }
                *self.status.insert(status)
            }
        };
        while is_there(self.group) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(status)
    }
}

/// Whether a process of the group runs.
fn is_there(group: Pid) -> bool {
    // As the first process of a container, zklock is the parent of those that have lost theirs.
    while let Ok(Some(_)) = waitpgid(group, WaitOptions::NOHANG) {}
    // Others of another user count.
    test_kill_process_group(group) != Err(Errno::SRCH)
}

/// It may have ended.
pub(crate) fn signal_group(group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
}

/// The exit code of a shell for this status.
pub(crate) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
