//! Resumes a session over another connection when its connection breaks, and closes a session on the
//! servers.
//!
//! A session gets another connection only here, so every connection is checked: the session and the
//! timeout that its server grants, and the time from which its replies count for the lease.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::Supervisor;
use crate::connect_string::HostPort;
use crate::diagnosis::Diagnosis;
use crate::ensemble::Ensemble;
use crate::journal::Journal;
use crate::link::{Link, LinkTask, SessionKey};
use crate::options::{ServerShare, SessionOptions};
use crate::retrier::Retrier;
use crate::retry_policy::Unlimited;
use crate::runtime::caught;
use crate::session::{OpenFailure, Session};
use crate::text::Truncated;
use crate::time::{ClockInstant, Deadline, Timer};
use crate::transport::{Granted, LinkEnd};

/// How long a new connection may leave its first probe unanswered. The limit doubles with each
/// connection that is closed, because the servers may be slow.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

type Resumed = Result<(Link, ClockInstant), LinkEnd>;

/// Watches the connection of one session.
pub(super) struct Connection {
    options: Arc<SessionOptions>,
    ensemble: Arc<Ensemble>,
    timer: Timer,
    journal: Arc<Journal>,
    granted: Granted,
    stage: Stage,
    answer_timeout: Duration,
}

enum Stage {
    /// There is a connection.
    Up {
        task: LinkTask,
        key: SessionKey,
        server: Arc<HostPort>,
        /// The deadline for the reply to the first probe over the connection, until it has arrived.
        unproven: Option<Deadline>,
    },
    /// The connection broke, and another one is being opened.
    Down(Pin<Box<dyn Future<Output = Resumed> + Send>>),
    /// The session has ended.
    Ended(LinkEnd),
}

impl Stage {
    fn up(link: &Link, unproven: Option<Deadline>) -> Self {
        let server = Arc::clone(link.server());
        Self::Up {
            task: link.task(),
            key: link.session_key(),
            server,
            unproven,
        }
    }
}

/// A change of the connection.
pub(super) enum Change {
    Broken,
    /// The instant is a time before the connect request was sent. If the server has opened another
    /// session instead, the link belongs to that other session, and [`Session::replace_link`] ends
    /// this session.
    Resumed(Link, ClockInstant),
    /// The server has ended the session.
    EndedByServer(LinkEnd),
}

impl Connection {
    /// Watches `link`, over which a probe of `session` was answered.
    pub(super) fn new(supervisor: &Supervisor, session: &Session, link: &Link) -> Self {
        let awaited = Arc::clone(session.lease().awaited_grant());
        let session = session.clone();
        Self {
            granted: Granted::new(move |id, timeout| session.granted(id, timeout), awaited),
            options: Arc::clone(&supervisor.options),
            ensemble: Arc::clone(&supervisor.ensemble),
            timer: supervisor.timer.clone(),
            journal: Arc::clone(&supervisor.journal),
            stage: Stage::up(link, None),
            answer_timeout: ANSWER_TIMEOUT,
        }
    }

    /// Records that the connection has answered a probe.
    pub(super) fn confirmed(&mut self) {
        if let Stage::Up { unproven, .. } = &mut self.stage {
            *unproven = None;
            self.answer_timeout = ANSWER_TIMEOUT;
        }
    }

    /// Ends the connection, if there is one, because no reply has arrived over it for
    /// `answer_limit`.
    pub(super) fn end(&self, answer_limit: Duration) {
        if let Stage::Up { task, server, .. } = &self.stage {
            self.journal
                .silent(&OpenFailure::silent(server, answer_limit));
            task.abort(LinkEnd::Lost);
        }
    }

    /// Waits for the next change.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped. Dropping a `Change::Resumed` that it has
    /// returned closes the session.
    pub(super) async fn changed(&mut self) -> Change {
        match &mut self.stage {
            Stage::Up {
                task,
                key,
                server,
                unproven,
            } => {
                let end = tokio::select! {
                    biased;
                    end = task.ended() => end,
                    () = wait_until(&self.timer, *unproven) => {
                        self.journal.failed(&OpenFailure::unanswered(server, self.answer_timeout));
                        self.answer_timeout = self.answer_timeout.saturating_mul(2);
                        task.abort(LinkEnd::Lost);
                        LinkEnd::Lost
                    }
                };
                if end != LinkEnd::Lost {
                    self.stage = Stage::Ended(end);
                    return Change::EndedByServer(end);
                }
                let journal = Some(Arc::clone(&self.journal));
                let options = Arc::clone(&self.options);
                let ensemble = Arc::clone(&self.ensemble);
                let timer = self.timer.clone();
                let granted = self.granted.clone();
                let resuming = resume(options, ensemble, timer, journal, key.clone(), granted);
                self.stage = Stage::Down(Box::pin(resuming));
                Change::Broken
            }
            Stage::Down(resuming) => match resuming.as_mut().await {
                Ok((link, connect_sent)) => {
                    self.stage = Stage::up(&link, Some(Deadline::after(self.answer_timeout)));
                    Change::Resumed(link, connect_sent)
                }
                Err(end) => {
                    self.stage = Stage::Ended(end);
                    Change::EndedByServer(end)
                }
            },
            Stage::Ended(end) => Change::EndedByServer(*end),
        }
    }
}

