//! The signals that zklock receives.

use futures_util::{StreamExt as _, stream};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use crate::command::is_deadly;
use crate::failure::Failure;

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
        let all = [
            Signal::HUP,
            Signal::INT,
            Signal::QUIT,
            Signal::TERM,
            Signal::USR1,
            Signal::USR2,
            Signal::WINCH,
            Signal::CONT,
            Signal::TSTP,
        ];
        let mut received = stream::SelectAll::new();
        for sent in all.into_iter().filter(|sent| ignored >> (sent.as_raw() - 1) & 1 == 0) {
            let listening = signal(SignalKind::from_raw(sent.as_raw()));
            let listening = listening.map_err(|error| Failure::here(format!("cannot listen for signals: {error}")))?;
            let next =
                |mut listening: tokio::signal::unix::Signal| async { listening.recv().await.map(|()| listening) };
            received.push(
                stream::unfold(listening, move |listening| async move { Some((sent, next(listening).await?)) }).boxed(),
            );
        }
        Ok(Self { received: received.boxed(), has_deadly: false })
    }

    pub(crate) async fn next(&mut self) -> Signal {
        let Some(signal) = self.received.next().await else { return std::future::pending().await };
        self.has_deadly |= is_deadly(signal);
        signal
    }

    /// Waits for the next signal that requests termination.
    pub(crate) async fn next_deadly(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if is_deadly(signal) {
                return signal;
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
