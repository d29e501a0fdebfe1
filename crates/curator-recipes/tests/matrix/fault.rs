//! What goes wrong, and what may come of it.

use std::fmt;
use std::time::Duration;

use curator_recipes::client::Error as ClientError;
use curator_recipes::{Error, LossReason};
use curator_test::{FaultProxy, OpCode};

use super::phase::Phase;

named! {
    /// What happens at one request of a contender.
    enum Fault {
        /// The answer is late, and all behind it on this connection: later than a request may take.
        Late => "3 s late",
        /// The answer is lost, and the connection stays.
        Lost => "answer lost",
        /// The connection breaks, and the server never sees the request.
        CutBefore => "cut before",
        /// The server does what was asked for, and the connection breaks before the answer.
        CutAfter => "cut after",
        /// The server ends the session when it has done what was asked for, and before anything more comes to the client.
        Expired => "session expired",
        /// The future is dropped when the server has done what was asked for, and before anything more comes to the client.
        Dropped => "future dropped",
    }
}

/// How late an answer is.
pub(crate) const LATE: Duration = Duration::from_secs(3);

impl Fault {
    pub(crate) fn fits(self, phase: Phase) -> bool {
        self != Self::Dropped || phase.has_future()
    }

    /// Whether somebody has to do something once the request is answered.
    pub(crate) fn holds_the_reply(self) -> bool {
        matches!(self, Self::Expired | Self::Dropped)
    }

    fn arm(self, proxy: &FaultProxy, op: OpCode, nth: u64) {
        match self {
            Self::Late => proxy.delay_nth_reply(op, nth, LATE),
            Self::Lost => proxy.swallow_nth_reply(op, nth),
            Self::CutBefore => proxy.cut_before_nth_request(op, nth),
            Self::CutAfter => proxy.cut_before_nth_reply(op, nth),
            Self::Expired | Self::Dropped => proxy.hold_nth_reply(op, nth),
        }
    }
}

/// A fault at the `nth` request of this kind in a phase, or after the cut if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Strike {
    pub(crate) op: OpCode,
    pub(crate) nth: u64,
    pub(crate) fault: Fault,
}

impl Strike {
    /// Strikes from now on.
    pub(crate) fn arm(self, proxy: &FaultProxy) {
        self.fault.arm(proxy, self.op, self.nth);
    }

    /// Waits until it has struck, and if somebody has to do something then, until that can be done.
    pub(crate) async fn struck(self, proxy: &FaultProxy) {
        proxy.wait_for_faults().await.unwrap();
        if self.fault.holds_the_reply() {
            proxy.wait_for_reply(self.op, self.nth).await.unwrap();
        }
    }

    /// Whether the answer to a request is lost that may set a watch.
    pub(crate) fn loses_a_watch(self) -> bool {
        self.fault == Fault::Lost && matches!(self.op, OpCode::GetData | OpCode::GetChildren)
    }
}

/// The end of the connection at the first request of this kind in a phase: what is sent because of that can be struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cut {
    pub(crate) op: OpCode,
    /// Whether the server has done what was asked for.
    pub(crate) is_done: bool,
}

impl Cut {
    /// Cuts from now on. The contender does not connect again until this has [struck](Self::struck).
    pub(crate) fn arm(self, proxy: &FaultProxy) {
        proxy.refuse(true).unwrap();
        let fault = if self.is_done { Fault::CutAfter } else { Fault::CutBefore };
        fault.arm(proxy, self.op, 1);
    }

    /// Waits until it has struck. All counts begin then, and `next` is in time for whatever follows.
    pub(crate) async fn struck(self, proxy: &FaultProxy, next: Option<Strike>) {
        proxy.wait_for_faults().await.unwrap();
        // And until nothing more can come of what was sent beside it.
        proxy.wait_for_connections(0).await.unwrap();
        proxy.reset_counts();
        if let Some(next) = next {
            next.arm(proxy);
        }
        proxy.refuse(false).unwrap();
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, is_done } = self;
        write!(f, "{AFTER}{op:?} 1 {}", if *is_done { Fault::CutAfter.name() } else { Fault::CutBefore.name() })
    }
}

/// What the name of a cut begins with.
pub(crate) const AFTER: &str = "after ";

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
            Phase::NewDirectory | Phase::Acquire | Phase::Turn | Phase::TimeOut | Phase::Try,
            Error::MultiLockMember { cause, rollback, .. },
        ) if expired && is_of_the_end(cause) && rollback.iter().all(is_of_the_end) => Some("MultiLockMember"),
        // The connection was cut just before the time was up.
        (Phase::TimeOut, error) if fault.is_some() && is_not_connected(error) => Some("NotConnected"),
        (Phase::Transaction, Error::Client(ClientError::Ambiguous { .. })) => Some("Ambiguous"),
        (Phase::Transaction | Phase::ReadToo | Phase::Downgrade | Phase::ReEntry | Phase::Release, error)
            if expired && is_of_the_end(error) =>
        {
            Some("Lost")
        }
        _ => None,
    }
}

fn is_not_connected(error: &Error) -> bool {
    match error {
        Error::Client(error) => matches!(error, ClientError::NotConnected { .. }),
        Error::MultiLockMember { cause, .. } => is_not_connected(cause),
        _ => false,
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
