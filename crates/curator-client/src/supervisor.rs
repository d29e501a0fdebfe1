//! The one task that keeps a session alive, and opens another when it is lost.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinHandle;

use crate::clock::ClockInstant;
use crate::connection::{Change, Connection, close_session};
use crate::error::{Error, Result, SessionEnd};
use crate::janitor::JanitorQueue;
use crate::retry::{Persistently, Retrier};
use crate::session::Session;
use crate::shared::Shared;
use crate::state::ConnectionState;
use crate::timer::Deadline;
use crate::zk::link::Link;
use crate::zk::task::LinkEnd;

/// Owns the session of now, and the janitor's task.
///
/// Ends when the client closes. If the runtime drops it instead, the session ends for everybody all the same.
pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    /// It has answered a probe.
    session: Session,
    /// Sessions that are over here, and are being closed on the servers, so that nobody waits for their nodes. Each says at
    /// last whether it is over there, too.
    given_up: FuturesUnordered<BoxFuture<'static, bool>>,
    janitor: JoinHandle<()>,
}

impl Supervisor {
    /// Opens the first session: the client is connected when this returns.
    ///
    /// # Errors
    ///
    /// When there is none within the connection timeout, or at once when the server refuses the credentials.
    pub(crate) async fn connect(shared: &Arc<Shared>, queue: JanitorQueue) -> Result<Self> {
        let mut retrier = Retrier::with_policy(shared, Arc::new(Persistently));
        let mut last = None;
        let opening = async {
            loop {
                match open(shared, 1).await {
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
            () = shared.timer.sleep(shared.options.connection_timeout) => {
                Err(last.unwrap_or_else(|| failed(shared, "no server answered the handshake")))
            }
        };
        let session = session?;
        shared.current.send_replace(Some(session.clone()));
        // Only now, so that a connect that fails or is dropped leaves no task behind.
        let janitor = tokio::spawn(queue.work(Arc::clone(shared)));
        Ok(Self { shared: Arc::clone(shared), session, given_up: FuturesUnordered::new(), janitor })
    }

    /// Runs until the client closes.
    pub(crate) async fn run(mut self) {
        loop {
            let end = self.keep().await;
            let link = self.session.finish(end);
            if end != SessionEnd::Closed {
                tracing::warn!(session = format_args!("{:#x}", self.session.id()), %end, "session lost");
                self.shared.states.publish(ConnectionState::Lost);
            }
            if let Some(link) = link {
                self.give_up(link);
            }
            if end == SessionEnd::Closed {
                break;
            }
            let Some(session) = self.reopen().await else { break };
            self.session = session;
            self.shared.current.send_replace(Some(self.session.clone()));
            self.shared.states.publish(ConnectionState::Reconnected);
        }
        let confirmed = tokio::select! {
            biased;
            confirmed = self.given_up.by_ref().fold(true, |all, is_over| ready(all & is_over)) => confirmed,
            () = self.shared.timer.sleep(self.shared.options.close_timeout) => false,
        };
        self.shared.finish(confirmed);
    }

    /// Keeps the session until it ends, and says why it ended.
    async fn keep(&mut self) -> SessionEnd {
        let Self { shared, session, given_up, .. } = self;
        let Some(link) = session.link() else { return SessionEnd::Expired };
        let mut connection = Connection::new(shared, &link);
        drop(link);
        let interval = session.lease().probe_interval();
        let mut closing = std::pin::pin!(shared.closing_and_drained());
        let mut probes = FuturesUnordered::new();
        let mut next_probe = Deadline::after(interval);
        let mut connected_since = ClockInstant::now();
        // Only the answer to a probe that was sent after the last doubt ends the doubt.
        let mut doubt_since = ClockInstant::now();
        // The latest probe, while it has no answer. An older one whose answer was lost does not count once a later one
        // has come back.
        let mut awaited = None;
        loop {
            let left = session.lease().remaining();
            if left.is_zero() {
                return SessionEnd::LeaseOver;
            }
            let in_doubt = tokio::select! {
                biased;
                () = &mut closing => return SessionEnd::Closed,
                change = connection.changed() => {
                    match change {
                        Change::Over(LinkEnd::AuthFailed) => return SessionEnd::AuthFailed,
                        Change::Over(_) => return SessionEnd::Expired,
                        // Before anything else is sent: whoever is told "connected" may rely on it.
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
                    // What was sent over the old connection is lost.
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
                            shared.states.publish_confirmed();
                        }
                        None
                    }
                    Err(error) => {
                        tracing::debug!(%error, "probe failed");
                        // The end of an older one says nothing: a later one has come back, or will tell.
                        awaited.take_if(|awaited| *awaited <= sent).map(|_| ClockInstant::now())
                    }
                },
                () = shared.timer.sleep_until(next_probe) => {
                    next_probe = Deadline::after(interval);
                    let now = ClockInstant::now();
                    let overdue = awaited.is_some();
                    // The next connection begins with one.
                    if connection.is_up() {
                        awaited = Some(now);
                        probes.push(session.probe());
                    }
                    overdue.then_some(now)
                }
                Some(_) = given_up.next(), if !given_up.is_empty() => None,
                () = shared.timer.sleep(left) => None,
            };
            if let Some(since) = in_doubt {
                doubt_since = since;
                shared.states.publish(ConnectionState::Suspended);
            }
        }
    }

    /// Sees to it that the session of `link` ends on the servers too, for as long as it can be alive there.
    fn give_up(&self, link: Link) {
        // The servers round it up to their next tick, of which it has two at least.
        let limit = self.session.timeout() * 3 / 2;
        self.given_up.push(Box::pin(close_session(Arc::clone(&self.shared), link, limit)));
    }

    /// Opens sessions until one stands. `None` when the client closes.
    async fn reopen(&mut self) -> Option<Session> {
        let Self { shared, session, given_up, .. } = self;
        let mut retrier = Retrier::with_policy(shared, Arc::new(Persistently));
        let reopening = async {
            loop {
                let opened = tokio::select! {
                    biased;
                    () = shared.closing() => return None,
                    opened = open(shared, session.epoch() + 1) => opened,
                };
                match opened {
                    Ok(session) => return Some(session),
                    // A service that is up for weeks must not need a restart to get its locks back: whatever the reason,
                    // it is tried again.
                    Err(error) => retrier.pause(failed(shared, &error.to_string())).await.ok()?,
                }
            }
        };
        let mut reopening = std::pin::pin!(reopening);
        loop {
            tokio::select! {
                biased;
                session = &mut reopening => return session,
                Some(_) = given_up.next(), if !given_up.is_empty() => {}
            }
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.session.finish(SessionEnd::Closed);
        self.janitor.abort();
        // Before the timers end: who waits looks at this first.
        self.shared.close();
        self.shared.timer.end();
        self.shared.finish(false);
    }
}

/// One try, no longer than the connection timeout.
async fn open(shared: &Shared, epoch: u64) -> Result<Session> {
    let connect_sent = ClockInstant::now();
    let attempt = async {
        let link = match Link::open(&shared.options.link).await {
            Ok(link) => link,
            Err(error) if Link::is_refusal(&error) => {
                return Err(Error::ConnectRefused {
                    connect_string: shared.options.connect_string.clone(),
                    cause: error.to_string(),
                });
            }
            Err(error) => return Err(failed(shared, &error.to_string())),
        };
        let session = Session::new(epoch, link, connect_sent, shared.options.limits, shared.timer.clone());
        let (sent, answer) = session.probe().await;
        answer.map_err(|error| failed(shared, &error.to_string()))?;
        session.lease().probe_answered(sent);
        // Servers that did not answer were tried first, or the answers were slow. The next two probes have to come back
        // within what is left of the lease, so it is better to begin again.
        if session.lease().remaining() < session.timeout() / 2 {
            return Err(failed(shared, "the handshake took so long that the session could not be relied on"));
        }
        session.set_connected(true);
        Ok(session)
    };
    tokio::select! {
        opened = attempt => opened,
        () = shared.timer.sleep(shared.options.connection_timeout) => Err(failed(shared, "no server answered the handshake")),
    }
}

fn failed(shared: &Shared, cause: &str) -> Error {
    Error::ConnectFailed {
        connect_string: shared.options.connect_string.clone(),
        after: shared.options.connection_timeout,
        cause: cause.to_owned(),
    }
}
