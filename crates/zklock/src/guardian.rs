//! A second process that stops the command when the lock is lost or in doubt, or when zklock itself was killed or
//! stopped.
//!
//! The guardian reads orders from a pipe; the end of the pipe means that zklock has ended. [`Stopping`] computes when
//! the guardian signals the command's process group, or, with `--on-lost ignore`, leaves it running.

use std::io;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use crate::clock;
use crate::command::{signal_group, this_program};
use crate::failure::Failure;
use crate::print::print;
use crate::stopping::{Moment, Step, Stopping};

/// An order that zklock sends to the guardian.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The lease ends at this later moment.
    Extend(Moment),
    /// The lock is lost, or a client has requested it.
    Stop,
    /// The whole process group has ended.
    Dismiss,
}

/// The guardian, as seen by zklock.
pub(crate) struct Guardian {
    child: Child,
    orders: ChildStdin,
}

/// The limit for writing an order to the guardian's pipe, and for the guardian to end after its dismissal.
const ORDER_TIMEOUT: Duration = Duration::from_millis(500);

impl Guardian {
    /// Starts the guardian for a [`Prepared`](crate::command::Prepared) command that does not run yet. Returns once the
    /// guardian is ready.
    pub(crate) async fn start(group: Pid, stopping: &Stopping) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::here(format!("cannot start the guardian of the command: {error}"));
        let mut command = Command::new(this_program().map_err(failed)?);
        // Under another name, so that `pkill zklock` does not end it.
        command.arg0("lock-guardian").arg("guard").arg(group.as_raw_nonzero().to_string());
        command.arg(serde_json::to_string(stopping).map_err(|error| failed(error.into()))?);
        // In a separate process group, so that it gets no signals from the terminal.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (Some(orders), Some(mut ready)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::here("the guardian of the command has no pipe"));
        };
        let time = stopping.valid_until.saturating_sub(clock::now());
        let began = timeout(time, ready.read_exact(&mut [0])).await;
        began.map_err(io::Error::from).flatten().map_err(failed)?;
        Ok(Self { child, orders })
    }

    /// Sends an order. If the pipe stays full, as it can while the guardian is suspended, kills the guardian;
    /// [`run_guarded`](crate::run_guarded) then handles its end.
    pub(crate) async fn order(&mut self, order: Order) {
        // An order cannot fail to serialize.
        let order = serde_json::to_vec(&order).unwrap_or_default();
        if !matches!(timeout(ORDER_TIMEOUT, self.orders.write_all(&order)).await, Ok(Ok(()))) {
            let _ = self.child.start_kill();
        }
    }

    /// Waits until the guardian has ended. Returns whether it has sent TERM or KILL to the command. Before its
    /// dismissal, the guardian ends only after KILL, after [`Step::Leave`], or when it is killed.
    pub(crate) async fn ended(&mut self) -> bool {
        matches!(self.child.wait().await, Ok(status) if status.code() == Some(HAS_STOPPED.into()))
    }

    /// Dismisses the guardian. Returns whether it has sent TERM or KILL to the command.
    pub(crate) async fn dismiss(mut self) -> bool {
        self.order(Order::Dismiss).await;
        let ended = timeout(ORDER_TIMEOUT, self.ended()).await;
        if ended.is_err() {
            let _ = self.child.start_kill();
        }
        ended.unwrap_or(false)
    }
}

/// The exit code of a guardian that has sent TERM or KILL to the command.
const HAS_STOPPED: u8 = 1;

/// Guards the command until the guardian is dismissed, has sent KILL, or leaves the command running ([`Step::Leave`]).
/// Returns the guardian's exit code.
pub(crate) fn guard(group: i32, mut stopping: Stopping) -> Result<u8, Failure> {
    let group = Pid::from_raw(group).ok_or_else(|| Failure::here(format!("no process group {group}")))?;
    let (sender, orders) = channel();
    let reader = sender.clone();
    std::thread::spawn(move || {
        let orders = serde_json::Deserializer::from_reader(io::stdin()).into_iter().map_while(Result::ok);
        orders.chain([Order::Stop]).try_for_each(|order| reader.send(order))
    });
    let mut code = 0;
    print("\n")?;
    loop {
        let now = clock::now();
        let until = match stopping.step(now) {
            Step::Wait(until) => until,
            Step::Leave => return Ok(code),
            Step::Term => {
                code = HAS_STOPPED;
                signal_group(group, Signal::TERM);
                continue;
            }
            Step::Kill => {
                signal_group(group, Signal::KILL);
                return Ok(HAS_STOPPED);
            }
        };
        match orders.recv_timeout(until.saturating_sub(now)) {
            Ok(Order::Extend(until)) => stopping.valid_until = until,
            Ok(Order::Stop) => stopping.stop(),
            Ok(Order::Dismiss) => return Ok(code),
            // It is time for the next step.
            Err(_) => {}
        }
    }
}
