//! Runs other programs.

use std::{
    env,
    process::{Command, Stdio},
};

use crate::workspace;

/// The cargo that runs this program, with the root of the workspace as its working directory.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // `cargo run` sets this variable for this package only. Left set, it would make the next build
    // compile packages again.
    cargo
        .env_remove("CARGO_MANIFEST_DIR")
        .current_dir(workspace())
        .stdin(Stdio::null());
    cargo
}

/// Runs a program, and passes on its output.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|e| format!("cannot start {}: {e}", name(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} failed ({status})", name(command)))
    }
}

/// Runs a program, and returns its standard output. Passes on its standard error.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start {}: {e}", name(command)))?;
    let output = child
        .wait_with_output()
        .map_err(|e| format!("cannot read from {}: {e}", name(command)))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(text)
    } else {
        Err(format!("{} failed ({})", name(command), output.status))
    }
}

/// Whether a program runs and succeeds. Does not show its output.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// The command line, for messages.
fn name(command: &Command) -> String {
    let words: Vec<_> = [command.get_program()]
        .into_iter()
        .chain(command.get_args())
        .collect();
    format!("`{}`", words.join(" ".as_ref()).to_string_lossy())
}
