//! A second process that stops the command when the lock is lost or in doubt, or when zklock itself was killed or
//! stopped.
//!
//! It reads orders from a pipe, one per line, and stops the command's process group by the rule of
//! [stopping](crate::stopping). The end of the pipe means that zklock has ended.

use std::io;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};

use crate::clock;
use crate::command::{signal_group, this_program};
use crate::failure::Failure;
use crate::print::print;
use crate::stopping::{Moment, OnLost, Step, Stopping};

/// What a guardian has to know. Times are in milliseconds.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Orders {
    pub(crate) group: i32,
    pub(crate) on_lost: OnLost,
    pub(crate) grace: u64,
    pub(crate) margin: u64,
    pub(crate) valid_until: u64,
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
        let on_lost =
            clap::ValueEnum::to_possible_value(&on_lost).map_or("term".to_owned(), |it| it.get_name().to_owned());
        let mut command = Command::new(this_program().map_err(failed)?);
        // Under another name, so that `pkill zklock` spares it.
        command.arg0("lock-guardian").arg("guard").args([group.as_raw_nonzero().to_string(), on_lost]);
        command.args([grace, margin, valid_until].map(|time| millis(time).to_string()));
        // Its own group: signals from a terminal are not for it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (Some(orders), Some(mut ready)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::here("the guardian of the command has no pipe"));
        };
        let time = valid_until.saturating_sub(clock::now());
        let began = tokio::time::timeout(time, ready.read_exact(&mut [0])).await;
        began.map_err(io::Error::from).flatten().map_err(failed)?;
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
        let orders = lines();
        let (mut code, mut is_alone) = (0, false);
        print("\n")?;
        loop {
            let now = clock::now();
            let wait = match stopping.step(now) {
                Step::Wait(until) => until.saturating_sub(now),
                Step::Leave => Duration::MAX,
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
            if is_alone {
                std::thread::sleep(wait);
                continue;
            }
            match orders.recv_timeout(wait) {
                Ok(order) if order == "done" => return Ok(code),
                Ok(order) if order == "stop" => stopping.stop(),
                Ok(order) => {
                    let _ = order.parse().map(|until| stopping.extend(Duration::from_millis(until)));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if self.on_lost == OnLost::Ignore => return Ok(code),
                Err(RecvTimeoutError::Disconnected) => {
                    is_alone = true;
                    stopping.stop();
                }
            }
        }
    }
}

/// The lines of standard input, until it ends.
fn lines() -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || io::stdin().lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    receiver
}
