//! Logs the locks with `tracing`: a span for each acquire, a span for each hold, and their events.
//! Also records the metrics, behind the feature `metrics`.
//!
//! Everything is logged at level `debug`, except pipelines, which are logged at level `trace`.
//! Without a subscriber, nothing is formatted or allocated and no clock is read.

use std::fmt::{self, Display, Formatter};
use std::mem;
use std::time::Instant;

use curator_client::{
    CuratorClient, Deadline, Error as ClientError, FailureLog, Session, SessionEnd, ZPath, source,
};
use curator_protocol::{Contest, Request};
use tracing::Span;

use super::meter::{HoldEnded, Meter, NotAcquired};
use crate::error::{Error, LockLost, LossReason};
use crate::fencing::FencingToken;
use crate::owner::OwnerId;
use crate::task::report::Truncated;
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

/// Logs and measures one acquire, from the call to its end. Dropping this earlier logs that the
/// acquire was dropped.
#[derive(Debug)]
pub(crate) struct AcquireLog<'a> {
    subject: Subject<'a>,
    /// The owner of the acquire.
    pub(crate) owner: &'a OwnerId,
    pub(crate) span: Span,
    wait: Wait,
    /// When the acquire began; `None` if it is neither logged nor measured.
    started: Option<Instant>,
    is_logged: bool,
    /// Whether the acquire has waited in the queue.
    has_waited: bool,
    /// When the last event ended the wait, if that is measured.
    woken: Option<Instant>,
    /// The queue, the place in it, and the node ahead that were logged last.
    last_logged: Option<(usize, usize, String)>,
    /// Whether it was logged that the acquire is first in a semaphore's queue.
    is_first: bool,
    /// Decides which pauses to log as warnings; `None` before the first.
    pauses: Option<Box<FailureLog>>,
    has_ended: bool,
}

impl<'a> AcquireLog<'a> {
    /// Starts the log. Poll the acquire in its `span`.
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
        Self {
            subject,
            owner,
            span,
            wait,
            started,
            is_logged,
            has_waited: false,
            woken: None,
            last_logged: None,
            is_first: false,
            pauses: None,
            has_ended: false,
        }
    }

    /// Logs that the acquire waits for another future of the same owner.
    pub(crate) fn waits_for_its_owner(&self) {
        tracing::debug!("another future of its owner is acquiring the lock");
    }

    /// Logs that the acquire waits in the client's line, because the maximum number of the client's
    /// contenders is in the queue.
    pub(crate) fn waits_in_line(&self) {
        tracing::debug!("in line: the maximum of this client's contenders is in the queue");
    }

    /// Logs that the session ended. The next contest starts in the next session.
    pub(crate) fn session_ended(&mut self, end: SessionEnd) {
        self.last_logged = None;
        self.is_first = false;
        self.woken = None;
        tracing::debug!(%end, "lost the place in the queue with the session");
    }

    /// Logs that a client has deleted the node in the queue. Another contest may follow.
    pub(crate) fn place_deleted(&mut self) {
        self.last_logged = None;
        self.is_first = false;
        self.woken = None;
        tracing::debug!("another client has deleted the node in the queue");
    }

    /// Logs that the acquire pauses because other clients keep creating and deleting the
    /// directories that it needs. There is no limit on these pauses.
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
            .and_then(|standing| Some((standing, dirs.get(standing.queue)?)))
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
        self.has_ended = true;
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
                self.not_acquired(why, "other contenders are ahead");
            }
            Err(error) => {
                // While a client closes, its calls fail with various errors, so the log names the
                // end of the client.
                if self.started.is_some()
                    && let Some(end) = end_of(self.subject.client)
                {
                    self.not_acquired(NotAcquired::Closed, end);
                } else {
                    self.not_acquired(NotAcquired::Failed, error);
                }
            }
        }
    }

    /// The time since the call, if logged or measured.
    fn waited(&self) -> Option<std::time::Duration> {
        self.started.map(source::elapsed)
    }

    fn not_acquired(&self, how: NotAcquired, why: impl Display) {
        self.subject.meter.not_acquired(how);
        tracing::debug!(parent: &self.span, why = %Truncated(why), waited = format_args!("{:.1?}", self.waited().unwrap_or_default()), "not acquired");
    }
}

