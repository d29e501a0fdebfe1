//! What happens to zklock and its child processes: the signals that it receives, and the changes of
//! its children.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};

use futures_util::{StreamExt as _, stream};
use nix::sys::signal::{SigSet, Signal as Blocked};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_current_process_group, kill_process, wait,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::command::{code, this_program};
use crate::failure::Failure;
use crate::group::DEADLY;
use crate::print;
use crate::processes::{is_alone, is_continuable, is_ignored};

/// The other signals that zklock passes on, or acts on.
const OTHERS: [Signal; 5] = [
    Signal::USR1,
    Signal::USR2,
    Signal::WINCH,
    Signal::CONT,
    Signal::TSTP,
];

/// An event of [`Signals`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    Signal(Signal),
    /// A child process has ended, and has been waited for.
    Ended(Pid, ExitStatus),
    /// A child process was stopped by a signal.
    Stopped(Pid, i32),
}

/// Receives signals, and waits for all child processes, including the orphans that zklock
/// [adopts](adopt_orphans).
pub(crate) struct Signals {
    received: stream::BoxStream<'static, Signal>,
    /// Whether any received signal requests termination.
    pub(crate) has_deadly: bool,
    /// A signal that was probably typed while the command had the terminal, so that zklock's
    /// process group has not received it.
    typed: Option<Signal>,
}

/// Makes this process the parent of the orphans among its descendants, so that it waits for them.
pub(crate) fn adopt_orphans() {
    // Only Linux has this call. Process 1 adopts orphans without it.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
}

/// Unblocks, for this thread and the threads that it starts, all signals that the parent process
/// has blocked. Blocks TTOU, because zklock prints on its terminal, and takes the terminal back,
/// even in the background.
pub(crate) fn unblock() -> Result<(), Failure> {
    let mut blocked = SigSet::empty();
    blocked.add(Blocked::SIGTTOU);
    blocked
        .thread_set_mask()
        .map_err(|error| Failure::here(format!("cannot unblock signals: {error}")))
}

impl Signals {
    /// Listens for the signals that this process does not ignore; under `nohup` it ignores HUP.
    /// Always listens for CHLD, without which it could not wait for its child processes, and for
    /// CONT, which no process can ignore.
    pub(crate) fn new() -> Result<Self, Failure> {
        let mut received = stream::SelectAll::new();
        let unless_ignored = DEADLY.into_iter().chain(OTHERS);
        let unless_ignored =
            unless_ignored.filter(|sent| !is_ignored(*sent) || *sent == Signal::CONT);
        for sent in unless_ignored.chain([Signal::CHILD]) {
            let listening = signal(SignalKind::from_raw(sent.as_raw()));
            let mut listening = listening
                .map_err(|error| Failure::here(format!("cannot listen for signals: {error}")))?;
            received.push(stream::poll_fn(move |context| {
                listening.poll_recv(context).map(|next| next.map(|()| sent))
            }));
        }
        Ok(Self {
            received: received.boxed(),
            has_deadly: false,
            typed: None,
        })
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

    /// Waits for a future, or for a signal that requests termination: then fails with the status of
    /// a process that this signal ended.
    pub(crate) async fn unless_deadly<T>(
        &mut self,
        future: impl Future<Output = T>,
    ) -> Result<T, ExitStatus> {
        tokio::select! {
            biased;
            done = future => Ok(done),
            status = self.next_deadly() => Err(status),
        }
    }

    /// Waits for the next signal that requests termination, while no command runs. Returns the
    /// status of a process that this signal ended. Ctrl-Z stops zklock, if a shell can continue it.
    pub(crate) async fn next_deadly(&mut self) -> ExitStatus {
        loop {
            match self.next().await {
                Event::Signal(signal) if DEADLY.contains(&signal) => {
                    return ExitStatus::from_raw(signal.as_raw());
                }
                Event::Signal(Signal::TSTP) if is_continuable() => {
                    let _ = kill_process(getpid(), Signal::STOP);
                }
                _ => {}
            }
        }
    }
}

/// A shell ends a script if one of these signals has ended the script's command.
const ENDING_SCRIPTS: [Signal; 2] = [Signal::INT, Signal::QUIT];

impl Signals {
    /// Records the signal that has ended a command that had the terminal. The signal may come from
    /// Ctrl-C, which is for the whole job.
    pub(crate) fn note_typed(&mut self, status: Option<ExitStatus>) {
        if !self.has_deadly
            && let Some(typed) = ENDING_SCRIPTS
                .into_iter()
                .find(|signal| status.and_then(|status| status.signal()) == Some(signal.as_raw()))
        {
            self.typed = Some(typed);
            self.has_deadly = true;
        }
    }

    /// Ends this process by the signal that has ended the command, if a script that runs zklock has
    /// to end too. Returns otherwise, or if this process ignores the signal.
    pub(crate) fn end_as(&self, status: ExitStatus) {
        let Some(signal) = ENDING_SCRIPTS
            .into_iter()
            .find(|signal| status.signal() == Some(signal.as_raw()))
        else {
            return;
        };
        print::finish();
        if self.typed.is_some() && !is_alone() {
            let _ = kill_current_process_group(signal);
        }
        // This process handles the signal; only a new program has its default action again.
        let Ok(program) = this_program() else { return };
        let _ = Command::new(program)
            .arg0("zklock")
            .arg("end")
            .arg(signal.as_raw().to_string())
            .exec();
    }
}

/// Ends this process by the signal. Called in the program that ends for zklock. Returns the exit
/// code if this process ignores the signal.
pub(crate) fn end_by(signal: i32) -> u8 {
    #[cfg(target_os = "linux")]
    // No core dump of zklock.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = kill_process(getpid(), signal);
    }
    code(ExitStatus::from_raw(signal))
}

/// The next change of a child process, if there is one.
fn changed_child() -> Option<Event> {
    let (child, status) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED)
        .ok()
        .flatten()?;
    Some(status.stopping_signal().map_or_else(
        || ended(child, status),
        |signal| Event::Stopped(child, signal),
    ))
}

fn ended(child: Pid, status: WaitStatus) -> Event {
    Event::Ended(child, ExitStatus::from_raw(status.as_raw()))
}
