//! A second process that stops the command when the lock is lost or in doubt, or when zklock itself was killed or
//! stopped.
//!
//! It reads orders from a pipe, one per line, and stops the command's process group by the rule of
//! [stopping](crate::stopping). The end of the pipe means that zklock has ended.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};

use crate::clock;
use crate::command::{signal_group, this_program};
use crate::failure::Failure;
use crate::print::print;
use crate::stopping::{Moment, OnLost, Step, Stopping};

/// How the guardian is started: see `arguments.rs`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Orders {
    #[arg(long)]
    group: i32,
    #[arg(long)]
    on_lost: OnLost,
    #[arg(long)]
    grace: u64,
    #[arg(long)]
    margin: u64,
    #[arg(long)]
    valid_until: u64,
}

/// The guardian, as seen by zklock.
pub(crate) struct Guardian {
    child: Child,
    orders: ChildStdin,
}

impl Guardian {
    /// Starts the guardian for a process that waits at its gate, and returns once the guardian watches it.
    pub(crate) async fn start(
        group: Pid,
        on_lost: OnLost,
        grace: Duration,
        margin: Duration,
        valid_until: Moment,
    ) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::here(format!("cannot start the guardian of the command: {error}"));
        let on_lost = clap::ValueEnum::to_possible_value(&on_lost).map(|value| value.get_name().to_owned());
        let mut command = Command::new(this_program().map_err(failed)?);
        // Another name, so that `pkill zklock` does not match it.
        command
            .arg0("lock-guardian")
            .args(["guard", "--on-lost", on_lost.as_deref().unwrap_or("term"), "--group"])
            .arg(group.as_raw_nonzero().to_string());
        for (name, time) in [("--grace", grace), ("--margin", margin), ("--valid-until", valid_until)] {
            command.arg(name).arg(millis(time).to_string());
        }
        // A separate group, so that it gets no signals from the terminal.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (Some(orders), Some(mut ready)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::here("the guardian of the command has no pipe"));
        };
        let time = valid_until.saturating_sub(clock::now());
        match tokio::time::timeout(time, ready.read_exact(&mut [0])).await {
            Ok(read) => read.map_err(failed)?,
            Err(_) => return Err(failed(io::ErrorKind::TimedOut.into())),
        };
        Ok(Self { child, orders })
    }

    /// Extends the lease.
    pub(crate) async fn extend(&mut self, valid_until: Moment, patience: Duration) {
        self.order(&millis(valid_until).to_string(), patience).await;
    }

    /// Orders the stop: the lock is lost.
    pub(crate) async fn stop(&mut self, patience: Duration) {
        self.order("stop", patience).await;
    }

    /// Dismisses the guardian, after the whole process group has ended. Returns whether the guardian has stopped the
    /// command.
    pub(crate) async fn dismiss(mut self, patience: Duration) -> bool {
        self.order("done", patience).await;
        let ended = tokio::time::timeout(patience, self.child.wait()).await;
        if ended.is_err() {
            let _ = self.child.start_kill();
        }
        matches!(ended, Ok(Ok(status)) if status.code() == Some(HAS_STOPPED.into()))
    }

    /// Waits until the guardian has ended. Before its dismissal, it ends only if it has killed the command, or was
    /// killed.
    pub(crate) async fn ended(&mut self) {
        let _ = self.child.wait().await;
    }

    /// Sends an order. A guardian that does not read it within `patience` is killed, and then the command.
    async fn order(&mut self, order: &str, patience: Duration) {
        let order = format!("{order}\n");
        let taken = tokio::time::timeout(patience, self.orders.write_all(order.as_bytes())).await;
        if !matches!(taken, Ok(Ok(()))) {
            let _ = self.child.start_kill();
        }
    }
}

/// The exit code of a guardian that has stopped the command.
const HAS_STOPPED: u8 = 1;

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Orders {
    /// Guards the command until it is dismissed, or has killed the command. Returns the exit code.
    pub(crate) fn guard(&self) -> Result<u8, Failure> {
        let group =
            Pid::from_raw(self.group).ok_or_else(|| Failure::here(format!("no process group {}", self.group)))?;
        let [grace, margin, valid_until] = [self.grace, self.margin, self.valid_until].map(Duration::from_millis);
        let mut stopping = Stopping::new(self.on_lost, grace, margin, valid_until);
        let mut orders = Lines::default();
        let mut code = 0;
        print("\n")?;
        loop {
            let now = clock::now();
            let until = match stopping.step(now) {
                Step::Wait(until) => Some(until),
                Step::Leave => None,
                Step::Term => {
                    code = HAS_STOPPED;
                    signal_group(group, Signal::TERM);
                    // A stopped process handles the signal when it continues.
                    signal_group(group, Signal::CONT);
                    continue;
                }
                Step::Kill => {
                    signal_group(group, Signal::KILL);
                    return Ok(HAS_STOPPED);
                }
            };
            let Some(lines) = orders.read(until.map(|until| until.saturating_sub(now)))? else {
                if self.on_lost == OnLost::Ignore {
                    return Ok(code);
                }
                stopping.stop();
                orders.is_over = true;
                continue;
            };
            for line in lines {
                match (line.as_str(), line.parse()) {
                    ("done", _) => return Ok(code),
                    ("stop", _) => stopping.stop(),
                    (_, Ok(valid_until)) => stopping.extend(Duration::from_millis(valid_until)),
                    _ => {}
                }
            }
        }
    }
}

/// Lines from standard input.
#[derive(Default)]
struct Lines {
    partial: Vec<u8>,
    /// The pipe has ended.
    is_over: bool,
}

impl Lines {
    /// Waits for lines, at most `timeout`. `None` when the other end is closed.
    fn read(&mut self, timeout: Option<Duration>) -> Result<Option<Vec<String>>, Failure> {
        if self.is_over {
            std::thread::sleep(timeout.unwrap_or(Duration::ZERO));
            return Ok(Some(Vec::new()));
        }
        let failed = |error: io::Error| Failure::here(format!("the guardian cannot read its orders: {error}"));
        let stdin = io::stdin();
        // Rounds up to the next millisecond.
        let timeout = timeout.map(|timeout| timeout + Duration::from_millis(1));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        match poll(&mut ready, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Some(Vec::new())),
            polled => polled.map_err(|error| failed(error.into()))?,
        };
        let mut bytes = [0; 4096];
        let read = rustix::io::read(&stdin, &mut bytes).map_err(|error| failed(error.into()))?;
        if read == 0 {
            return Ok(None);
        }
        self.partial.extend_from_slice(&bytes[..read]);
        let mut lines = Vec::new();
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            lines.push(String::from_utf8_lossy(&line).trim().to_owned());
        }
        Ok(Some(lines))
    }
}
