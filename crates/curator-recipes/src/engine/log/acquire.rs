//! What is told of an acquire.

use std::fmt::{self, Display, Formatter};
use std::time::Instant;

use curator_client::{CuratorClient, Deadline, Error as ClientError, Session, SessionEnd, ZPath};
use curator_protocol::{Answer, Contest, LockInternalsDriver, Queue, Request, Verdict};
use tracing::Span;

use super::Subject;
use super::text::{Capped, Paths};
use crate::engine::wait::Wait;
use crate::error::Error;
use crate::owner::OwnerId;

/// Tells of one acquire, from the call to its end. If it is dropped before that, the acquire was given up.
#[derive(Debug)]
pub(crate) struct AcquireLog<'a> {
    pub(super) subject: Subject<'a>,
    pub(super) owner: &'a OwnerId,
    pub(super) span: Span,
    wait: Wait,
    /// When it began; `None` if nobody listens.
    asked: Option<Instant>,
    standing: Standing,
    is_over: bool,
}

/// Where it stands.
#[derive(Debug)]
enum Standing {
    /// Nothing is known that was not told.
    Told,
    /// In a queue, with so many before it.
    Behind { node: ZPath, place: usize, behind: ZPath },
    /// The first in a semaphore's queue; told.
    First,
}

impl<'a> AcquireLog<'a> {
    /// Someone calls. The acquire is to be polled in the [span](Self::span).
    pub(crate) fn asked(subject: Subject<'a>, owner: &'a OwnerId, wait: Wait) -> Self {
        let span = tracing::debug_span!(
            "acquire",
            client = subject.client.name(),
            kind = subject.kind,
            lock = %Paths(subject.paths),
            %owner,
        );
        let asked = (!span.is_disabled()).then(Instant::now);
        tracing::debug!(parent: &span, wait = %Patience(wait), "asked");
        Self { subject, owner, span, wait, asked, standing: Standing::Told, is_over: false }
    }

    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Whose acquire it is.
    pub(crate) fn owner(&self) -> &'a OwnerId {
        self.owner
    }

    /// The owner's other future goes first.
    pub(crate) fn waits_for_its_owner(&self) {
        tracing::debug!("another future of its owner is acquiring the lock");
    }

    /// Too many contenders of this client stand in the queue.
    pub(crate) fn waits_in_line(&self) {
        tracing::debug!("in line: others of this client are in the queue already");
    }

    /// A contest begins, and so does the wait.
    pub(crate) fn contends(&mut self) {
        self.standing = Standing::Told;
    }

    /// The contest is over, and the next one begins in the next session.
    pub(crate) fn session_over(&self, end: SessionEnd) {
        tracing::debug!(%end, "lost the place in the queue with the session");
    }

    /// The contest is over; there may be another one.
    pub(crate) fn place_deleted(&self) {
        tracing::debug!("someone has deleted the place in the queue");
    }

    /// Takes note of lists among the answers to a pipeline: they show who is before us.
    pub(crate) fn note_lists(
        &mut self,
        (driver, dirs): (&dyn LockInternalsDriver, &[ZPath]),
        contest: &Contest,
        requests: &[(usize, Request)],
        answers: &[Answer],
    ) {
        if self.asked.is_none() {
            return;
        }
        let own = |queue: usize| {
            let created = requests.iter().zip(answers).find_map(|request| match request {
                ((at, _), Answer::Created(own)) if *at == queue => Some(own),
                _ => None,
            });
            created.or_else(|| contest.nodes().find(|(at, _)| *at == queue).map(|(_, own)| own))
        };
        let behind = |(queue, children): (usize, &[String])| {
            let (dir, own) = (dirs.get(queue)?, own(queue)?);
            let listed = Queue::in_any_order(children.iter().map(String::as_str), driver);
            let place = listed.position(&own.name)?;
            let Verdict::WaitsFor(other) = driver.verdict(&listed, place) else { return None };
            let behind = dir.join(&listed.get(other)?.name).ok()?;
            Some(Standing::Behind { node: dir.join(&own.name).ok()?, place, behind })
        };
        let lists = requests.iter().zip(answers).filter_map(|request| match request {
            ((queue, Request::List), Answer::Children(children)) => Some((*queue, children.as_slice())),
            _ => None,
        });
        // Of several queues, the first in which it is not the first.
        if let Some(standing) = lists.filter_map(behind).next() {
            self.standing = standing;
        }
    }

    /// There is nothing to do but wait.
    pub(crate) fn waits(&mut self, session: &Session, contest: &Contest) {
        if self.asked.is_none() {
            return;
        }
        if !contest.is_queued() && !matches!(self.standing, Standing::First) {
            self.standing = Standing::First;
            tracing::debug!("first in the queue: waiting for leases");
        }
        if let Standing::Behind { node, place, behind } = &self.standing {
            let id = session.id();
            let session = format_args!("{id:#x}");
            tracing::debug!(session, node = %Capped(node), place, behind = %Capped(behind), "queued");
            self.standing = Standing::Told;
        }
    }

    /// The acquire has come to its end: whether it has the lock, or an error.
    pub(crate) fn ended(&mut self, end: Result<bool, &Error>) {
        self.is_over = true;
        match end {
            // The hold tells of that.
            Ok(true) => {}
            Ok(false) => self.given_up("others are before it"),
            // Which of the errors of a closing client comes first is chance.
            Err(error) => match self.asked.and_then(|_| end_of(self.subject.client)) {
                Some(end) => self.given_up(end),
                None => self.given_up(error),
            },
        }
    }

    /// How long it took until now, if anybody wants to know.
    pub(super) fn waited(&self) -> Option<std::time::Duration> {
        self.asked.map(|asked| asked.elapsed())
    }

    fn given_up(&self, why: impl Display) {
        tracing::debug!(parent: &self.span, why = %Capped(why), waited = format_args!("{:.1?}", self.waited().unwrap_or_default()), "given up");
    }
}

impl Drop for AcquireLog<'_> {
    fn drop(&mut self) {
        if !self.is_over && self.asked.is_some() {
            self.given_up(why_dropped(self.subject.client, self.wait));
        }
    }
}

/// Whoever bounds an acquire drops it.
fn why_dropped(client: &CuratorClient, wait: Wait) -> &'static str {
    end_of(client).unwrap_or_else(|| match wait {
        Wait::Until(deadline) if deadline.has_passed() => "the time is up",
        _ => "its future was dropped",
    })
}

/// What ends all acquires of the client, if something does.
fn end_of(client: &CuratorClient) -> Option<&'static str> {
    match client.try_session() {
        Err(ClientError::Closed) => Some("the client closes"),
        Err(ClientError::ClientEnded { .. } | ClientError::Forked) => Some("the client has ended"),
        _ => None,
    }
}

/// For how long an acquire waits.
struct Patience(Wait);

impl Display for Patience {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Wait::No => f.write_str("none"),
            Wait::Until(Deadline::NEVER) => f.write_str("forever"),
            Wait::Until(deadline) => write!(f, "{:.1?}", deadline.remaining().unwrap_or_default()),
        }
    }
}
