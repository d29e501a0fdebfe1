//! What the handles, the supervisor and the janitor of one client share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::error::{Error, Result, SessionEnd};
use crate::extensions::Extensions;
use crate::janitor::Janitor;
use crate::path::ZPath;
use crate::retry::RetryPolicy;
use crate::session::{Limits, Session};
use crate::state::StateBoard;
use crate::timer::Timer;
use crate::zk::Acl;
use crate::zk::link::LinkOptions;

/// The validated options of a client.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) connect_string: String,
    pub(crate) link: LinkOptions,
    pub(crate) connection_timeout: Duration,
    pub(crate) close_timeout: Duration,
    pub(crate) limits: Limits,
    pub(crate) retry_policy: Arc<dyn RetryPolicy>,
    /// The chroot of the connect string and the namespace in it: what is put before every path.
    pub(crate) root: ZPath,
    pub(crate) acl: Arc<[Acl]>,
    pub(crate) lock_data: Arc<[u8]>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) timer: Timer,
    pub(crate) states: StateBoard,
    pub(crate) janitor: Janitor,
    pub(crate) extensions: Extensions,
    /// The session of now; the supervisor replaces it after a loss.
    pub(crate) current: watch::Sender<Option<Session>>,
    closing: watch::Sender<bool>,
    /// Whether the server confirmed the end of the session, once all is over.
    finished: watch::Sender<Option<bool>>,
}

impl Shared {
    pub(crate) fn new(options: Options, timer: Timer, states: StateBoard, janitor: Janitor) -> Self {
        let current = watch::Sender::new(None);
        Self {
            options,
            timer,
            states,
            janitor,
            extensions: Extensions::default(),
            current,
            closing: watch::Sender::new(false),
            finished: watch::Sender::new(None),
        }
    }

    /// The current session, with a connection; waits for that no longer than the connection timeout.
    pub(crate) async fn session(&self) -> Result<Session> {
        tokio::select! {
            biased;
            () = self.closing() => Err(Error::Closed),
            session = self.session_even_while_closing() => session,
        }
    }

    pub(crate) async fn session_even_while_closing(&self) -> Result<Session> {
        tokio::select! {
            biased;
            session = self.connected_session() => session,
            () = self.timer.sleep(self.options.connection_timeout) => {
                Err(self.not_connected(self.options.connection_timeout))
            }
        }
    }

    async fn connected_session(&self) -> Result<Session> {
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

    /// Waits until `session` has a connection, no longer than the connection timeout, or is over.
    pub(crate) async fn connection_of(&self, session: &Session) -> Result<Result<(), SessionEnd>> {
        tokio::select! {
            biased;
            () = self.closing() => Err(Error::Closed),
            connected = session.connected() => Ok(connected),
            () = self.timer.sleep(self.options.connection_timeout) => {
                Err(self.not_connected(self.options.connection_timeout))
            }
        }
    }

    pub(crate) fn not_connected(&self, after: Duration) -> Error {
        Error::NotConnected { connect_string: self.options.connect_string.clone(), after }
    }

    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Waits until the client begins to close and the janitor has nothing left to do, or the time for that is over.
    pub(crate) async fn closing_and_drained(&self) {
        self.closing().await;
        tokio::select! {
            () = self.janitor.idle() => {}
            () = self.timer.sleep(self.options.close_timeout) => {}
        }
    }

    /// Everything is over. The first word stays.
    pub(crate) fn finish(&self, confirmed: bool) {
        self.states.close();
        self.finished.send_if_modified(|finished| {
            let first = finished.is_none();
            finished.get_or_insert(confirmed);
            first
        });
    }

    /// Waits until everything is over: whether the server confirmed the end of the session.
    pub(crate) async fn finished(&self) -> bool {
        let mut finished = self.finished.subscribe();
        finished.wait_for(Option::is_some).await.is_ok_and(|confirmed| *confirmed == Some(true))
    }

    /// Waits until the client begins to close.
    pub(crate) async fn closing(&self) {
        // The sender lives in `self`, so the channel cannot be closed while this waits.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }
}
