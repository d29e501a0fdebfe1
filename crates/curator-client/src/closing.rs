//! The end of a client: its shutdown, from the request to completion, or an unrequested end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{ClientEnd, Error, Result};
use crate::process::Process;
use crate::source;
use crate::source::watch;

/// Signals that a client is closing, and later that it has closed or has ended otherwise. Clones
/// belong to the same client.
#[derive(Debug, Clone)]
pub(crate) struct Closing {
    progress: Arc<watch::Sender<Progress>>,
    process: Process,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    /// The client is open.
    Open,
    /// The shutdown has begun.
    Begun { at: Instant },
    /// All tasks have ended, and the server has confirmed that the session is closed.
    Closed,
    /// All tasks have ended. The server has not confirmed that the session is closed. `after` is
    /// how long closing took.
    Unconfirmed { after: Duration },
    /// All tasks have ended, without a shutdown or before a shutdown was complete.
    Ended(ClientEnd),
}

impl Progress {
    fn has_finished(&self) -> bool {
        !matches!(self, Self::Open | Self::Begun { .. })
    }
}

impl Closing {
    /// Creates the state of an open client.
    pub(crate) fn new() -> Self {
        Self {
            progress: Arc::new(watch::Sender::new(Progress::Open)),
            process: Process::current(),
        }
    }

    /// Whether this is a copy in a forked child, where the client has ended.
    pub(crate) fn has_forked(&self) -> bool {
        self.process.has_forked()
    }

    /// Starts the shutdown, unless it has already started.
    pub(crate) fn begin(&self) {
        if self.has_forked() {
            return;
        }
        self.progress.send_if_modified(|progress| {
            let is_open = *progress == Progress::Open;
            if is_open {
                *progress = Progress::Begun { at: source::now() };
            }
            is_open
        });
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_forked() || *self.progress.borrow() != Progress::Open
    }

    pub(crate) fn has_finished(&self) -> bool {
        self.progress.borrow().has_finished()
    }

    /// The error that calls return once the shutdown has begun.
    pub(crate) fn error(&self) -> Error {
        if self.has_forked() {
            return Error::Forked;
        }
        match &*self.progress.borrow() {
            Progress::Ended(end) => Error::ClientEnded { end: end.clone() },
            _ => Error::Closed,
        }
    }

    /// Waits until the client starts to close.
    pub(crate) async fn begun(&self) {
        if self.has_forked() {
            return;
        }
        // The sender lives in `self`, so the channel cannot be closed while this waits.
        let _ = self
            .progress
            .subscribe()
            .wait_for(|progress| *progress != Progress::Open)
            .await;
    }

    /// Records that all tasks have ended. Only the first end counts.
    pub(crate) fn finish(&self, confirmed: bool) {
        self.end(|progress| match progress {
            _ if confirmed => Progress::Closed,
            Progress::Begun { at } => {
                // In whole milliseconds, because error messages contain it.
                let after = u64::try_from(source::elapsed(*at).as_millis()).unwrap_or(u64::MAX);
                Progress::Unconfirmed {
                    after: Duration::from_millis(after),
                }
            }
            _ => Progress::Unconfirmed {
                after: Duration::ZERO,
            },
        });
    }

    /// Records an end other than a shutdown. Only the first end counts.
    pub(crate) fn cut_short(&self, end: ClientEnd) {
        self.end(|_| Progress::Ended(end));
    }

    fn end(&self, end: impl FnOnce(&Progress) -> Progress) {
        self.progress.send_if_modified(|progress| {
            let is_first = !progress.has_finished();
            if is_first {
                *progress = end(progress);
            }
            is_first
        });
    }

    /// Waits until all tasks have ended.
    pub(crate) async fn finished(&self) -> Result<()> {
        if self.has_forked() {
            return Err(Error::Forked);
        }
        let mut progress = self.progress.subscribe();
        // The sender lives in `self`, so the channel cannot be closed while this waits.
        let finished = progress.wait_for(Progress::has_finished).await;
        match finished.as_deref() {
            Ok(Progress::Unconfirmed { after }) => Err(Error::CloseUnconfirmed { after: *after }),
            Ok(Progress::Ended(end)) => Err(Error::ClientEnded { end: end.clone() }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_finished_close_is_not_changed_by_a_later_end() {
        let closing = Closing::new();
        assert!(!closing.has_begun());
        assert_eq!(closing.begun().now_or_never(), None);
        closing.begin();
        assert!(closing.has_begun());
        assert_eq!(closing.begun().now_or_never(), Some(()));
        assert!(closing.finished().now_or_never().is_none());
        closing.finish(true);
        closing.finish(false);
        closing.cut_short(ClientEnd::RuntimeEnded);
        closing.begin();
        assert!(matches!(closing.finished().now_or_never(), Some(Ok(()))));
        assert!(matches!(closing.error(), Error::Closed));
    }

    #[test]
    fn a_runtime_end_is_reported_as_client_ended_even_during_a_close() {
        for is_closing in [false, true] {
            let closing = Closing::new();
            if is_closing {
                closing.begin();
            }
            closing.cut_short(ClientEnd::RuntimeEnded);
            closing.finish(true);
            assert_eq!(closing.begun().now_or_never(), Some(()));
            for error in [
                closing.error(),
                closing.finished().now_or_never().unwrap().unwrap_err(),
            ] {
                assert_eq!(
                    error.to_string(),
                    "the client has ended, and was not closed: its runtime has shut down"
                );
            }
        }
    }
}
