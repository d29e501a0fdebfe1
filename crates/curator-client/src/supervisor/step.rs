//! Decides when a session is in doubt, when a silent connection is closed, and when requests are
//! sent again: a state machine that does no I/O and reads no clock. `supervisor/tests/model.rs`
//! tests it with all orders of events.

use std::time::Duration;

use crate::error::{Error, SessionEnd};
use crate::journal::Doubt;
use crate::time::ClockInstant;
use crate::transport::{ConfirmedBy, LinkEnd};

/// What is known about the connection of a session.
///
/// A *doubt* begins when the connection breaks or is replaced, when a probe fails, or when the next
/// probe is due before the last one was answered. Only the reply to a probe that was sent after the
/// latest doubt ends the doubt. Probes are numbered over all connections of the session, and
/// `first` numbers the first probe sent, or to be sent, after the latest doubt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum SessionState {
    /// The connection has answered a probe that was sent after the latest doubt. Published as
    /// `Connected` or `Reconnected`.
    Confirmed { probes: Probes, first: u64 },
    /// The connection has answered a probe, but no later one than the latest doubt. Published as
    /// `Suspended`, like the next two.
    Doubted { probes: Probes, first: u64 },
    /// The session has another connection, which has not answered a probe yet.
    Unproven {
        probes: Probes,
        first: u64,
        /// The first probe that was sent over the connection.
        first_over_connection: u64,
        /// A time before the connect request was sent.
        connect_sent: ClockInstant,
    },
    /// The connection broke, and another one is being opened.
    Broken { next_probe: u64 },
    /// The session has ended, or may have ended. Published as `Lost`, unless the client has closed
    /// the session.
    Ended(SessionEnd),
}

/// The probes over one connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Probes {
    /// The number of the next probe.
    next: u64,
    /// The latest probe, while it is unanswered. A missing reply to an older probe has already
    /// begun a doubt.
    awaited: Option<u64>,
    /// When the first probe after the last reply was sent.
    ///
    /// Silence does not count from the last reply: a process that was stopped has sent no probes
    /// meanwhile, so at most one probe, which was in flight, is unanswered.
    silent_since: Option<ClockInstant>,
}

/// The timing of a session, which does not change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// The time between two probes.
    pub(super) interval: Duration,
    /// How long a connection may leave probes unanswered before it is closed.
    pub(super) answer_limit: Duration,
}

/// What has happened to a session.
#[derive(Debug, Clone)]
pub(super) enum Event {
    /// The client is closing, and no work is left in the session.
    Drained,
    /// The session has ended in this client: the lease has ended, or a server has granted another
    /// session or a shorter timeout.
    Ended(SessionEnd),
    /// The server has ended the session.
    EndedByServer(LinkEnd),
    /// The connection broke.
    Broken,
    /// The session has another connection, with a grant that does not end the session.
    /// `connect_sent` is a time before its connect request was sent.
    Resumed { connect_sent: ClockInstant },
    /// A probe that was sent at `sent` was answered.
    Answered {
        probe: u64,
        sent: ClockInstant,
        by: ConfirmedBy,
    },
    /// A probe has failed.
    Failed { probe: u64, error: Error },
    /// The server of the connection has accepted this client as anonymous.
    Unauthenticated,
    /// The time set by [`Action::ScheduleProbe`] has come.
    ProbeDue,
}

/// What the supervisor must do. It carries out the actions of a step in order.
#[derive(Debug, Clone)]
pub(super) enum Action {
    /// Send no request until [`Action::Confirm`]: this comes before there is another connection, so
    /// that no request is sent over it until it has answered a probe.
    Disconnect,
    /// Record in the lease that a probe was answered.
    RenewLease {
        sent: ClockInstant,
    },
    /// Record in the lease that another connection was confirmed.
    MoveLease {
        connect_sent: ClockInstant,
        by: ConfirmedBy,
    },
    /// The connection has answered: requests may be sent. If this also ends the doubt, and the
    /// session has not ended, publish that the connection is confirmed.
    Confirm {
        ends_doubt: bool,
    },
    /// Publish `Suspended`.
    Suspend(Doubt),
    /// Report [`Event::ProbeDue`] after this time, instead of at a time that was set before.
    ScheduleProbe(Duration),
    SendProbe(u64),
    /// End the connection, but not the session.
    EndConnection,
    LogResumed,
    LogUnauthenticated,
}

impl SessionState {
    /// The state of a session whose first probe was answered, and which was just published as
    /// connected. The caller schedules the next probe after the [interval](Pace::interval).
    pub(super) fn opened() -> Self {
        let probes = Probes::after(0);
        Self::Confirmed { probes, first: 0 }
    }

    /// The state after `event` at `now`, and what to do.
    pub(super) fn step(self, event: Event, now: ClockInstant, pace: Pace) -> (Self, Vec<Action>) {
        match event {
            _ if matches!(self, Self::Ended(_)) => (self, Vec::new()),
            Event::Drained => (Self::Ended(SessionEnd::Closed), Vec::new()),
            Event::Ended(end) => (Self::Ended(end), Vec::new()),
            Event::EndedByServer(LinkEnd::AuthFailed) => {
                (Self::Ended(SessionEnd::AuthFailed), Vec::new())
            }
            Event::EndedByServer(_) => (Self::Ended(SessionEnd::Expired), Vec::new()),
            Event::Unauthenticated => (
                Self::Ended(SessionEnd::AuthFailed),
                vec![Action::LogUnauthenticated],
            ),
            Event::Broken => {
                let next_probe = self.next_probe();
                let actions = vec![Action::Disconnect, Action::Suspend(Doubt::ConnectionBroke)];
                (Self::Broken { next_probe }, actions)
            }
            Event::Resumed { connect_sent } => {
                // Replies to requests over the old connection are lost.
                let first = self.next_probe();
                let resumed = Self::Unproven {
                    probes: Probes::after(first),
                    first,
                    first_over_connection: first,
                    connect_sent,
                };
                let actions = vec![
                    Action::LogResumed,
                    Action::ScheduleProbe(Duration::ZERO),
                    Action::Suspend(Doubt::NewConnection),
                ];
                (resumed, actions)
            }
            Event::Answered { probe, sent, by } => self.answered(probe, sent, by),
            Event::Failed { probe, error } => self.failed(probe, error),
            Event::ProbeDue => self.probe_due(now, pace),
        }
    }

