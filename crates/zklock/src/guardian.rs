//! A second process that stops the command when the lock is lost or in doubt, or when zklock itself
//! was killed or stopped.
//!
//! The guardian reads orders from a pipe; EOF means that zklock has ended. [`Stopping`] computes
//! when the guardian signals the command's process group, or, with `--on-lost ignore`, leaves it
//! running. On a second pipe, the guardian reports that it is ready, and that it has sent TERM or
//! KILL; EOF there means that the guardian has ended.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::timeout;

use crate::command::{process_id, this_program};
use crate::failure::Failure;
use crate::group::Group;
use crate::print::print_message;
use crate::stopping::{Step, Stopping};
use crate::terminal::return_terminal;
use crate::time::{Moment, now};

/// The task of the guardian, which its command line contains as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Duty {
    pub(crate) group: Group,
    /// The process group of zklock.
    pub(crate) zklock: i32,
    pub(crate) stopping: Stopping,
}

/// An order that zklock sends to the guardian.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// The lease ends at this later moment.
    Extend(Moment),
    /// The lock is lost, or a client has requested it.
    Stop,
    /// The whole process group of the command has ended.
    Dismiss,
    /// zklock has ended. This order is never sent: it stands for EOF on the pipe.
    Abandon,
}

/// The guardian, as seen by zklock.
pub(crate) struct Guardian {
    pub(crate) process: Pid,
    /// Whether zklock has waited for the process, so that its id may belong to another process.
    pub(crate) is_waited_for: bool,
    orders: Sender,
    reports: Receiver,
    has_stopped: bool,
}

/// The limit for writing an order to the guardian's pipe, and for the guardian to end after its
/// dismissal.
const ORDER_TIMEOUT: Duration = Duration::from_millis(500);
/// How often a guardian whose zklock has ended checks whether the command has ended.
const GROUP_INTERVAL: Duration = Duration::from_millis(100);
const READY: &[u8] = b"r";
const HAS_STOPPED: &[u8] = b"s";

impl Guardian {
    /// Starts the guardian for a [`Prepared`](crate::command::Prepared) command that does not run
    /// yet. Returns once the guardian is ready.
    pub(crate) async fn start(duty: &Duty) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            Failure::here(format!("cannot start the guardian of the command: {error}"))
        };
        let mut command = Command::new(this_program().map_err(failed)?);
        // The name differs from zklock's, so that `pkill zklock` does not end the guardian.
        command.arg0("lock-guardian").arg("guard");
        command.arg(serde_json::to_string(duty).map_err(|error| failed(error.into()))?);
        // The guardian has a separate process group, so that it gets no signals from the terminal.
        command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (Some(orders), Some(reports)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::here("the guardian of the command has no pipe"));
        };
        let mut guardian = Self {
            process: process_id(&child).map_err(failed)?,
            is_waited_for: false,
            orders: Sender::from_owned_fd(OwnedFd::from(orders)).map_err(failed)?,
            reports: Receiver::from_owned_fd(OwnedFd::from(reports)).map_err(failed)?,
            has_stopped: false,
        };
        let time = duty.stopping.valid_until.saturating_sub(now());
        let began = timeout(time, guardian.reports.read_exact(&mut [0])).await;
        began.map_err(io::Error::from).flatten().map_err(failed)?;
        Ok(guardian)
    }

    /// Sends an order. If the pipe stays full, as it can while the guardian is suspended, kills the
    /// guardian; [`run_guarded`](crate::run_guarded) then handles its end.
    pub(crate) async fn order(&mut self, order: Order) {
        // An order cannot fail to serialize.
        let order = serde_json::to_vec(&order).unwrap_or_default();
        if !matches!(
            timeout(ORDER_TIMEOUT, self.orders.write_all(&order)).await,
            Ok(Ok(()))
        ) {
            self.kill();
        }
    }

    /// Waits until the guardian has ended. Returns whether it has sent TERM or KILL to the command.
    /// Before its dismissal, the guardian ends only after KILL, after [`Step::Leave`], or when it
    /// is killed.
    pub(crate) async fn ended(&mut self) -> bool {
        let mut report = [0; 1];
        while matches!(self.reports.read(&mut report).await, Ok(1..)) {
            self.has_stopped |= report == HAS_STOPPED;
        }
        self.has_stopped
    }

    /// Dismisses the guardian. Returns whether it has sent TERM or KILL to the command.
    pub(crate) async fn dismiss(mut self) -> bool {
        self.order(Order::Dismiss).await;
        if timeout(ORDER_TIMEOUT, self.ended()).await.is_err() {
            self.kill();
        }
        self.has_stopped
    }

    fn kill(&self) {
        if !self.is_waited_for {
            let _ = kill_process(self.process, Signal::KILL);
        }
    }
}

/// Guards the command until the guardian is dismissed, has sent KILL, or leaves the command running
/// ([`Step::Leave`]), or until zklock and the command have ended.
pub(crate) fn guard(
    Duty {
        group,
        zklock,
        mut stopping,
    }: Duty,
) -> Result<u8, Failure> {
    let (sender, orders) = channel();
    let reader = sender.clone();
    let reading = std::thread::Builder::new().spawn(move || {
        let orders = serde_json::Deserializer::from_reader(io::stdin())
            .into_iter()
            .map_while(Result::ok);
        orders
            .chain([Order::Abandon])
            .try_for_each(|order| reader.send(order))
    });
    reading
        .map_err(|error| Failure::here(format!("the guardian cannot start a thread: {error}")))?;
    report(READY);
    let mut is_abandoned = false;
    loop {
        let now = now();
        let until = match stopping.step(now) {
            Step::Wait(until) => until,
            Step::Leave => return Ok(0),
            Step::Term => {
                report(HAS_STOPPED);
                group.signal(Signal::TERM);
                continue;
            }
            Step::Kill => {
                report(HAS_STOPPED);
                group.signal(Signal::KILL);
                // While zklock runs, zklock prints these processes.
                if is_abandoned {
                    print_refusing(group);
                }
                return Ok(0);
            }
        };
        let time = until.saturating_sub(now);
        match orders.recv_timeout(if is_abandoned {
            time.min(GROUP_INTERVAL)
        } else {
            time
        }) {
            Ok(Order::Extend(until)) => stopping.valid_until = until,
            Ok(Order::Stop) => stopping.stop(),
            Ok(Order::Dismiss) => return Ok(0),
            Ok(Order::Abandon) => {
                is_abandoned = true;
                return_terminal(group, zklock);
                stopping.stop();
            }
            // The timeout: the next step is due, or the group must be checked again.
            Err(_) => {}
        }
        if is_abandoned && group.is_gone() {
            return Ok(0);
        }
    }
}

/// Notifies zklock, unless it has ended.
fn report(what: &[u8]) {
    let mut out = io::stdout();
    let _ = out.write_all(what).and_then(|()| out.flush());
}

/// Reports the processes of the command that cannot be stopped.
pub(crate) fn print_refusing(group: Group) {
    for process in group.refusing() {
        print_message(format_args!(
            "process {} ({}) of the command runs as another user, and cannot be stopped: it may work on without the lock",
            process.id, process.name
        ));
    }
}
