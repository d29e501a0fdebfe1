//! The shutdown of a client, from the request to completion.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Signals that a client is closing, and later that it has closed. Clones belong to the same client.
#[derive(Debug, Clone)]
pub(crate) struct Closing {
    progress: Arc<watch::Sender<Progress>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The client has not been asked to close.
    Open,
    Begun {
        at: Instant,
    },
    /// Everything has ended, whether or not the server has confirmed that the session is closed.
    Finished(Confirmation),
}

/// Whether the server has confirmed that the session is closed; if not, how long the client has been closing.
pub(crate) type Confirmation = Result<(), Duration>;

impl Closing {
    /// For an open client.
    pub(crate) fn new() -> Self {
        Self { progress: Arc::new(watch::Sender::new(Progress::Open)) }
    }

    /// Starts the shutdown. Has no effect if it has started already.
    pub(crate) fn begin(&self) {
        self.progress.send_if_modified(|progress| {
            let is_open = *progress == Progress::Open;
            if is_open {
                *progress = Progress::Begun { at: Instant::now() };
            }
            is_open
        });
    }

    pub(crate) fn has_begun(&self) -> bool {
        *self.progress.borrow() != Progress::Open
    }

    pub(crate) fn has_finished(&self) -> bool {
        matches!(*self.progress.borrow(), Progress::Finished(_))
    }

    /// Waits until the client starts to close.
    pub(crate) async fn begun(&self) {
        // The sender lives in `self`, so the channel cannot be closed while this waits.
        let _ = self.progress.subscribe().wait_for(|progress| *progress != Progress::Open).await;
    }

    /// Everything has ended. Only the first call counts.
    pub(crate) fn finish(&self, confirmed: bool) {
        self.progress.send_if_modified(|progress| {
            let after = match progress {
                Progress::Open => Duration::ZERO,
                Progress::Begun { at } => at.elapsed(),
                Progress::Finished(_) => return false,
            };
            // Nobody wants to know it to the nanosecond.
            let after = Duration::from_millis(u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
            *progress = Progress::Finished(if confirmed { Ok(()) } else { Err(after) });
            true
        });
    }

    /// Waits until everything has ended.
    pub(crate) async fn finished(&self) -> Confirmation {
        let mut progress = self.progress.subscribe();
        loop {
            if let Progress::Finished(confirmation) = *progress.borrow_and_update() {
                return confirmation;
            }
            // The sender lives in `self`, so the channel cannot be closed while this waits.
            let _ = progress.changed().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn only_the_first_end_counts() {
        let closing = Closing::new();
        assert!(!closing.has_begun());
        assert_eq!(closing.begun().now_or_never(), None);
        closing.begin();
        assert!(closing.has_begun());
        assert_eq!(closing.begun().now_or_never(), Some(()));
        assert_eq!(closing.finished().now_or_never(), None);
        closing.finish(true);
        closing.finish(false);
        closing.begin();
        assert_eq!(closing.finished().now_or_never(), Some(Ok(())));
    }
}
