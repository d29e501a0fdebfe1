//! A client's process, which is killed when its parent ends, even if the parent is killed.

use std::fs::{self, File};
use std::io;
use std::io::Write;
use std::os::unix::process::{CommandExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{self, Child, ChildStdin, Command, ExitStatus, Stdio};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

use crate::work::Work;

/// The maximal number of bytes of a process's output that an error quotes.
const SHOWN_OUTPUT: usize = 2000;

/// A client's process. It is killed when this value is dropped, and when this process ends.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// The standard input. Closing it makes the client finish.
    input: Option<ChildStdin>,
    output: PathBuf,
}

impl Process {
    /// Starts a client through `program tied`, and writes the client's work to its standard input.
    ///
    /// # Errors
    ///
    /// When the process cannot be started, or its standard input cannot be written.
    pub fn start(program: &Path, client: &Command, work: &Work) -> anyhow::Result<Self> {
        let failed = |what: &str| format!("cannot {what} w{}.{}", work.worker, work.life);
        let output = work.history.with_extension("log");
        let log =
            File::create(&output).with_context(|| failed("create a file for the output of"))?;
        let log_too = log
            .try_clone()
            .with_context(|| failed("create a file for the output of"))?;
        let mut command = Command::new(program);
        command
            .arg("tied")
            .arg(process::id().to_string())
            .arg(client.get_program())
            .args(client.get_args());
        for (name, value) in client.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::piped()).stdout(log).stderr(log_too);
        let mut child = command.spawn().with_context(|| failed("start"))?;
        let input = child.stdin.take();
        let mut started = Self {
            child,
            input,
            output,
        };
        let mut line =
            serde_json::to_string(work).with_context(|| failed("describe the work of"))?;
        line.push('\n');
        if let Some(input) = &mut started.input {
            input
                .write_all(line.as_bytes())
                .with_context(|| failed("send the work to"))?;
        }
        Ok(started)
    }

    /// The exit status of the process, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The end of the process's output.
    #[must_use]
    pub fn output(&self) -> String {
        let text = fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&text[text.len().saturating_sub(SHOWN_OUTPUT)..])
            .trim()
            .to_owned()
    }

    /// Sends a signal. Does nothing if the process has ended, because its id may then belong to
    /// another process.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        match pid
            .filter(|_| self.ended().is_none())
            .map(|pid| kill_process(pid, signal))
        {
            None | Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => Ok(()),
            Some(Err(error)) => Err(error).context("cannot signal a client"),
        }
    }

    /// Kills the process, and waits until it has ended, which takes a few milliseconds.
    ///
    /// # Errors
    ///
    /// Errors of the operating system.
    pub fn kill(&mut self) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::KILL)?;
        self.child
            .wait()
            .context("cannot wait for the end of a client")
    }

    /// Writes a line to the standard input of the process. Does nothing if the process has ended.
    pub fn send_line(&mut self, line: &str) {
        if let Some(input) = &mut self.input {
            // This fails only if the process has ended, which `ended` reports.
            drop(writeln!(input, "{line}"));
        }
    }

    /// Closes the standard input of the process, so that it finishes its work and exits.
    pub fn close_input(&mut self) {
        self.input = None;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // If this fails, the process is killed when this process ends.
        drop(self.kill());
    }
}

/// Replaces this process with another program. The program is killed (SIGKILL) when the thread that
/// started this process ends, at the latest with the process `parent`, which the thread belongs to.
/// The program is killed even while it is stopped (SIGSTOP). Returns only if the program cannot be
/// executed.
///
/// Works on Linux only. On other systems, the program is not killed.
pub fn exec_tied(parent: u32, command: &mut Command) -> io::Error {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // If the parent has ended before the signal was requested, this process already has another
    // parent.
    if parent_id() != parent {
        return io::Error::other(format!("the parent, process {parent}, has ended"));
    }
    command.exec()
}
