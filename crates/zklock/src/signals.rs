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
        let kinds = [
            (SignalKind::hangup(), Signal::HUP),
            (SignalKind::interrupt(), Signal::INT),
            (SignalKind::quit(), Signal::QUIT),
            (SignalKind::terminate(), Signal::TERM),
            (SignalKind::user_defined1(), Signal::USR1),
            (SignalKind::user_defined2(), Signal::USR2),
            (SignalKind::window_change(), Signal::WINCH),
            (SignalKind::from_raw(Signal::CONT.as_raw()), Signal::CONT),
            (SignalKind::from_raw(Signal::TSTP.as_raw()), Signal::TSTP),
        ];
        let failed = |error| Failure::here(format!("cannot listen for signals: {error}"));
        let mut all = stream::SelectAll::new();
        for (kind, sent) in kinds.into_iter().filter(|(_, sent)| ignored >> (sent.as_raw() - 1) & 1 == 0) {
            let listening = signal(kind).map_err(failed)?;
            all.push(
                stream::unfold(listening, move |mut listening| async move {
                    listening.recv().await.map(|()| (sent, listening))
                })
                .boxed(),
            );
        }
        Ok(Self { received: all.boxed(), has_deadly: false })
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
