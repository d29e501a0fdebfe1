//! Processes that die with the one that started them, however it dies.

use std::io;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::Command;

/// Becomes another program, which is killed (SIGKILL) when the thread that started this process ends: at the latest when the
/// process with the id `parent`, to which that thread belongs, dies. It is killed even if it is stopped then. Returns only if
/// it cannot become that program.
///
/// On Linux. Elsewhere the program just runs.
pub fn exec_tied(parent: u32, command: &mut Command) -> io::Error {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)) {
        return error.into();
    }
    // It may have died before the signal was asked for; then this process belongs to another one already.
    if parent_id() != parent {
        return io::Error::other(format!("process {parent} is gone"));
    }
    command.exec()
}
