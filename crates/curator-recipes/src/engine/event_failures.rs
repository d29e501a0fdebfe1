//! Which failures are logged by a task that learns of each one only once, by an event.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use curator_client::source::watch;
use curator_client::{CuratorClient, Deadline, FailureLog, Recovery, source};

/// A [`FailureLog`] that remembers the state of a failure which was not logged, and when to report
/// it again.
#[derive(Debug)]
pub(crate) struct EventFailures<S> {
    log: Mutex<FailureLog>,
    due: watch::Sender<Option<(Instant, S)>>,
}

impl<S: Clone> EventFailures<S> {
    pub(crate) fn new() -> Self {
        Self {
            log: Mutex::default(),
            due: watch::Sender::new(None),
        }
    }

    /// Records a failure, and the state to report again. Returns whether to log it.
    #[must_use]
    pub(crate) fn failed(&self, failure: impl Display, state: &S) -> bool {
        let (is_logged, due) = {
            let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
            (log.failed(failure, source::now()), log.due())
        };
        self.due.send_replace(due.map(|at| (at, state.clone())));
        is_logged
    }

    /// Records that the task works. Returns what to log, as [`FailureLog::recovered`] does.
    #[must_use]
    pub(crate) fn recovered(&self) -> Option<Recovery> {
        self.due.send_replace(None);
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recovered(source::now())
    }

    /// Records that the task neither works nor fails: the latest failure is not reported again.
    pub(crate) fn superseded(&self) {
        self.due.send_replace(None);
    }

    /// Waits until a failure that was not logged has lasted until it is due. Returns its state,
    /// which the caller reports again.
    pub(crate) async fn due(&self, client: &CuratorClient) -> S {
        let mut changes = self.due.subscribe();
        loop {
            let due = changes.borrow_and_update().clone();
            let until_due = async {
                match due {
                    Some((at, state)) => {
                        client
                            .sleep_until(Deadline::after(
                                at.saturating_duration_since(source::now()),
                            ))
                            .await;
                        state
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                // The sender lives in `self`, so the channel cannot be closed.
                _ = changes.changed() => {}
                state = until_due => return state,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn a_failure_that_was_not_logged_is_due_unless_another_state_follows() {
        let client = CuratorClient::builder("127.0.0.1:1").start().unwrap();
        let failures = EventFailures::new();
        for state in 0..3 {
            assert!(failures.failed("invalid", &state));
            assert!(failures.recovered().is_some());
        }
        assert!(!failures.failed("invalid", &3));
        assert!(matches!(*failures.due.borrow(), Some((_, 3))));
        failures.superseded();
        let mut due = std::pin::pin!(failures.due(&client));
        assert!(poll!(&mut due).is_pending());
        // The interval has ended.
        failures.due.send_replace(Some((Instant::now(), 4)));
        assert_eq!(due.await, 4);
    }
}
