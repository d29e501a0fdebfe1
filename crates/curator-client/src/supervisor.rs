//! The task that keeps a session alive, and opens another when it is lost.

use std::future::ready;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinSet;

use crate::clock::ClockInstant;
use crate::closing::Closing;
use crate::connection::{Change, Connection, close_session};
use crate::error::{Result, SessionEnd};
use crate::options::SessionOptions;
use crate::retrier::Retrier;
use crate::retry_policy::Unlimited;
use crate::session::Session;
use crate::sessions::Sessions;
use crate::state::{ConnectionState, ConnectionStateManager};
use crate::timer::{Deadline, Timer};
use crate::zk::link::Link;
use crate::zk::task::LinkEnd;

/// Owns the current session.
///
/// Ends when the client closes. If the runtime drops it instead, the session nevertheless ends for everyone.
pub(crate) struct Supervisor {
    options: Arc<SessionOptions>,
    timer: Timer,
    closing: Closing,
    sessions: Arc<Sessions>,
    states: Arc<ConnectionStateManager>,
    /// This session has answered a probe.
    session: Session,
    /// Sessions that are over here, and are being closed on the servers, so that no one has to wait for their nodes.
    /// Each one finally tells whether it is over there, too.
    given_up: FuturesUnordered<BoxFuture<'static, bool>>,
}

impl Supervisor {
    /// Opens the first session: the client is connected when this returns.
    ///
    /// # Errors
    ///
    /// When no session is established within the connection timeout, or at once when the server refuses the credentials.
    pub(crate) async fn connect(
        options: &Arc<SessionOptions>,
        timer: &Timer,
        closing: &Closing,
        sessions: &Arc<Sessions>,
        states: &Arc<ConnectionStateManager>,
    ) -> Result<Self> {
        let mut retrier = Retrier::new(Arc::new(Unlimited), timer).until(closing);
        let mut last = None;
        let opening = async {
            loop {
                match Session::open(1, options, timer).await {
                    Ok(session) => return Ok(session),
                    Err(error) => {
                        last = Some(error.clone());
                        retrier.pause(error).await?;
                    }
                }
            }
        };
        let session = tokio::select! {
            session = opening => session,
            () = timer.sleep(options.connection_timeout) => {
                Err(last.unwrap_or_else(|| options.connect_failed("no server answered the handshake")))
            }
        };
        let session = session?;
        sessions.replace(session.clone());
        Ok(Self {
            options: Arc::clone(options),
            timer: timer.clone(),
            closing: closing.clone(),
            sessions: Arc::clone(sessions),
            states: Arc::clone(states),
            session,
            given_up: FuturesUnordered::new(),
        })
    }

    /// Keeps a session open until `drained` completes, that is, until the client closes and nothing is left to do in the
    /// session.
    ///
    /// The tasks of `worker` end with this one, however it ends.
    pub(crate) async fn run(mut self, drained: impl Future<Output = ()>, worker: JoinSet<()>) {
        // Dropping it aborts its tasks.
        let _worker = worker;
        let mut drained = pin!(drained);
        loop {
            let end = self.keep(drained.as_mut()).await;
            let link = self.session.finish(end);
            if end != SessionEnd::Closed {
                tracing::warn!(session = format_args!("{:#x}", self.session.id()), %end, "session lost");
                self.states.publish(ConnectionState::Lost);
            }
            if let Some(link) = link {
                self.give_up(link);
            }
            if end == SessionEnd::Closed {
                break;
            }
            let Some(session) = self.reopen().await else { break };
            self.session = session;
            self.sessions.replace(self.session.clone());
            self.states.publish(ConnectionState::Reconnected);
        }
        let confirmed = tokio::select! {
            biased;
            confirmed = self.given_up.by_ref().fold(true, |all, is_over| ready(all & is_over)) => confirmed,
            () = self.timer.sleep(self.options.close_timeout) => false,
        };
        self.finish(confirmed);
    }