    fn answered(mut self, probe: u64, sent: ClockInstant, by: ConfirmedBy) -> (Self, Vec<Action>) {
        if let Some(probes) = self.probes() {
            probes.answered(probe);
        }
        // Even a reply over an earlier connection renews the lease; see `session_lease.rs`.
        let mut actions = vec![Action::RenewLease { sent }];
        let next = match self {
            Self::Confirmed { probes, first } | Self::Doubted { probes, first }
                if probe >= first =>
            {
                actions.push(Action::Confirm { ends_doubt: true });
                Self::Confirmed { probes, first }
            }
            Self::Unproven {
                probes,
                first,
                first_over_connection,
                connect_sent,
            } if probe >= first_over_connection => {
                // Only now, because an accepted connect proves nothing by itself; see
                // `session_lease.rs`.
                actions.push(Action::MoveLease { connect_sent, by });
                let ends_doubt = probe >= first;
                actions.push(Action::Confirm { ends_doubt });
                if ends_doubt {
                    Self::Confirmed { probes, first }
                } else {
                    Self::Doubted { probes, first }
                }
            }
            unchanged => unchanged,
        };
        (next, actions)
    }

    fn failed(mut self, probe: u64, error: Error) -> (Self, Vec<Action>) {
        // The failure of an older probe does not count: a later probe was answered, or is still
        // waiting for its reply.
        let awaited = self
            .probes()
            .and_then(|probes| probes.awaited.take_if(|awaited| *awaited <= probe));
        if awaited.is_none() {
            return (self, Vec::new());
        }
        let actions = vec![Action::Suspend(Doubt::ProbeFailed(error))];
        (self.doubted(), actions)
    }

    fn probe_due(mut self, now: ClockInstant, pace: Pace) -> (Self, Vec<Action>) {
        let mut actions = vec![Action::ScheduleProbe(pace.interval)];
        let Some(probes) = self.probes() else {
            // The next connection begins with a probe.
            return (self, actions);
        };
        if probes.silence(now) >= pace.answer_limit {
            actions.push(Action::EndConnection);
        }
        let is_overdue = probes.awaited.is_some();
        if is_overdue {
            self = self.doubted();
        }
        if let Some(probes) = self.probes() {
            actions.push(Action::SendProbe(probes.send(now)));
        }
        if is_overdue {
            actions.push(Action::Suspend(Doubt::ProbeOverdue));
        }
        (self, actions)
    }

    /// The state after a doubt about a connection that still exists.
    fn doubted(self) -> Self {
        match self {
            Self::Confirmed { probes, .. } | Self::Doubted { probes, .. } => Self::Doubted {
                first: probes.next,
                probes,
            },
            Self::Unproven {
                probes,
                first_over_connection,
                connect_sent,
                ..
            } => Self::Unproven {
                first: probes.next,
                probes,
                first_over_connection,
                connect_sent,
            },
            Self::Broken { .. } | Self::Ended(_) => self,
        }
    }

    fn probes(&mut self) -> Option<&mut Probes> {
        match self {
            Self::Confirmed { probes, .. }
            | Self::Doubted { probes, .. }
            | Self::Unproven { probes, .. } => Some(probes),
            Self::Broken { .. } | Self::Ended(_) => None,
        }
    }

    fn next_probe(&self) -> u64 {
        match self {
            Self::Confirmed { probes, .. }
            | Self::Doubted { probes, .. }
            | Self::Unproven { probes, .. } => probes.next,
            Self::Broken { next_probe } => *next_probe,
            Self::Ended(_) => 0,
        }
    }
}

impl Probes {
    fn after(next: u64) -> Self {
        Self {
            next,
            awaited: None,
            silent_since: None,
        }
    }

    fn send(&mut self, now: ClockInstant) -> u64 {
        let probe = self.next;
        self.next += 1;
        self.awaited = Some(probe);
        self.silent_since.get_or_insert(now);
        probe
    }

    fn answered(&mut self, probe: u64) {
        self.awaited = self.awaited.filter(|awaited| *awaited > probe);
        self.silent_since = None;
    }

    /// How long the connection has left probes unanswered.
    fn silence(&self, now: ClockInstant) -> Duration {
        self.silent_since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn silence_begins_with_the_oldest_unanswered_probe() {
        let begun = ClockInstant::now();
        let mut probes = Probes::after(7);
        let first = probes.send(begun);
        probes.send(begun + SECOND);
        assert_eq!(probes.silence(begun + 3 * SECOND), 3 * SECOND);
        probes.answered(first);
        probes.send(begun + 4 * SECOND);
        assert_eq!(probes.silence(begun + 6 * SECOND), 2 * SECOND);
        probes.answered(first);
        // An hour without a probe, as in a stopped process, does not count.
        assert_eq!(probes.silence(begun + 3_600 * SECOND), Duration::ZERO);
    }
}
