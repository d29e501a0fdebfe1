//! Logs one acquire.

use std::fmt::{self, Display, Formatter};
use std::mem;
use std::time::Instant;

use curator_client::{
    CuratorClient, Deadline, Error as ClientError, FailureLog, Session, SessionEnd, ZPath, source,
};
use curator_protocol::{Contest, Request};
use tracing::Span;

use super::fields::{Paths, Requests, Truncated};
use crate::engine::meter::{Meter, NotAcquired};
use crate::error::Error;
use crate::owner::OwnerId;
use crate::wait::Wait;

/// The lock that a log entry names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject<'a> {
    pub(crate) client: &'a CuratorClient,
    /// The recipe's name in the log.
    pub(crate) kind: &'static str,
    /// For a multi-lock, all paths that it acquires together.
    pub(crate) paths: &'a [ZPath],
    /// Records the metrics of the same events.
    pub(crate) meter: &'a Meter,
}

/// Logs one acquire, from the call to its end. Dropping it earlier logs that the acquire was given
/// up.
#[derive(Debug)]
pub(crate) struct AcquireLog<'a> {
    pub(super) subject: Subject<'a>,
    pub(super) owner: &'a OwnerId,
    pub(super) span: Span,
    wait: Wait,
    /// When the acquire began; `None` if it is neither logged nor measured.
    started: Option<Instant>,
    is_logged: bool,
    /// Whether the acquire has waited in the queue.
    has_waited: bool,
    /// When the last event ended its wait, if that is measured.
    woken: Option<Instant>,
    /// The queue, the place in it, and the node ahead that were logged last.
    last_logged: Option<(usize, usize, String)>,
    /// Whether it was logged that the acquire is first in a semaphore's queue.
    is_first: bool,
    /// Decides which pauses to log; `None` without any.
    pauses: Option<Box<FailureLog>>,
    is_over: bool,
}

impl<'a> AcquireLog<'a> {
    /// Starts the log. Poll the acquire in the [span](Self::span).
    pub(crate) fn start(subject: Subject<'a>, owner: &'a OwnerId, wait: Wait) -> Self {
        let span = tracing::debug_span!(
            "acquire",
            client = subject.client.name(),
            kind = subject.kind,
            lock = %Paths(subject.paths),
            %owner,
        );
        let is_logged = !span.is_disabled();
        let started = if is_logged {
            Some(source::now())
        } else {
            subject.meter.now()
        };
        tracing::debug!(parent: &span, wait = %WaitText(wait), "acquiring");
        let last_logged = None;
        let woken = None;
        Self {
            subject,
            owner,
            span,
            wait,
            started,
            is_logged,
            has_waited: false,
            woken,
            last_logged,
            is_first: false,
            pauses: None,
            is_over: false,
        }
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// The owner of the acquire.
    pub(crate) fn owner(&self) -> &'a OwnerId {
        self.owner
    }

    /// Logs that the acquire waits for another future of the same owner.
    pub(crate) fn waits_for_its_owner(&self) {
        tracing::debug!("another future of its owner is acquiring the lock");
    }

    /// Logs that the acquire waits in the client's line, because the maximum of its contenders is
    /// in the queue.
    pub(crate) fn waits_in_line(&self) {
        tracing::debug!("in line: the maximum of this client's contenders is in the queue");
    }

    /// Logs that the session ended. The next contest starts in the next session.
    pub(crate) fn session_over(&mut self, end: SessionEnd) {
        (self.last_logged, self.is_first, self.woken) = (None, false, None);
        tracing::debug!(%end, "lost the place in the queue with the session");
    }

    /// Logs that a client has deleted the node in the queue. Another contest may follow.
    pub(crate) fn place_deleted(&mut self) {
        (self.last_logged, self.is_first, self.woken) = (None, false, None);
        tracing::debug!("another client has deleted the node in the queue");
    }

    /// Logs that the acquire pauses because others keep creating and deleting what it needs: it may
    /// do so for ever.
    pub(crate) fn directories_keep_changing(&mut self) {
        const MESSAGE: &str =
            "others created or deleted directories of the lock during each attempt; trying again";
        if self
            .pauses
            .get_or_insert_default()
            .failed(MESSAGE, source::now())
        {
            let Subject {
                client,
                kind,
                paths,
                ..
            } = &self.subject;
            tracing::warn!(client = client.name(), kind, lock = %Paths(paths), "{MESSAGE}");
        } else {
            tracing::debug!("{MESSAGE}");
        }
    }

