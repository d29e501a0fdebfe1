//! The command that runs under the lock, in a separate process group.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use nix::sys::signal::SigSet;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::pipe;
use rustix::process::Pid;

use crate::failure::{Code, Failure};
use crate::group::Group;

/// A process that waits for a byte on a pipe, the gate, and then executes a command. The byte is
/// sent once the guardian has started.
pub(crate) struct Prepared {
    pub(crate) leader: Pid,
    pub(crate) group: Group,
    pub(crate) gate: Gate,
}

/// The write end of the pipe. If it is dropped without a byte, because zklock was killed, the
/// process exits.
pub(crate) struct Gate(OwnedFd);

/// Waits for the byte, then replaces this process with the command. Called in the process that
/// [`Prepared::start`] has started. Returns only if this fails.
pub(crate) fn execute(gate: u32, command: &[OsString]) -> Failure {
    let opened =
        File::open(format!("/dev/fd/{gate}")).and_then(|mut gate| gate.read_exact(&mut [0]));
    if let Err(error) = opened {
        return Failure::here(format!("the command is not started: {error}"));
    }
    // The command would inherit this end of the pipe; the file opened above is not inherited.
    if let Err(error) = i32::try_from(gate)
        .map_err(io::Error::other)
        .and_then(|gate| Ok(nix::unistd::close(gate)?))
    {
        return Failure::here(format!("cannot close the file descriptor {gate}: {error}"));
    }
    if let Err(error) = SigSet::empty().thread_set_mask() {
        return Failure::here(format!("cannot unblock signals: {error}"));
    }
    let [program, arguments @ ..] = command else {
        return Failure::here("no command");
    };
    // `exec` also resets the action of SIGPIPE, which Rust programs ignore.
    let error = Command::new(program).args(arguments).exec();
    let code = if error.kind() == io::ErrorKind::NotFound {
        Code::NotFound
    } else {
        Code::NotExecutable
    };
    Failure::new(
        code,
        format!("cannot run {}: {error}", program.to_string_lossy()),
    )
}

impl Prepared {
    /// Starts the process: another instance of zklock, which later executes the command. It
    /// inherits the streams and the environment, with `variables` added.
    pub(crate) fn start(
        words: &[OsString],
        variables: [(&str, String); 3],
    ) -> Result<Self, Failure> {
        let name = name(words);
        let failed =
            |error: io::Error| Failure::here(format!("cannot start a process for {name}: {error}"));
        // The process inherits the read end.
        let (read_end, gate) = pipe().map_err(|error| failed(error.into()))?;
        fcntl_setfd(&gate, FdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let mut command = Command::new(this_program().map_err(failed)?);
        command
            .arg("start")
            .arg(read_end.as_raw_fd().to_string())
            .arg("--")
            .args(words);
        let child = command
            .arg0("zklock")
            .process_group(0)
            .envs(variables)
            .spawn()
            .map_err(failed)?;
        let leader = process_id(&child).map_err(failed)?;
        Ok(Self {
            leader,
            group: Group::led_by(leader).map_err(failed)?,
            gate: Gate(gate),
        })
    }
}

impl Gate {
    /// Sends the byte, which starts the command.
    pub(crate) fn open(self) {
        // If the process was killed, this write fails, and the wait for the process then reports
        // its end.
        let _ = rustix::io::write(self.0, b"!");
    }
}

/// The name of a command, for messages.
pub(crate) fn name(words: &[OsString]) -> String {
    words
        .first()
        .map(|program| program.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// The id of a child process that has not been waited for.
pub(crate) fn process_id(child: &std::process::Child) -> io::Result<Pid> {
    let id = i32::try_from(child.id()).map_err(io::Error::other)?;
    Pid::from_raw(id).ok_or_else(|| io::Error::other("a process has no id"))
}

/// The path of this program, even if its file has been replaced.
pub(crate) fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        Ok("/proc/self/exe".into())
    } else {
        std::env::current_exe()
    }
}

/// The exit code that a shell reports for this status.
pub(crate) fn code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok())
        .unwrap_or(u8::MAX)
}