impl Drop for AcquireLog<'_> {
    fn drop(&mut self) {
        if !self.has_ended && self.started.is_some() {
            let (how, why) = why_dropped(self.subject.client, self.wait);
            self.not_acquired(how, why);
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

/// Displays how long an acquire waits.
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

/// Logs and measures one hold. Clones log the same hold.
#[derive(Debug, Clone)]
pub(crate) struct HoldLog {
    /// The span. Poll the release in it.
    pub(super) span: Span,
    /// The owner that acquired the lock.
    pub(super) owner: OwnerId,
    meter: Meter,
    /// When the hold began; `None` if it is neither logged nor measured.
    since: Option<Instant>,
}

impl HoldLog {
    /// Logs the start of the hold that the acquire has won for this owner.
    pub(crate) fn start(
        acquire: &AcquireLog<'_>,
        owner: &OwnerId,
        session: &Session,
        nodes: &[ZPath],
        token: FencingToken,
    ) -> Self {
        let subject = acquire.subject;
        // A root span, because it outlives the acquire, and often the task.
        let span = tracing::debug_span!(
            parent: None,
            "hold",
            client = subject.client.name(),
            kind = subject.kind,
            lock = %Paths(subject.paths),
            %owner,
            session = format_args!("{:#x}", session.id()),
            node = %Paths(nodes),
            %token,
        );
        span.follows_from(&acquire.span);
        let since = if span.is_disabled() {
            subject.meter.now()
        } else {
            Some(source::now())
        };
        subject.meter.hold_begins();
        tracing::debug!(parent: &span, waited = format_args!("{:.1?}", acquire.waited().unwrap_or_default()), "owned");
        Self {
            span,
            owner: owner.clone(),
            meter: subject.meter.clone(),
            since,
        }
    }

    /// Logs that the owner has released a guard, and has `guards` left.
    pub(crate) fn left(&self, guards: usize) {
        tracing::debug!(parent: &self.span, guards, "left");
    }

    /// Logs that the owner re-entered, and has `guards` now.
    pub(crate) fn reentered(&self, guards: usize) {
        self.meter.reentered();
        tracing::debug!(parent: &self.span, guards, "re-entered");
    }

    /// Logs that a node of the hold cannot be watched now.
    pub(crate) fn cannot_watch(&self, node: &ZPath, error: &ClientError) {
        tracing::debug!(parent: &self.span, watched = %Truncated(node), error = %Truncated(error), "cannot watch its own node");
    }

    pub(crate) fn revocation_requested(&self) {
        tracing::debug!(parent: &self.span, "revocation requested");
    }

    /// Records that the acquire failed after it had won the hold.
    pub(crate) fn unused(&self) {
        self.meter.hold_ended(HoldEnded::Unused, None);
    }

    /// Logs the loss or the release of the lock, whichever comes first.
    pub(crate) fn ended(&self, end: &LockLost) {
        let held = self.since.map(source::elapsed);
        let how = match end.reason {
            LossReason::Released => HoldEnded::Released,
            LossReason::SessionLost(_) => HoldEnded::SessionLost,
            LossReason::NodeDeleted => HoldEnded::NodeDeleted,
        };
        self.meter.hold_ended(how, held);
        let held = held.unwrap_or_default();
        match end.reason {
            LossReason::Released => {
                tracing::debug!(parent: &self.span, held = format_args!("{held:.1?}"), "released");
            }
            why => {
                tracing::debug!(parent: &self.span, %why, lost = %Truncated(&end.path), held = format_args!("{held:.1?}"), "lost");
            }
        }
    }
}

/// Logs that a release sends its deletes, in the span of the hold. The first attempt is one
/// request.
pub(crate) fn deletes_sent(nodes: usize) {
    tracing::trace!(requests = 1, what = "delete", nodes, "pipeline");
}

/// The maximum number of paths in a log entry.
const MAX_PATHS: usize = 4;

/// The first [`MAX_PATHS`] paths, and the number of the others.
struct Paths<'a>(&'a [ZPath]);

impl Display for Paths<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, path) in self.0.iter().take(MAX_PATHS).enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{}", Truncated(path))?;
        }
        match self.0.len().saturating_sub(MAX_PATHS) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The kinds of a pipeline's requests, in order; consecutive requests of one kind are counted.
struct Requests<'a>(&'a [(usize, Request)]);

impl Display for Requests<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, same) in self
            .0
            .chunk_by(|(_, one), (_, next)| kind(one) == kind(next))
            .enumerate()
        {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{}", kind(&same[0].1))?;
            if same.len() > 1 {
                write!(f, " x{}", same.len())?;
            }
        }
        Ok(())
    }
}

fn kind(request: &Request) -> &'static str {
    match request {
        Request::Create => "create",
        Request::CreateWithParents => "create with parents",
        Request::Sync => "sync",
        Request::List => "list",
        Request::WatchList => "list and watch",
        Request::Inspect { .. } => "read",
        Request::WatchAhead { .. } => "watch a node before ours",
        Request::WatchOwn { .. } => "watch our node",
        Request::Limit => "read the limit",
        Request::WatchLimit => "read and watch the limit",
        Request::CreateLimit => "create the limit",
        Request::Take { .. } => "take leases",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_one_kind_are_logged_with_their_count() {
        let watch_own = |queue| {
            (
                queue,
                Request::WatchOwn {
                    name: "n".to_owned(),
                },
            )
        };
        let requests = [
            (0, Request::Create),
            (1, Request::Create),
            watch_own(0),
            (0, Request::List),
        ];
        assert_eq!(
            Requests(&requests).to_string(),
            "create x2, watch our node, list"
        );
    }
}