/// Waits until the deadline; forever, if there is none.
async fn wait_until(timer: &Timer, deadline: Option<Deadline>) {
    match deadline {
        Some(deadline) => timer.sleep_until(deadline).await,
        None => pending().await,
    }
}

/// Opens another connection for the session: immediately, and then with the pauses of `Unlimited`,
/// until an attempt succeeds or a server reports that the session has ended. `journal` records the
/// failures.
async fn resume(
    options: Arc<SessionOptions>,
    ensemble: Arc<Ensemble>,
    timer: Timer,
    journal: Option<Arc<Journal>>,
    session: SessionKey,
    granted: Granted,
) -> Resumed {
    let client = &*options.name;
    let report = |cause: &str| {
        if let Some(journal) = &journal {
            journal.record_progress(cause);
        }
    };
    let mut diagnosis = Diagnosis::new(&options, ensemble.servers(false), &report);
    // Short at first, because a silent server must not use up the session's lease.
    let mut share = ServerShare::begin(ANSWER_TIMEOUT, &options);
    // Does not stop when the client closes: a closing client may have deletes to send before it
    // ends the session.
    let mut retrier = Retrier::new(Arc::new(Unlimited), &timer, &options.name);
    loop {
        let started = ClockInstant::now();
        diagnosis.share = share.get();
        let failure = match caught(session.resume(&options, &timer, &diagnosis, &granted)).await {
            Ok(Ok(resumed)) => return Ok(resumed),
            Ok(Err(failure)) => {
                if let Some(end) = failure.end_of_session() {
                    tracing::debug!(
                        client,
                        ?session,
                        why = &*Truncated(&failure).to_string(),
                        "cannot resume the session"
                    );
                    return Err(end);
                }
                failure.into()
            }
            Err(panicked) => OpenFailure::from(panicked),
        };
        match &journal {
            Some(journal) => journal.failed(&failure),
            None => {
                let why = &*Truncated(&failure.cause).to_string();
                tracing::trace!(
                    client,
                    ?session,
                    why,
                    "cannot resume the session to close it"
                );
            }
        }
        share.failed_after(ClockInstant::now().saturating_duration_since(started));
        // This cannot fail: `Unlimited` never ends the retries, and this future is dropped before
        // the timers end.
        drop(retrier.again().await);
        diagnosis.set_servers(ensemble.servers(true));
    }
}

/// Ends the session of `link` on the server, within `limit`. Returns whether the server has
/// confirmed that the session has ended.
///
/// If the session's connection is broken, this resumes the session to close it. If a server then
/// opens another session instead, this closes that one, and cannot close the session of `link`. No
/// connection is left when this returns.
pub(super) async fn close_session(
    options: Arc<SessionOptions>,
    ensemble: Arc<Ensemble>,
    timer: Timer,
    link: Link,
    limit: Duration,
) -> bool {
    let key = link.session_key();
    let closing = async {
        let mut link = match link.end() {
            None => Some(link),
            Some(LinkEnd::Lost) => None,
            Some(_) => return true,
        };
        loop {
            let link = match link.take() {
                Some(link) => link,
                None => match resume(
                    Arc::clone(&options),
                    Arc::clone(&ensemble),
                    timer.clone(),
                    None,
                    key.clone(),
                    Granted::unused(),
                )
                .await
                {
                    Ok((link, _)) => link,
                    // RaftKeeper refuses a session that it cannot find, and any session while it has
                    // no quorum, with the same reply.
                    Err(_) => return !key.is_of_other_server(),
                },
            };
            let is_another = link.session_id() != key.session_id();
            // Ends the connection: a server may keep it open forever.
            let task = AbortOnDrop(link.task());
            // The supervisor no longer probes the session, so its probes no longer keep the
            // connection.
            link.keep(limit);
            // Drops the last handle, except for handles in requests that were neither awaited nor
            // dropped. This sends the close request, even to a server whose replies do not arrive.
            drop(link);
            let end = tokio::select! {
                biased;
                end = task.0.ended() => Some(end),
                () = timer.sleep(ANSWER_TIMEOUT) => None,
            };
            match end {
                _ if is_another => return false,
                // ClickHouse Keeper and RaftKeeper close the connection in place of a reply. The
                // end of a connection confirms nothing, and neither would a second attempt:
                // ClickHouse Keeper resumes no session.
                Some(LinkEnd::Lost) if key.is_of_other_server() => return false,
                // A connection that breaks now may or may not have delivered the request.
                Some(LinkEnd::Lost) | None => {}
                Some(_) => return true,
            }
        }
    };
    tokio::select! {
        biased;
        has_ended = closing => has_ended,
        () = timer.sleep(limit) => false,
    }
}

struct AbortOnDrop(LinkTask);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort(LinkEnd::Closed);
    }
}
