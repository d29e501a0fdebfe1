//! What happens to zklock and its child processes: the signals that it receives, and the changes of its children.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use futures_util::{StreamExt as _, stream};
use nix::sys::signal::{SigSet, Signal as Blocked};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;
use crate::processes;
use crate::terminal::is_continuable;

/// The signals that request termination.
pub(crate) const DEADLY: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
/// The other signals that zklock passes on, or acts on.
const OTHERS: [Signal; 5] = [Signal::USR1, Signal::USR2, Signal::WINCH, Signal::CONT, Signal::TSTP];

/// An event of [`Signals`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    Signal(Signal),
    /// A child process has ended, and has been waited for.
    Ended(Pid, ExitStatus),
    /// A child process was stopped by a signal.
    Stopped(Pid, i32),
}

/// Receives signals, and waits for child processes: for all of them, as the first process of a container inherits
/// processes that it has not started.
pub(crate) struct Signals {
    received: stream::BoxStream<'static, Signal>,
    /// Whether any received signal requests termination.
    pub(crate) has_deadly: bool,
}

/// Unblocks all signals that the process which started this one has blocked, for this thread and those that it starts.
/// Blocks TTOU: zklock prints on its terminal, and takes the terminal back, also in the background.
pub(crate) fn unblock() -> Result<(), Failure> {
    let mut blocked = SigSet::empty();
    blocked.add(Blocked::SIGTTOU);
    blocked.thread_set_mask().map_err(|error| Failure::here(format!("cannot unblock signals: {error}")))
}

impl Signals {
    /// Listens for the signals that this process does not ignore; under `nohup` it ignores HUP. Always listens for CHLD,
    /// without which it could not wait for its child processes, and for CONT, which no process can ignore.
    pub(crate) fn new() -> Result<Self, Failure> {
        let mut received = stream::SelectAll::new();
        let unless_ignored = DEADLY.into_iter().chain(OTHERS);
        let unless_ignored = unless_ignored.filter(|sent| !is_ignored(*sent) || *sent == Signal::CONT);
        for sent in unless_ignored.chain([Signal::CHILD]) {
            let listening = signal(SignalKind::from_raw(sent.as_raw()));
            let mut listening =
                listening.map_err(|error| Failure::here(format!("cannot listen for signals: {error}")))?;
            received.push(stream::poll_fn(move |context| listening.poll_recv(context).map(|next| next.map(|()| sent))));
        }
        Ok(Self { received: received.boxed(), has_deadly: false })
    }

    /// Waits for the next event. If the returned future is dropped, no event is lost.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = changed_child() {
                return event;
            }
            match self.received.next().await {
                Some(Signal::CHILD) => {}
                Some(signal) => {
                    self.has_deadly |= DEADLY.contains(&signal);
                    return Event::Signal(signal);
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Waits for the next signal that requests termination, while no command runs. Returns the status of a process that
    /// this signal ended. Ctrl-Z stops zklock, if a shell can continue it.
    pub(crate) async fn next_deadly(&mut self) -> ExitStatus {
        loop {
            match self.next().await {
                Event::Signal(signal) if DEADLY.contains(&signal) => return ExitStatus::from_raw(signal.as_raw()),
                Event::Signal(Signal::TSTP) if is_continuable() => {
                    let _ = kill_process(getpid(), Signal::STOP);
                }
                _ => {}
            }
        }
    }
}

/// The next change of a child process, if there is one.
fn changed_child() -> Option<Event> {
    let (child, status) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED).ok().flatten()?;
    Some(status.stopping_signal().map_or_else(|| ended(child, status), |signal| Event::Stopped(child, signal)))
}

fn ended(child: Pid, status: WaitStatus) -> Event {
    Event::Ended(child, ExitStatus::from_raw(status.as_raw()))
}

/// Whether this process ignores a signal; `false` where there is no `/proc`.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    processes::is_in_mask("self", "SigIgn", signal)
}
