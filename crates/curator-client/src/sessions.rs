//! Gives access to a client's current session, and waits for its connection.

use std::sync::Arc;
use std::time::Duration;

use crate::closing::Closing;
use crate::error::{Error, Result, SessionEnd};
use crate::journal::Journal;
use crate::options::SessionOptions;
use crate::session::Session;
use crate::source::watch;
use crate::time::Timer;
use crate::transport::LinkEnd;

/// Gives access to the current session. The supervisor replaces it after a loss.
#[derive(Debug)]
pub(crate) struct Sessions {
    options: Arc<SessionOptions>,
    timer: Timer,
    closing: Closing,
    journal: Arc<Journal>,
    current: watch::Sender<Option<Session>>,
}

impl Sessions {
    pub(crate) fn new(
        options: Arc<SessionOptions>,
        timer: Timer,
        closing: Closing,
        journal: Arc<Journal>,
    ) -> Self {
        Self {
            options,
            timer,
            closing,
            journal,
            current: watch::Sender::new(None),
        }
    }

    /// Makes `session` the current one. Calls `announce` before the session is visible: a caller
    /// that reacts to the announcement waits for the lock, and then finds the session.
    pub(crate) fn replace(&self, session: Session, announce: impl FnOnce()) {
        self.current.send_modify(|current| {
            *current = Some(session);
            announce();
        });
    }

    /// Ends the current session for all handles, without waiting for the servers. Returns the
    /// session, unless it was lost before.
    pub(crate) fn finish(&self) -> Option<Session> {
        let session = self.current.borrow().clone()?;
        if let Some(link) = session.finish(SessionEnd::Closed) {
            let task = link.task();
            // If this is the last handle, the drop sends the request to close the session. Its
            // reply is not awaited.
            drop(link);
            task.abort(LinkEnd::Closed);
        }
        if session.end() == Some(SessionEnd::Closed) {
            Some(session)
        } else {
            None
        }
    }

    /// Waits until a session with a later epoch than `epoch` was opened.
    pub(crate) async fn opened_after(&self, epoch: u64) {
        // The sender lives in `self`, so the channel cannot be closed.
        let _ = self
            .current
            .subscribe()
            .wait_for(|session: &Option<Session>| {
                session
                    .as_ref()
                    .is_some_and(|session| session.epoch() > epoch)
            })
            .await;
    }

    /// The current session, unless it has ended; its connection may be down.
    pub(crate) fn current(&self) -> Option<Session> {
        self.current
            .borrow()
            .clone()
            .filter(|session| session.end().is_none())
    }

    /// The current session, if it has a connection.
    pub(crate) fn try_connected(&self) -> Result<Session> {
        if self.closing.has_begun() {
            return Err(self.closing.error());
        }
        self.current()
            .filter(Session::is_connected)
            .ok_or_else(|| self.not_connected(Duration::ZERO))
    }

    /// Returns the current session, once it has a connection; waits for the connection no longer
    /// than the connection timeout.
    pub(crate) async fn connected(&self) -> Result<Session> {
        self.connected_within(self.options.connection_timeout).await
    }

    /// Like [`connected`](Self::connected), but waits no longer than `limit`.
    pub(crate) async fn connected_within(&self, limit: Duration) -> Result<Session> {
        tokio::select! {
            biased;
            () = self.closing.begun() => Err(self.closing.error()),
            session = self.in_time(limit, self.next_connected()) => session?,
        }
    }

    /// Like [`connected`](Self::connected), for work that a closing client waits for.
    pub(crate) async fn connected_even_while_closing(&self) -> Result<Session> {
        self.in_time(self.options.connection_timeout, self.next_connected())
            .await?
    }

    /// Waits until `session` has a connection or has ended, no longer than the connection timeout.
    pub(crate) async fn connection_of(&self, session: &Session) -> Result<Result<(), SessionEnd>> {
        tokio::select! {
            biased;
            () = self.closing.begun() => Err(self.closing.error()),
            connected = self.in_time(self.options.connection_timeout, session.connected()) => connected,
        }
    }

    async fn next_connected(&self) -> Result<Session> {
        let mut sessions = self.current.subscribe();
        loop {
            let found = sessions
                .wait_for(|session: &Option<Session>| {
                    session
                        .as_ref()
                        .is_some_and(|session| session.end().is_none())
                })
                .await
                .ok()
                .and_then(|session| session.clone());
            let session = found.ok_or_else(|| self.closing.error())?;
            if session.connected().await.is_ok() {
                return Ok(session);
            }
        }
    }

    async fn in_time<T>(&self, limit: Duration, connected: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            connected = connected => Ok(connected),
            () = self.timer.sleep(limit) => Err(self.not_connected(limit)),
        }
    }

    pub(crate) fn not_connected(&self, after: Duration) -> Error {
        self.options.not_connected(after, self.journal.cause())
    }
}
