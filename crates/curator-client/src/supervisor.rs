//! The one task that keeps a session alive, and opens another when it is lost.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinHandle;

use crate::clock::ClockInstant;
use crate::error::{Error, Result, SessionEnd};
use crate::janitor::JanitorQueue;
use crate::retry::{Persistently, Retrier};
use crate::session::Session;
use crate::shared::Shared;
use crate::state::ConnectionState;
use crate::take_over::TakeOver;
use crate::timer::Deadline;
use crate::zk::link::{Link, LinkState, LinkStates};
use crate::zk::nodelay::Peers;

/// A session that has answered a probe, and what is needed to watch over it.
struct Opened {
    session: Session,
    states: LinkStates,
    peers: Peers,
}

/// Owns the session of now, and the janitor's task.
///
/// Ends when the client closes. If the runtime drops it instead, the session ends for everybody all the same.
pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    opened: Opened,
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
                    Ok(opened) => return Ok(opened),
                    Err(error) => {
                        last = Some(error.clone());
                        retrier.pause(error).await?;
                    }
                }
            }
        };
        let opened = tokio::select! {
            opened = opening => opened,
            () = shared.timer.sleep(shared.options.connection_timeout) => {
                Err(last.unwrap_or_else(|| failed(shared, "no server answered the handshake")))
            }
        };
        let opened = opened?;
        shared.current.send_replace(Some(opened.session.clone()));
        // Only now, so that a connect that fails or is dropped leaves no task behind.
        let janitor = tokio::spawn(queue.work(Arc::clone(shared)));
        Ok(Self { shared: Arc::clone(shared), opened, janitor })
    }

    /// Runs until the client closes.
    pub(crate) async fn run(mut self) {
        loop {
            let end = self.keep().await;
            self.opened.session.finish(end);
            if end == SessionEnd::Closed {
                break;
            }
            tracing::warn!(session = format_args!("{:#x}", self.opened.session.id()), %end, "session lost");
            self.shared.states.publish(ConnectionState::Lost);
            let Some(opened) = self.reopen().await else { break };
            self.opened = opened;
            self.shared.current.send_replace(Some(self.opened.session.clone()));
            self.shared.states.publish(ConnectionState::Reconnected);
        }
        let confirmed = tokio::select! {
            () = self.opened.states.terminated() => true,
            () = self.shared.timer.sleep(self.shared.options.close_timeout) => false,
        };
        self.shared.finish(confirmed);
    }

    /// Keeps the session until it ends, and says why it ended.
    async fn keep(&mut self) -> SessionEnd {
        let Self { shared, opened: Opened { session, states, peers }, .. } = self;
        let interval = session.lease().probe_interval();
        let mut closing = std::pin::pin!(shared.closing_and_drained());
        let mut probes = FuturesUnordered::new();
        let mut next_probe = Deadline::after(interval);
        let mut take_over = TakeOver::new(shared);
        let mut link = LinkState::Connected;
        let mut link_since = ClockInstant::now();
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
                state = next_state(session, states, peers, &mut take_over) => {
                    link = state;
                    take_over.note(state);
                    match state {
                        LinkState::Expired | LinkState::Closed => return SessionEnd::Expired,
                        LinkState::AuthFailed => return SessionEnd::AuthFailed,
                        LinkState::Disconnected => {}
                        LinkState::Connected => {
                            peers.set_nodelay();
                            next_probe = Deadline::after(Duration::ZERO);
                        }
                    }
                    // What was sent over the old connection is lost. The crate merges states, so even "connected" after
                    // "connected" was an interruption.
                    awaited = None;
                    link_since = ClockInstant::now();
                    session.set_connected(false);
                    Some(link_since)
                }
                Some((sent, answer)) = probes.next(), if !probes.is_empty() => match answer {
                    Ok(()) => {
                        session.lease().probe_answered(sent);
                        awaited = awaited.filter(|awaited| *awaited > sent);
                        if link == LinkState::Connected && sent >= link_since {
                            session.set_connected(true);
                            take_over.confirmed();
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
                    // While the connection is down the crate would only queue it; the change of state sends one.
                    if link == LinkState::Connected {
                        awaited = Some(now);
                        probes.push(session.probe());
                    }
                    overdue.then_some(now)
                }
                () = shared.timer.sleep(left) => None,
            };
            if let Some(since) = in_doubt {
                doubt_since = since;
                shared.states.publish(ConnectionState::Suspended);
            }
        }
    }

    /// Opens sessions until one stands. `None` when the client closes.
    async fn reopen(&self) -> Option<Opened> {
        let shared = &self.shared;
        let mut retrier = Retrier::with_policy(shared, Arc::new(Persistently));
        loop {
            let opened = tokio::select! {
                biased;
                () = shared.closing() => return None,
                opened = open(shared, self.opened.session.epoch() + 1) => opened,
            };
            match opened {
                Ok(opened) => return Some(opened),
                // A service that is up for weeks must not need a restart to get its locks back: whatever the reason,
                // it is tried again.
                Err(error) => retrier.pause(failed(shared, &error.to_string())).await.ok()?,
            }
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.opened.session.finish(SessionEnd::Closed);
        self.janitor.abort();
        self.shared.close();
        self.shared.finish(false);
    }
}

/// The next change of the connection, by the crate or because the session was taken over from it.
async fn next_state(
    session: &Session,
    states: &mut LinkStates,
    peers: &mut Peers,
    take_over: &mut TakeOver,
) -> LinkState {
    let resumed = tokio::select! {
        biased;
        state = states.changed() => return state,
        resumed = take_over.resumed(session) => resumed,
    };
    match resumed {
        Ok(link) => {
            (*states, *peers) = (link.states(), link.peers());
            session.replace_link(link);
            LinkState::Connected
        }
        Err(end) => end,
    }
}

/// One try, no longer than the connection timeout.
async fn open(shared: &Shared, epoch: u64) -> Result<Opened> {
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
        let (states, peers) = (link.states(), link.peers());
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
        Ok(Opened { session, states, peers })
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
