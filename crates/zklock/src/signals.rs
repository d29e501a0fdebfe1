//! The signals that zklock receives.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use futures_util::{StreamExt as _, stream};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;

/// The signals that request termination.
pub(crate) const DEADLY: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
/// The other signals that zklock passes on.
const OTHERS: [Signal; 5] = [Signal::USR1, Signal::USR2, Signal::WINCH, Signal::CONT, Signal::TSTP];

/// The signals that zklock passes on.
pub(crate) struct Signals {
    received: stream::BoxStream<'static, Signal>,
    /// Whether any received signal requests termination.
    pub(crate) has_deadly: bool,
}

impl Signals {
    /// Listens for the signals that this process does not ignore; under `nohup` it ignores HUP.
    pub(crate) fn new() -> Result<Self, Failure> {
        let ignored = ignored();
        let mut received = stream::SelectAll::new();
        let passed_on = DEADLY.into_iter().chain(OTHERS);
        for sent in passed_on.filter(|sent| ignored >> (sent.as_raw() - 1) & 1 == 0) {
            let listening = signal(SignalKind::from_raw(sent.as_raw()));
            let mut listening =
                listening.map_err(|error| Failure::here(format!("cannot listen for signals: {error}")))?;
            received.push(stream::poll_fn(move |context| listening.poll_recv(context).map(|next| next.map(|()| sent))));
        }
        Ok(Self { received: received.boxed(), has_deadly: false })
    }

    pub(crate) async fn next(&mut self) -> Signal {
        let Some(signal) = self.received.next().await else { return std::future::pending().await };
        self.has_deadly |= DEADLY.contains(&signal);
        signal
    }

    /// Waits for the next signal that requests termination. Returns the status of a process that this signal ended.
    pub(crate) async fn next_deadly(&mut self) -> ExitStatus {
        loop {
            let signal = self.next().await;
            if DEADLY.contains(&signal) {
                return ExitStatus::from_raw(signal.as_raw());
            }
        }
    }
}

/// The signals that this process ignores, as a bit mask; 0 where there is no `/proc`.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
