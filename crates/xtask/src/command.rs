//! Runs other programs.

use std::{
    env,
    process::{Command, Stdio},
};

use crate::workspace;

/// The cargo that runs this program, at the top of the workspace.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Set by `cargo run` for this package alone; what is built next must not see it as changed.
    cargo.env_remove("CARGO_MANIFEST_DIR").current_dir(workspace()).stdin(Stdio::null());
    cargo
}

/// Runs a program, with its output passed on.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{} cannot be started: {e}", name(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} failed ({status})", name(command))) }
}

/// Whether a program runs and succeeds; its output is not shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// The command line, for messages.
fn name(command: &Command) -> String {
    let words: Vec<_> = [command.get_program()].into_iter().chain(command.get_args()).collect();
    format!("`{}`", words.join(" ".as_ref()).to_string_lossy())
}
