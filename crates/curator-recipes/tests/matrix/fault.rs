//! What goes wrong, and what may come of it.

use std::time::Duration;

use curator_recipes::client::Error as ClientError;
use curator_recipes::{Error, LossReason};
use curator_test::{FaultProxy, OpCode};

use super::phase::Phase;

/// What happens at one request of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// The answer is late, and all behind it on this connection: later than a request may take.
    Late,
    /// The answer is lost, and the connection stays.
    Lost,
    /// The connection breaks, and the server never sees the request.
    CutBefore,
    /// The server does what was asked for, and the connection breaks before the answer.
    CutAfter,
    /// The server ends the session when it has done what was asked for, and before anything more comes to the client.
    Expired,
    /// The future is dropped when the server has done what was asked for, and before anything more comes to the client.
    Dropped,
}

/// How late an answer is.
pub(crate) const LATE: Duration = Duration::from_secs(3);

impl Fault {
    /// The slow ones first: what is slow sleeps, and can do so at the same time.
    pub(crate) const ALL: [Self; 6] =
        [Self::Late, Self::Lost, Self::CutBefore, Self::CutAfter, Self::Expired, Self::Dropped];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Late => "3 s late",
            Self::Lost => "answer lost",
            Self::CutBefore => "cut before",
            Self::CutAfter => "cut after",
            Self::Expired => "session expired",
            Self::Dropped => "future dropped",
        }
    }

    pub(crate) fn fits(self, phase: Phase) -> bool {
        self != Self::Dropped || phase.has_future()
    }

    /// Whether somebody has to do something once the request is answered.
    pub(crate) fn holds_the_reply(self) -> bool {
        matches!(self, Self::Expired | Self::Dropped)
    }

    /// Strikes at the `nth` request of that kind from now on.
    pub(crate) fn arm(self, proxy: &FaultProxy, op: OpCode, nth: u64) {
        match self {
            Self::Late => proxy.delay_nth_reply(op, nth, LATE),
            Self::Lost => proxy.swallow_nth_reply(op, nth),
            Self::CutBefore => proxy.cut_before_nth_request(op, nth),
            Self::CutAfter => proxy.cut_before_nth_reply(op, nth),
            Self::Expired | Self::Dropped => proxy.hold_nth_reply(op, nth),
        }
    }
}

/// The name of an error that may come of this fault in this phase, as the documentation says.
///
/// An acquire that may wait has none: it goes on until it has the lock. Where it takes one lock after another, it cannot,
/// when it has lost one on its way.
pub(crate) fn documented(phase: Phase, fault: Option<Fault>, error: &Error) -> Option<&'static str> {
    let expired = fault == Some(Fault::Expired);
    match (phase, error) {
        (Phase::Try, Error::AcquireFailed { .. }) => Some("AcquireFailed"),
        // What it gave back may be on its way for longer than it waits for that.
        (Phase::Try, Error::MultiLockMember { cause, rollback, .. })
            if matches!(**cause, Error::AcquireFailed { .. })
                && rollback.iter().all(|error| is_pending(error, fault)) =>
        {
            Some("MultiLockMember")
        }
        (
            Phase::NewDirectory | Phase::Acquire | Phase::Turn | Phase::Try,
            Error::MultiLockMember { cause, rollback, .. },
        ) if expired && is_of_the_end(cause) && rollback.iter().all(is_of_the_end) => Some("MultiLockMember"),
        (Phase::Transaction, Error::Client(ClientError::Ambiguous { .. })) => Some("Ambiguous"),
        (Phase::Transaction | Phase::ReadToo | Phase::Downgrade | Phase::Release, error)
            if expired && is_of_the_end(error) =>
        {
            Some("Lost")
        }
        _ => None,
    }
}

/// Whether this is what one is told whose session is over.
fn is_of_the_end(error: &Error) -> bool {
    match error {
        Error::Lost(lost) => matches!(lost.reason, LossReason::SessionLost(_)),
        Error::ReleasesFailed { failures } => failures.iter().all(is_of_the_end),
        _ => false,
    }
}

/// Whether a release goes on in the background for this reason, or failed for it.
fn is_pending(error: &Error, fault: Option<Fault>) -> bool {
    match fault {
        Some(Fault::Expired) => is_of_the_end(error),
        Some(Fault::Late) => matches!(error, Error::ReleasePending { .. }),
        _ => false,
    }
}