    /// Keeps the session until it ends, and returns why it ended.
    async fn keep(&mut self, mut drained: Pin<&mut impl Future<Output = ()>>) -> SessionEnd {
        let Self { options, timer, states, session, given_up, .. } = self;
        let Some(link) = session.link() else { return SessionEnd::Expired };
        let mut connection = Connection::new(options, timer, &link);
        drop(link);
        let interval = session.lease().probe_interval();
        let mut probes = FuturesUnordered::new();
        let mut next_probe = Deadline::after(interval);
        let mut connected_since = ClockInstant::now();
        // Only the answer to a probe that was sent after the last doubt began ends the doubt.
        let mut doubt_since = ClockInstant::now();
        // The latest probe, while it is unanswered. An older one whose answer was lost no longer counts once a later one
        // has been answered.
        let mut awaited = None;
        loop {
            let left = session.lease().remaining();
            if left.is_zero() {
                return SessionEnd::LeaseOver;
            }
            let in_doubt = tokio::select! {
                biased;
                () = &mut drained => return SessionEnd::Closed,
                change = connection.changed() => {
                    match change {
                        Change::Over(LinkEnd::AuthFailed) => return SessionEnd::AuthFailed,
                        Change::Over(_) => return SessionEnd::Expired,
                        // Before anything else is sent: anyone who sees "connected" may rely on it.
                        Change::Broken => session.set_connected(false),
                        Change::Resumed(link) => {
                            let granted = link.session_timeout();
                            session.replace_link(link);
                            if granted < session.timeout() {
                                return SessionEnd::TimeoutLowered { granted };
                            }
                            next_probe = Deadline::after(Duration::ZERO);
                        }
                    }
                    // The answers to what was sent over the old connection are lost.
                    awaited = None;
                    connected_since = ClockInstant::now();
                    Some(connected_since)
                }
                Some((sent, answer)) = probes.next(), if !probes.is_empty() => match answer {
                    Ok(()) => {
                        session.lease().probe_answered(sent);
                        awaited = awaited.filter(|awaited| *awaited > sent);
                        if connection.is_up() && sent >= connected_since {
                            session.set_connected(true);
                            connection.confirmed();
                        }
                        if session.is_valid() && session.is_connected() && sent >= doubt_since {
                            states.publish_confirmed();
                        }
                        None
                    }
                    Err(error) => {
                        tracing::debug!(%error, "probe failed");
                        // The end of an older probe means nothing: a later one has been answered, or will be.
                        awaited.take_if(|awaited| *awaited <= sent).map(|_| ClockInstant::now())
                    }
                },
                () = timer.sleep_until(next_probe) => {
                    next_probe = Deadline::after(interval);
                    let now = ClockInstant::now();
                    let overdue = awaited.is_some();
                    // The next connection begins with a probe.
                    if connection.is_up() {
                        awaited = Some(now);
                        probes.push(session.probe());
                    }
                    overdue.then_some(now)
                }
                Some(_) = given_up.next(), if !given_up.is_empty() => None,
                () = timer.sleep(left) => None,
            };
            if let Some(since) = in_doubt {
                doubt_since = since;
                states.publish(ConnectionState::Suspended);
            }
        }
    }

    /// Makes sure that the session of `link` ends on the servers too; tries for as long as it can be alive there.
    fn give_up(&self, link: Link) {
        // The servers round it up to their next tick, and the timeout is at least two ticks.
        let limit = self.session.timeout() * 3 / 2;
        let closed = close_session(Arc::clone(&self.options), self.timer.clone(), link, limit);
        self.given_up.push(Box::pin(closed));
    }

    /// Opens sessions until one is established. `None` when the client closes.
    async fn reopen(&mut self) -> Option<Session> {
        let Self { options, timer, closing, session, given_up, .. } = self;
        let mut retrier = Retrier::new(Arc::new(Unlimited), timer).until(closing);
        let reopening = async {
            loop {
                let opened = tokio::select! {
                    biased;
                    () = closing.begun() => return None,
                    opened = Session::open(session.epoch() + 1, options, timer) => opened,
                };
                match opened {
                    Ok(session) => return Some(session),
                    // A service that is up for weeks must not need a restart to get its locks back: whatever the reason,
                    // the client tries again.
                    Err(error) => retrier.pause(options.connect_failed(error.to_string())).await.ok()?,
                }
            }
        };
        let mut reopening = pin!(reopening);
        loop {
            tokio::select! {
                biased;
                session = &mut reopening => return session,
                Some(_) = given_up.next(), if !given_up.is_empty() => {}
            }
        }
    }

    fn finish(&self, confirmed: bool) {
        self.states.close();
        self.closing.finish(confirmed);
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.session.finish(SessionEnd::Closed);
        // Before the timers end: those who wait look at this first.
        self.closing.begin();
        self.timer.end();
        self.finish(false);
    }
}
