//! Runs programs on a pseudo-terminal, types, and reads what the terminal shows.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use curator_test::{DEFAULT_TIMEOUT, until};
use rustix::process::Pid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetpgrp, tcsetwinsize};
use tokio::process::{Child, Command};

/// A terminal that a test controls as a person at the keyboard does.
pub(crate) struct PseudoTerminal {
    controller: File,
    device: PathBuf,
    shown: Arc<Mutex<String>>,
}

/// The characters that these keys send.
pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_S: &str = "\x13";
pub(crate) const CTRL_Z: &str = "\x1a";

impl PseudoTerminal {
    pub(crate) fn new() -> Self {
        Self::of_size(24, 200)
    }

    pub(crate) fn of_size(rows: u16, columns: u16) -> Self {
        let controller =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let device = PathBuf::from(std::ffi::OsStr::from_bytes(
            ptsname(&controller, Vec::new()).unwrap().as_bytes(),
        ));
        tcsetwinsize(
            &controller,
            Winsize {
                ws_row: rows,
                ws_col: columns,
                ws_xpixel: 0,
                ws_ypixel: 0,
            },
        )
        .unwrap();
        let controller = File::from(controller);
        let shown = Arc::new(Mutex::new(String::new()));
        let mut output = controller.try_clone().unwrap();
        let collected = shown.clone();
        // The thread ends when no process has the terminal open any more: the read then fails.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                collected
                    .lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self {
            controller,
            device,
            shown,
        }
    }

    /// The terminal's device, for standard streams.
    pub(crate) fn stream(&self) -> File {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(&self.device)
            .unwrap()
    }

    /// Starts a command as the leader of a session of this terminal, with all its standard streams
    /// on the terminal.
    pub(crate) fn spawn(&self, command: &Command) -> Child {
        let stream = || Stdio::from(self.stream());
        // A shell that runs the tests in the background lets them ignore signals.
        let mut in_session = executed_by(&["setsid", "--ctty", "env", "--default-signal"], command);
        in_session
            .stdin(stream())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .unwrap()
    }

    /// The process group that has the terminal.
    pub(crate) fn owner(&self) -> Option<Pid> {
        tcgetpgrp(&self.controller).ok()
    }

    pub(crate) fn type_text(&self, text: &str) {
        (&self.controller).write_all(text.as_bytes()).unwrap();
    }

    /// All that the terminal has shown.
    pub(crate) fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }

    /// Waits until the terminal has shown a text.
    pub(crate) async fn shows(&self, text: &str) {
        let begun = Instant::now();
        until(async || {
            let shown = self.shown();
            assert!(
                begun.elapsed() < DEFAULT_TIMEOUT / 2,
                "{text:?} is not in {shown:?}"
            );
            shown.contains(text)
        })
        .await;
    }
}

/// The command with these words before it, which are a program that executes the command.
pub(crate) fn executed_by(words: &[&str], command: &Command) -> Command {
    let command = command.as_std();
    let mut wrapped = Command::new(words[0]);
    wrapped
        .args(&words[1..])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    wrapped
}
