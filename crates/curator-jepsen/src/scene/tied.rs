//! Runs a program that is killed when its parent ends, even if the parent is killed.

use std::io;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::Command;

/// Replaces this process with another program. The program is killed (SIGKILL) when the thread that
/// started this process ends, at the latest with the process `parent`, to which the thread belongs.
/// It is killed even while it is stopped (SIGSTOP). Returns only if the program cannot be executed.
///
/// Works on Linux only. On other systems, the program is not killed.
pub fn exec_tied(parent: u32, command: &mut Command) -> io::Error {
    #[cfg(target_os = "linux")]
    if let Err(error) =
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
    {
        return error.into();
    }
    // If the parent has ended before the signal was requested, this process already has another
    // parent.
    if parent_id() != parent {
        return io::Error::other(format!("the parent, process {parent}, has ended"));
    }
    command.exec()
}
