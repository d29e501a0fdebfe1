//! Reports the state that a task has read, and the failures that the task sees only once.

use std::convert::Infallible;
use std::fmt::{self, Debug, Display, Formatter};
use std::future::pending;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use curator_client::source::watch;
use curator_client::{CuratorClient, Deadline, FailureLog, Recovery, source, text};

/// A text in the log of a recipe: its first 300 characters.
pub(crate) struct Truncated<T>(pub(crate) T);

impl<T: Display> Display for Truncated<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:.300}", text::Truncated(&self.0))
    }
}

/// A state that is known only while there is a connection.
pub(crate) trait ReportedState: Clone + Debug {
    /// The state reported before the first read, and without a recently confirmed connection.
    fn unknown() -> Self;

    /// Whether this state is the same as `reported`. Compares texts, because errors cannot be
    /// compared.
    fn repeats(&self, reported: &Self) -> bool {
        format!("{self:?}") == format!("{reported:?}")
    }
}

/// The sender of a state. Clones are handles to the same sender.
#[derive(Debug, Clone)]
pub(crate) struct StateSender<S> {
    client: CuratorClient,
    /// The state read last.
    pub(crate) read: watch::Sender<S>,
    pub(crate) reported: watch::Sender<S>,
}

impl<S: ReportedState> StateSender<S> {
    pub(crate) fn new(client: &CuratorClient) -> Self {
        let read = watch::Sender::new(S::unknown());
        let reported = watch::Sender::new(S::unknown());
        Self {
            client: client.clone(),
            read,
            reported,
        }
    }

    /// Records the state that was read; it is reported while there is a connection. Returns whether
    /// the reported state changed.
    pub(crate) fn set(&self, read: S) -> bool {
        self.read.send_replace(read);
        self.refresh()
    }

    /// Records that the state read last may be outdated. It stays reported until the next
    /// [`refresh`](Self::refresh).
    pub(crate) fn forget(&self) {
        self.read.send_replace(S::unknown());
    }

    /// Checks the connection again, and reports the matching state. Returns whether the reported
    /// state changed.
    pub(crate) fn refresh(&self) -> bool {
        let is_connected = self.client.check_connected().is_ok();
        let state = if is_connected {
            self.read.borrow().clone()
        } else {
            S::unknown()
        };
        self.report(state)
    }

    /// Checks the connection at each of its changes. Poll this future after the future that reads
    /// the state, so that events of a watch are processed before changes of the connection.
    pub(crate) async fn follow_connection(&self) -> Infallible {
        let mut connection = self.client.connection_states();
        let mut is_first = true;
        while connection.next().await.is_some() {
            // The first item is the present state, which is not a change: with a connection, a
            // state that was just forgotten stays reported. But a state that was read without a
            // connection must be reported now.
            let is_kept = std::mem::take(&mut is_first)
                && !self.is_read()
                && self.client.check_connected().is_ok();
            if !is_kept {
                self.refresh();
            }
        }
        // The client is closing, which ends the task.
        pending().await
    }

    /// Whether a state was read, and not forgotten since.
    fn is_read(&self) -> bool {
        !self.read.borrow().repeats(&S::unknown())
    }

    /// Reports this state, with or without a connection.
    pub(crate) fn report(&self, state: S) -> bool {
        self.reported.send_if_modified(|reported| {
            let is_new = !state.repeats(reported);
            if is_new {
                *reported = state;
            }
            is_new
        })
    }
}

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
        self.due
            .send_replace(due.map(|due_at| (due_at, state.clone())));
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
                    Some((due_at, state)) => {
                        client
                            .sleep_until(Deadline::after(
                                due_at.saturating_duration_since(source::now()),
                            ))
                            .await;
                        state
                    }
                    None => pending().await,
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
    use curator_test::{EmbeddedServer, FaultProxy, soon, until};
    use futures_util::poll;

    use super::*;

    impl ReportedState for Option<u32> {
        fn unknown() -> Self {
            None
        }
    }

    #[tokio::test]
    async fn a_state_that_was_set_during_an_outage_is_reported_when_the_connection_is_followed_after_it()
     {
        let server = EmbeddedServer::start().unwrap();
        let proxy = FaultProxy::start(server.address()).unwrap();
        let client = CuratorClient::builder(proxy.connect_string())
            .connect()
            .await
            .unwrap();
        proxy.refuse(true).unwrap();
        proxy.cut();
        until(async || client.check_connected().is_err()).await;
        let sender = StateSender::new(&client);
        assert!(!sender.set(Some(1)));
        proxy.refuse(false).unwrap();
        until(async || client.check_connected().is_ok()).await;
        let mut reported = sender.reported.subscribe();
        tokio::select! {
            biased;
            never = sender.follow_connection() => match never {},
            is_reported = soon(reported.wait_for(Option::is_some)) => assert_eq!(*is_reported.unwrap(), Some(1)),
        }
    }

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
