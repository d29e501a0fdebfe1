//! One JVM, which never outlives the process that started it.

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

use crate::{error::Error, real_time};

/// How often we check a process that is about to end.
const POLL: Duration = Duration::from_millis(5);

/// How long threads may take to stop. They stop when they next run.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a program and prints its process id. When the pipe at standard input closes, the process at the other end is gone,
/// perhaps by SIGKILL: then the program is killed too, and its directory removed. When the program ends first, so does this
/// script, with the same status.
///
/// The guard is a background job, which would have no standard input; so the pipe is kept as descriptor 3. The guard only
/// leaves a note to remove the directory, because a program that is about to die may still write there.
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

/// A running program under its watchdog.
#[derive(Debug)]
pub(crate) struct Process {
    /// The shell. It ends when the program does.
    watchdog: Child,
    pid: Pid,
    /// The shell's standard input: the pipe that keeps the program alive. It is kept apart from the `Child`, which would
    /// close it on `wait`, and the guard would take that for the end of this process.
    _alive: Option<ChildStdin>,
}

impl Process {
    /// Starts a program whose output goes to `log`. `folder` is removed if this process dies first.
    pub(crate) fn start(folder: &Path, log: &Path, program: &Path, arguments: &[OsString]) -> Result<Self, Error> {
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
            // Ctrl-C at the terminal is for the tests; the watchdog then sees them end.
            .process_group(0)
            .spawn()
            .map_err(Error::io("start `sh`"))?;
        let mut line = String::new();
        if let Some(out) = watchdog.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(Error::io("read the JVM's process id"))?;
        }
        let pid = line.trim().parse().ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Error::Protocol(format!("the watchdog printed {line:?}, not a process id")))?;
        let alive = watchdog.stdin.take();
        Ok(Self { watchdog, pid, _alive: alive })
    }

    /// The program's own process id, not the watchdog's.
    pub(crate) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// How the program ended, if it did.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.watchdog.try_wait().ok().flatten()
    }

    /// Sends a signal to the program. Does nothing if it has ended: its id may belong to another process by then.
    pub(crate) fn signal(&mut self, signal: Signal) -> Result<(), Error> {
        if self.status().is_some() {
            return Ok(());
        }
        match kill_process(self.pid, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(e) => Err(Error::io("signal the JVM")(e.into())),
        }
    }

    /// Freezes the program, and waits until it stands still: a signal to a process reaches its threads one by one, so
    /// one of them may still answer a client after the call.
    pub(crate) fn pause(&mut self) -> Result<(), Error> {
        self.signal(Signal::STOP)?;
        let end = Instant::now() + PAUSE_TIMEOUT;
        while !self.stands_still() {
            if Instant::now() > end {
                return Err(Error::timeout("the JVM to stand still", PAUSE_TIMEOUT));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Whether all threads are stopped or gone, as far as the system reports.
    fn stands_still(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.id())).into_iter().flatten().flatten();
        let stats = tasks.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
        // `123 (name) T …`, where the name may contain anything.
        let state = |stat: &str| stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        stats.map(|stat| state(&stat)).all(|state| matches!(state, None | Some('T' | 't' | 'Z' | 'X')))
    }

    /// Kills the program and waits until it is gone: a few milliseconds.
    pub(crate) fn kill(&mut self) -> Result<ExitStatus, Error> {
        self.signal(Signal::KILL)?;
        self.watchdog.wait().map_err(Error::io("wait for the JVM's end"))
    }

    /// Asks the program to end and waits; kills it if it takes longer than `limit`.
    pub(crate) async fn stop(&mut self, limit: Duration) -> Result<ExitStatus, Error> {
        // A stopped process would not notice.
        self.signal(Signal::CONT)?;
        self.signal(Signal::TERM)?;
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Some(status) = self.status() {
                return Ok(status);
            }
            real_time::sleep(POLL).await;
        }
        self.kill()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // There is nobody to report an error to, and the closing pipe kills what a failed signal leaves running.
        drop(self.kill());
    }
}

/// Says how a process ended, in words.
pub(crate) fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown reason".to_owned(),
    }
}
