//! The sessions of a client, one of which is current at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::closing::Closing;
use crate::error::{Error, Result, SessionEnd};
use crate::options::SessionOptions;
use crate::session::Session;
use crate::timer::Timer;

/// Gives access to the current session. The supervisor replaces it after a loss.
#[derive(Debug)]
pub(crate) struct Sessions {
    options: Arc<SessionOptions>,
    timer: Timer,
    closing: Closing,
    current: watch::Sender<Option<Session>>,
}

impl Sessions {
    pub(crate) fn new(options: Arc<SessionOptions>, timer: Timer, closing: Closing) -> Self {
        Self { options, timer, closing, current: watch::Sender::new(None) }
    }

    /// Makes `session` the current one.
    pub(crate) fn replace(&self, session: Session) {
        self.current.send_replace(Some(session));
    }

    /// The current session, unless it has ended; its connection may be down.
    pub(crate) fn current(&self) -> Option<Session> {
        self.current.borrow().clone().filter(|session| session.end().is_none())
    }

    /// The current session, if it has a connection.
    pub(crate) fn try_connected(&self) -> Result<Session> {
        if self.closing.has_begun() {
            return Err(Error::Closed);
        }
        self.current().filter(Session::is_connected).ok_or_else(|| self.options.not_connected(Duration::ZERO))
    }

    /// The current session, once it has a connection; waits for that no longer than the connection timeout.
    pub(crate) async fn connected(&self) -> Result<Session> {
        tokio::select! {
            biased;
            () = self.closing.begun() => Err(Error::Closed),
            session = self.connected_even_while_closing() => session,
        }
    }

    /// As [`connected`](Self::connected), for work that a closing client waits for.
    pub(crate) async fn connected_even_while_closing(&self) -> Result<Session> {
        self.in_time(self.next_connected()).await?
    }

    /// Waits until `session` has a connection or has ended, no longer than the connection timeout.
    pub(crate) async fn connection_of(&self, session: &Session) -> Result<Result<(), SessionEnd>> {
        tokio::select! {
            biased;
            () = self.closing.begun() => Err(Error::Closed),
            connected = self.in_time(session.connected()) => connected,
        }
    }

    async fn next_connected(&self) -> Result<Session> {
        let mut sessions = self.current.subscribe();
        let usable = |session: &Option<Session>| session.as_ref().is_some_and(|session| session.end().is_none());
        loop {
            let found = sessions.wait_for(usable).await.ok().and_then(|session| session.clone());
            let session = found.ok_or(Error::Closed)?;
            if session.connected().await.is_ok() {
                return Ok(session);
            }
        }
    }

    async fn in_time<T>(&self, connected: impl Future<Output = T>) -> Result<T> {
        let limit = self.options.connection_timeout;
        tokio::select! {
            biased;
            connected = connected => Ok(connected),
            () = self.timer.sleep(limit) => Err(self.options.not_connected(limit)),
        }
    }
}
