//! Runs a program that is killed when its parent dies, even if that is killed.

use std::io;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::Command;

/// Replaces this process by another program, which is killed (SIGKILL) when the thread that started this process ends:
/// at the latest when the process with the id `parent`, to which that thread belongs, dies. It is killed even if it is
/// stopped then. Returns only if the program cannot be executed.
///
/// Works on Linux. On other systems the program just runs.
pub fn exec_tied(parent: u32, command: &mut Command) -> io::Error {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)) {
        return error.into();
    }
    // The parent may have died before the signal was requested; then this process already has another parent.
    if parent_id() != parent {
        return io::Error::other(format!("process {parent} is gone"));
    }
    command.exec()
}
