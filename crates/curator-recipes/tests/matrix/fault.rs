//! The faults, and the errors that each may cause.

use std::fmt;
use std::time::Duration;

use curator_recipes::client::Error as ClientError;
use curator_recipes::{Error, LossReason};
use curator_test::OpCode;

use super::phase::Phase;
use super::world::{World, network};

named! {
    /// What goes wrong at one request of a contender.
    enum Fault {
        /// The reply, and all replies behind it on this connection, arrive later than the operation
        /// timeout.
        Late => "6 s late",
        /// The reply is lost, and the connection stays open.
        Lost => "answer lost",
        /// The connection breaks before the server receives the request.
        CutBefore => "cut before",
        /// The server applies the request, and the connection breaks before the reply.
        CutAfter => "cut after",
        /// The server ends the session after it has applied the request; the client receives
        /// nothing in between.
        Expired => "session expired",
        /// The future is dropped after the server has applied the request; the client receives
        /// nothing in between.
        Dropped => "future dropped",
    }
}

/// How late the reply is in [`Fault::Late`].
pub(crate) const LATE: Duration = Duration::from_secs(6);

impl Fault {
    /// Whether the fault is possible in this phase.
    pub(crate) fn fits(self, phase: Phase) -> bool {
        self != Self::Dropped || phase.has_future()
    }

    /// Whether the reply is held back, so that the test can act before the contender receives it.
    pub(crate) fn holds_the_reply(self) -> bool {
        matches!(self, Self::Expired | Self::Dropped)
    }

    fn arm(self, world: &World, op: OpCode, nth: u64) {
        network!(*world, network => match self {
            Self::Late => network.delay_nth_reply(op, nth, LATE),
            Self::Lost => network.swallow_nth_reply(op, nth),
            Self::CutBefore => network.cut_before_nth_request(op, nth),
            Self::CutAfter => network.cut_before_nth_reply(op, nth),
            Self::Expired | Self::Dropped => network.hold_nth_reply(op, nth),
        });
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
    /// Arms the fault.
    pub(crate) fn arm(self, world: &World) {
        self.fault.arm(world, self.op, self.nth);
    }

    /// Waits until the fault has struck, and, if the fault holds the reply back, until the server
    /// has replied.
    pub(crate) async fn struck(self, world: &World) {
        network!(*world, network => {
            network.wait_for_faults().await.unwrap();
            if self.fault.holds_the_reply() {
                network.wait_for_reply(self.op, self.nth).await.unwrap();
            }
        });
    }

    /// Whether this loses the reply to a request that may set a watch.
    pub(crate) fn loses_a_watch(self) -> bool {
        self.fault == Fault::Lost && matches!(self.op, OpCode::GetData | OpCode::GetChildren)
    }
}

/// Breaks the connection at the first request of this kind in a phase, so that a strike can be at a
/// request that is sent because of the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cut {
    pub(crate) op: OpCode,
    /// Whether the server applies the request.
    pub(crate) is_done: bool,
}

impl Cut {
    /// Arms the cut. The contender cannot reconnect before [`struck`](Self::struck) has returned.
    pub(crate) fn arm(self, world: &World) {
        world.refuse(true);
        let fault = if self.is_done {
            Fault::CutAfter
        } else {
            Fault::CutBefore
        };
        fault.arm(world, self.op, 1);
    }

    /// Waits until the cut has struck, resets the counts, and arms `next` before the contender can
    /// reconnect.
    pub(crate) async fn struck(self, world: &World, next: Option<Strike>) {
        network!(*world, network => {
            network.wait_for_faults().await.unwrap();
            // The requests that were sent together with the cut request have no further effect
            // after this wait.
            network.wait_for_connections(0).await.unwrap();
            network.reset_counts();
        });
        if let Some(next) = next {
            next.arm(world);
        }
        world.refuse(false);
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, is_done } = self;
        write!(
            f,
            "{AFTER}{op:?} 1 {}",
            if *is_done {
                Fault::CutAfter.name()
            } else {
                Fault::CutBefore.name()
            }
        )
    }
}

/// The prefix of a cut's name.
pub(crate) const AFTER: &str = "after ";

/// The name of the error that the documentation permits for this fault in this phase.
///
/// For an acquire that may wait, no error is permitted: it retries until it has the lock.
/// Exception: an acquire of several locks one after another fails when it has lost one of them.
pub(crate) fn documented(
    phase: Phase,
    fault: Option<Fault>,
    error: &Error,
) -> Option<&'static str> {
    let expired = fault == Some(Fault::Expired);
    match (phase, error) {
        (Phase::Try, Error::AcquireFailed { .. }) => Some("AcquireFailed"),
        // The rollback may still be pending when the release times out.
        (
            Phase::Try,
            Error::MultiLockMember {
                cause, rollback, ..
            },
        ) if matches!(**cause, Error::AcquireFailed { .. })
            && rollback.iter().all(|error| is_pending(error, fault)) =>
        {
            Some("MultiLockMember")
        }
        (
            Phase::NewDirectory | Phase::Acquire | Phase::Turn | Phase::TimeOut | Phase::Try,
            Error::MultiLockMember {
                cause, rollback, ..
            },
        ) if expired && is_session_loss(cause) && rollback.iter().all(is_session_loss) => {
            Some("MultiLockMember")
        }
        // The connection was cut just before the timeout.
        (Phase::TimeOut, error) if fault.is_some() && is_not_connected(error) => {
            Some("NotConnected")
        }
        (Phase::Transaction, Error::Client(ClientError::Ambiguous { .. })) => Some("Ambiguous"),
        (
            Phase::Transaction
            | Phase::ReadToo
            | Phase::Downgrade
            | Phase::ReEntry
            | Phase::Release,
            error,
        ) if expired && is_session_loss(error) => Some("Lost"),
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

/// Whether the error reports a lost session.
fn is_session_loss(error: &Error) -> bool {
    match error {
        Error::Lost(lost) => matches!(lost.reason, LossReason::SessionLost(_)),
        Error::ReleasesFailed { failures } => failures.iter().all(is_session_loss),
        _ => false,
    }
}

/// Whether the release continues in the background because of this fault, or failed because of it.
fn is_pending(error: &Error, fault: Option<Fault>) -> bool {
    match fault {
        Some(Fault::Expired) => is_session_loss(error),
        // The rollback of a `try_acquire` takes a second at most. A busy machine may need longer
        // for a new connection.
        Some(_) => matches!(error, Error::ReleasePending { .. }),
        None => false,
    }
}