    /// Logs that the acquire waits for an event.
    pub(crate) fn waits(&mut self, session: &Session, dirs: &[ZPath], contest: &Contest) {
        if self.started.is_some()
            && !self.has_waited
            && let Some(standing) = contest.standing()
        {
            self.has_waited = true;
            self.subject.meter.queued(standing.place);
        }
        if !self.is_logged {
            return;
        }
        let Some((standing, dir)) = contest
            .standing()
            .and_then(|at| Some((at, dirs.get(at.queue)?)))
        else {
            if !contest.is_queued() && !mem::replace(&mut self.is_first, true) {
                tracing::debug!("first in the queue: waiting for leases");
            }
            return;
        };
        let last_logged = (standing.queue, standing.place, standing.behind.to_owned());
        if self.last_logged.as_ref() == Some(&last_logged) {
            return;
        }
        self.last_logged = Some(last_logged);
        let (Ok(node), Ok(behind)) = (dir.join(standing.own), dir.join(standing.behind)) else {
            return;
        };
        let id = session.id();
        let place = standing.place;
        let session = format_args!("{id:#x}");
        tracing::debug!(session, node = %Truncated(&node), place, behind = %Truncated(&behind), "queued");
    }

    /// Records that an event has ended the wait. Another wait may follow.
    pub(crate) fn woken(&mut self) {
        self.woken = self.subject.meter.now();
    }

    /// Logs the end of the acquire: `end` is whether it has the lock, or its error.
    pub(crate) fn ended(&mut self, end: Result<bool, &Error>) {
        self.is_over = true;
        match end {
            // Logged by the hold.
            Ok(true) => self
                .subject
                .meter
                .acquired(self.waited(), self.woken.map(source::elapsed)),
            Ok(false) => {
                let why = if self.wait == Wait::No {
                    NotAcquired::Busy
                } else {
                    NotAcquired::TimedOut
                };
                self.given_up(why, "other contenders are ahead");
            }
            // While a client closes, its calls fail with various errors, so the log names the end
            // of the client.
            Err(error) => match self.started.and_then(|_| end_of(self.subject.client)) {
                Some(end) => self.given_up(NotAcquired::Closed, end),
                None => self.given_up(NotAcquired::Failed, error),
            },
        }
    }

    /// The time since the call, if logged or measured.
    pub(super) fn waited(&self) -> Option<std::time::Duration> {
        self.started.map(source::elapsed)
    }

    fn given_up(&self, how: NotAcquired, why: impl Display) {
        self.subject.meter.not_acquired(how);
        tracing::debug!(parent: &self.span, why = %Truncated(why), waited = format_args!("{:.1?}", self.waited().unwrap_or_default()), "given up");
    }
}

impl Drop for AcquireLog<'_> {
    fn drop(&mut self) {
        if !self.is_over && self.started.is_some() {
            let (how, why) = why_dropped(self.subject.client, self.wait);
            self.given_up(how, why);
        }
    }
}

/// Logs that a pipeline of an acquire is sent, in the span of the acquire.
pub(crate) fn pipeline_sent(requests: &[(usize, Request)]) {
    tracing::trace!(requests = requests.len(), what = %Requests(requests), "pipeline");
}

/// Why the acquire was dropped: the end of the client, a timeout (which drops the acquire), or the
/// caller.
fn why_dropped(client: &CuratorClient, wait: Wait) -> (NotAcquired, &'static str) {
    match (end_of(client), wait) {
        (Some(end), _) => (NotAcquired::Closed, end),
        (None, Wait::Until(deadline)) if deadline.has_passed() => {
            (NotAcquired::TimedOut, "timed out")
        }
        _ => (NotAcquired::Cancelled, "its future was dropped"),
    }
}

/// Why the client ends all its acquires; `None` if it is open.
fn end_of(client: &CuratorClient) -> Option<&'static str> {
    match client.try_session() {
        Err(ClientError::Closed) => Some("the client closes"),
        Err(ClientError::ClientEnded { .. } | ClientError::Forked) => Some("the client has ended"),
        _ => None,
    }
}

/// How long an acquire waits.
struct WaitText(Wait);

impl Display for WaitText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Wait::No => f.write_str("none"),
            Wait::Until(Deadline::NEVER) => f.write_str("forever"),
            Wait::Until(deadline) => write!(f, "{:.1?}", deadline.remaining().unwrap_or_default()),
        }
    }
}
