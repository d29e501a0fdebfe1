//! Runs a JVM that cannot outlive the process that started it.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader},
    os::unix::process::{CommandExt, ExitStatusExt},
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{error::Error, wait};

/// The interval between two checks of a process that is ending.
const POLL: Duration = Duration::from_millis(5);

/// How long threads may take to stop. A thread stops when it next runs.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a program and prints its process id. When the pipe at standard input closes, the parent
/// process has ended, perhaps by SIGKILL: then the script kills the program and removes its
/// directory. When the program ends first, the script exits with the same status.
///
/// The part that waits for the pipe, the *guard*, is a background job. Such a job has no standard
/// input, so the pipe is kept as descriptor 3. The guard only marks the directory for removal,
/// because a program that is being killed may still write there.
const WATCHDOG: &str = r#"
folder=$1; log=$2; shift 2
exec 3<&0
"$@" </dev/null >>"$log" 2>&1 3<&- &
program=$!
(read -r _ <&3; : >"$folder/abandoned"; kill -KILL "$program") >/dev/null 2>&1 &
guard=$!
echo "$program"
exec >&-
wait "$program"
status=$?
kill -KILL "$guard" 2>/dev/null
if [ -e "$folder/abandoned" ]; then rm -rf -- "$folder"; fi
exit "$status"
"#;

/// A program with its watchdog.
#[derive(Debug)]
pub(crate) struct Process {
    /// The shell. It ends with the program.
    watchdog: Child,
    pid: Pid,
    /// The shell's standard input: the pipe that keeps the program alive. It is kept apart from the
    /// `Child`, which would close it on `wait`, and the guard would conclude that this process has
    /// ended.
    _alive: Option<ChildStdin>,
}

impl Process {
    /// Starts a program whose output goes to `log`. If this process ends first, `folder` is
    /// removed.
    pub(crate) fn start(
        folder: &Path,
        log: &Path,
        program: &Path,
        arguments: &[OsString],
    ) -> Result<Self, Error> {
        let mut watchdog = Command::new("sh")
            .arg("-c")
            .arg(WATCHDOG)
            .arg("watchdog")
            .args([folder, log, program])
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C at the terminal reaches only the tests; the watchdog then notices their end.
            .process_group(0)
            .spawn()
            .map_err(Error::io("start `sh`"))?;
        let mut line = String::new();
        if let Some(out) = watchdog.stdout.take() {
            BufReader::new(out)
                .read_line(&mut line)
                .map_err(Error::io("read the JVM's process id"))?;
        }
        let pid = line.trim().parse().ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| {
            Error::Protocol(format!("the watchdog printed {line:?}, not a process id"))
        })?;
        let alive = watchdog.stdin.take();
        Ok(Self {
            watchdog,
            pid,
            _alive: alive,
        })
    }

    /// The process id of the program, not of the watchdog.
    pub(crate) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// The program's exit status, if it has ended.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.watchdog.try_wait().ok().flatten()
    }

    /// Sends a signal to the program. Does nothing if it has ended, because its id may belong to
    /// another process.
    pub(crate) fn signal(&mut self, signal: Signal) -> Result<(), Error> {
        if self.status().is_some() {
            return Ok(());
        }
        match kill_process(self.pid, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(e) => Err(Error::io("signal the JVM")(e.into())),
        }
    }

    /// Freezes the program, and waits until all threads have stopped. They receive the signal one
    /// by one, so otherwise one of them could still reply to a client.
    pub(crate) fn pause(&mut self) -> Result<(), Error> {
        self.signal(Signal::STOP)?;
        let end = Instant::now() + PAUSE_TIMEOUT;
        while !self.is_paused() {
            if Instant::now() > end {
                return Err(Error::timeout(
                    "all threads of the JVM to stop",
                    PAUSE_TIMEOUT,
                ));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Whether the system reports all threads as stopped or ended.
    fn is_paused(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.id()))
            .into_iter()
            .flatten()
            .flatten();
        let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
        // The line is `123 (name) T …`, and the name may contain any character.
        let state = |stat: &str| {
            stat.rsplit_once(") ")
                .and_then(|(_, rest)| rest.chars().next())
        };
        stats
            .map(|stat| state(&stat))
            .all(|state| matches!(state, None | Some('T' | 't' | 'Z' | 'X')))
    }

    /// Kills the program and waits until it has ended, which takes a few milliseconds.
    pub(crate) fn kill(&mut self) -> Result<ExitStatus, Error> {
        self.signal(Signal::KILL)?;
        self.watchdog
            .wait()
            .map_err(Error::io("wait for the JVM's end"))
    }

    /// Terminates the program and waits. Kills it if it takes longer than `limit`.
    pub(crate) async fn stop(&mut self, limit: Duration) -> Result<ExitStatus, Error> {
        // A process that SIGSTOP has stopped does not handle SIGTERM.
        self.signal(Signal::CONT)?;
        self.signal(Signal::TERM)?;
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Some(status) = self.status() {
                return Ok(status);
            }
            wait::sleep(POLL).await;
        }
        self.kill()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A drop cannot report an error; if the signal fails, the closing pipe kills the program.
        drop(self.kill());
    }
}

/// Describes how a process ended.
pub(crate) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown reason".to_owned(),
    }
}
