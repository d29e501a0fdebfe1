//! Logs one hold.

use std::time::Instant;

use curator_client::{Error as ClientError, Session, ZPath, source};
use tracing::Span;

use super::AcquireLog;
use super::fields::{Paths, Truncated};
use crate::engine::meter::{HoldEnded, Meter};
use crate::error::{LockLost, LossReason};
use crate::fencing::FencingToken;
use crate::owner::OwnerId;

/// Logs one hold. Clones log the same hold.
#[derive(Debug, Clone)]
pub(crate) struct HoldLog {
    span: Span,
    owner: OwnerId,
    meter: Meter,
    /// When the hold began; `None` if it is neither logged nor measured.
    since: Option<Instant>,
}

impl HoldLog {
    /// Logs the start of the hold that the acquire has won for this owner.
    pub(crate) fn owned(
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

    /// The owner that acquired the lock.
    pub(crate) fn owner(&self) -> &OwnerId {
        &self.owner
    }

    /// The span. Poll the release in it.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// Logs that the owner gave up a guard, and has `guards` left.
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

/// Logs an attempt of a release to delete its nodes, in the span of the hold. The first attempt is
/// one request.
pub(crate) fn deletes_sent(nodes: usize) {
    tracing::trace!(requests = 1, what = "delete", nodes, "pipeline");
}
