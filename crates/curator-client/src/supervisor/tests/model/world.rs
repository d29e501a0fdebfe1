//! The world of the model: one client with its session, the network, and the servers.

use std::time::Duration;

use crate::session_lease::LeaseArithmetic;
use crate::state::ConnectionState;
use crate::supervisor::step::{Action, Event, Pace, SessionState};
use crate::time::ClockInstant;
use crate::transport::{ConfirmedBy, LinkEnd, end_by_grant};

/// The session timeout. The lease computes in 32 parts of it, so that each part is one nanosecond.
pub(super) const T: u64 = 32;
/// The shorter timeout that a server may grant at a reconnect.
pub(super) const SHORTER: u64 = T / 2;
/// The steps of the clock.
pub(super) const TICK: u64 = 4;
/// A follower reports what it has heard within this time.
pub(super) const REPORT_GAP: u64 = 8;
/// The time between two probes.
const INTERVAL: u64 = 8;
/// When the session is opened.
pub(super) const OPENED: u64 = T;
const SESSION: i64 = 1;
const ANOTHER: i64 = 2;
/// The largest number of requests, and of replies, that are on their way.
pub(super) const IN_FLIGHT: usize = 2;

const PACE: Pace = Pace {
    interval: Duration::from_nanos(INTERVAL),
    answer_limit: Duration::from_nanos(T),
};

/// What is wrong on purpose with the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// The lease counts from the reply to a probe, not from the request.
    RenewsFromReply,
    /// The lease counts from the reply over a new connection, not from its connect request.
    MovesFromReply,
    /// An accepted connect counts as a reply over the new connection.
    MovesWhenAccepted,
    /// A reply over an earlier connection counts as one over the current connection.
    TakesOldReplies,
    /// A late reply to a probe that was sent before the doubt ends the doubt.
    EndsDoubtByLateReply,
    SkipsSuspended,
    KeepsSendingWhenBroken,
    IgnoresShorterTimeout,
    IgnoresAnotherSession,
    IgnoresEndOfLease,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) now: u64,
    pub(super) client: Client,
    pub(super) network: Network,
    pub(super) servers: Servers,
    pub(super) expected: Expected,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) state: SessionState,
    pub(super) lease: LeaseArithmetic,
    pub(super) published: ConnectionState,
    pub(super) sends_requests: bool,
    pub(super) next_probe: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Network {
    /// The number of the latest connection.
    pub(super) connection: u64,
    pub(super) requests: Vec<Probe>,
    pub(super) replies: Vec<Probe>,
    pub(super) attempt: Option<Attempt>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Probe {
    pub(super) number: u64,
    pub(super) sent: u64,
    pub(super) connection: u64,
}

/// An attempt to resume the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) sent: u64,
    /// The reply and its time, until the client reads it.
    pub(super) reply: Option<(Reply, u64)>,
}

/// The reply to an attempt to resume the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    /// The leader has heard of the session.
    Accepted,
    /// The follower has accepted the connect because of the leader's reply about an earlier
    /// connect. The leader hears of this connect later, but before the first request over the
    /// connection.
    Mistaken,
    Shorter,
    Another,
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Servers {
    /// When the leader last heard of the session.
    pub(super) heard: u64,
    /// The timeout that was granted last.
    pub(super) timeout: u64,
    /// The follower that has the connection.
    pub(super) follower: Option<Follower>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Follower {
    /// When the follower heard of the session for the first time after its last report.
    pub(super) unreported: Option<u64>,
    /// When the follower asked the leader about the session, until the leader has read the
    /// question.
    pub(super) asked: Option<u64>,
    /// Whether the connection belongs to another session.
    pub(super) is_another: bool,
}

/// What the client has to know after the events so far, computed without its state machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Expected {
    /// The number of probes so far.
    pub(super) probes: u64,
    /// Whether the latest probe is unanswered.
    pub(super) is_awaited: bool,
    /// The first probe whose reply ends the doubt; `None` without a doubt.
    pub(super) doubt: Option<u64>,
    /// Whether the current connection has answered a probe.
    pub(super) has_answered: bool,
}

impl Servers {
    pub(super) fn have_session(&self, now: u64) -> bool {
        now < self.heard + self.timeout
    }

    /// The follower forwards a probe to the leader, after what it has sent to the leader before.
    /// Returns whether there is a reply.
    pub(super) fn answer(&mut self, now: u64) -> bool {
        let has_session = self.have_session(now);
        let Some(follower) = &mut self.follower else {
            return false;
        };
        if follower.is_another {
            return true;
        }
        if has_session {
            self.heard = self.heard.max(follower.asked.take().unwrap_or(0));
            follower.unreported.get_or_insert(now);
        }
        has_session
    }

    pub(super) fn report(&mut self, now: u64) {
        let has_session = self.have_session(now);
        let news = self
            .follower
            .as_mut()
            .and_then(|follower| follower.unreported.take());
        if news.is_some() && has_session {
            self.heard = now;
        }
    }

    pub(super) fn connect(&mut self, reply: Reply, now: u64) {
        let mut follower = Follower::default();
        match reply {
            Reply::Accepted => self.heard = now,
            Reply::Mistaken => follower.asked = Some(now),
            Reply::Shorter => {
                self.heard = now;
                self.timeout = SHORTER;
            }
            Reply::Another => follower.is_another = true,
            Reply::Refused => return,
        }
        self.follower = Some(follower);
    }
}

impl Client {
    pub(super) fn is_valid(&self, now: u64) -> bool {
        self.lease.valid_until() > at(now)
    }

    pub(super) fn is_connected(&self) -> bool {
        use ConnectionState::{Connected, Reconnected};
        matches!(self.published, Connected | Reconnected)
    }

    pub(super) fn is_broken(&self) -> bool {
        matches!(self.state, SessionState::Broken { .. })
    }
}

impl World {
    pub(super) fn opened() -> Self {
        Self {
            now: OPENED,
            client: Client {
                state: SessionState::opened(),
                lease: LeaseArithmetic::new(Duration::from_nanos(T), at(OPENED)),
                published: ConnectionState::Connected,
                sends_requests: true,
                next_probe: OPENED + INTERVAL,
            },
            network: Network::default(),
            servers: Servers {
                heard: OPENED,
                timeout: T,
                follower: Some(Follower::default()),
            },
            expected: Expected {
                has_answered: true,
                ..Expected::default()
            },
        }
    }

    /// Like `Supervisor::keep`: makes a step, and carries out its actions.
    pub(super) fn step(&mut self, defect: Option<Defect>, event: Event) {
        let client = &mut self.client;
        let now = self.now;
        let (next, actions) = client.state.clone().step(event, at(now), PACE);
        client.state = next;
        for action in actions {
            match action {
                Action::Suspend(_) if defect == Some(Defect::SkipsSuspended) => {}
                Action::Suspend(_) => client.published = ConnectionState::Suspended,
                Action::Disconnect => {
                    client.sends_requests = defect == Some(Defect::KeepsSendingWhenBroken);
                }
                Action::RenewLease { .. } if defect == Some(Defect::RenewsFromReply) => {
                    client.lease.probe_answered(at(now), at(now));
                }
                Action::RenewLease { sent } => client.lease.probe_answered(sent, at(now)),
                Action::MoveLease { by, .. } if defect == Some(Defect::MovesFromReply) => {
                    client.lease.moved(at(now), at(now), by);
                }
                Action::MoveLease { connect_sent, by } => {
                    client.lease.moved(connect_sent, at(now), by);
                }
                Action::Confirm { ends_doubt } => {
                    let is_suspended = client.published == ConnectionState::Suspended;
                    if ends_doubt && is_suspended && client.is_valid(now) {
                        client.published = ConnectionState::Reconnected;
                    }
                    client.sends_requests = true;
                }
                Action::ScheduleProbe(after) => {
                    client.next_probe = (at(now) + after).as_nanos();
                }
                Action::SendProbe(number) => {
                    self.expected.probes = number + 1;
                    self.expected.is_awaited = true;
                    if self.network.requests.len() < IN_FLIGHT {
                        self.network.requests.push(Probe {
                            number,
                            sent: now,
                            connection: self.network.connection,
                        });
                    }
                }
                // The model breaks connections at any time, and has no log.
                Action::EndConnection | Action::LogResumed | Action::LogUnauthenticated => {}
            }
        }
        if let SessionState::Ended(end) = self.client.state {
            // Nothing else matters any more.
            *self = Self::opened();
            self.client.state = SessionState::Ended(end);
            self.client.published = ConnectionState::Lost;
            self.client.sends_requests = false;
            self.client.lease.revoke();
        }
    }

    pub(super) fn read(&mut self, defect: Option<Defect>, index: usize) {
        let mut reply = self.network.replies.remove(index);
        let expected = &mut self.expected;
        let latest = self.network.connection;
        expected.is_awaited &= reply.number + 1 < expected.probes;
        if reply.connection == latest && !self.client.is_broken() {
            expected.has_answered = true;
            expected.doubt = expected.doubt.filter(|first| reply.number < *first);
        }
        let is_late = reply.connection == latest && defect == Some(Defect::EndsDoubtByLateReply);
        let is_old = reply.connection < latest && defect == Some(Defect::TakesOldReplies);
        if is_late || is_old {
            reply.number = self.expected.probes;
        }
        let event = Event::Answered {
            probe: reply.number,
            sent: at(reply.sent),
            by: ConfirmedBy::Quorum,
        };
        self.step(defect, event);
    }

    pub(super) fn resume(&mut self, defect: Option<Defect>, connect_sent: u64, reply: Reply) {
        self.network.connection += 1;
        let (id, timeout, ignored) = match reply {
            Reply::Accepted | Reply::Mistaken => (SESSION, T, None),
            Reply::Shorter => (SESSION, SHORTER, Some(Defect::IgnoresShorterTimeout)),
            Reply::Another => (ANOTHER, T, Some(Defect::IgnoresAnotherSession)),
            Reply::Refused => return self.step(defect, Event::EndedByServer(LinkEnd::Expired)),
        };
        let opened = (SESSION, Duration::from_nanos(T));
        let end = end_by_grant(opened, (id, Duration::from_nanos(timeout)));
        let is_ignored = defect.is_some() && defect == ignored;
        if let Some(end) = end
            && !is_ignored
        {
            return self.step(defect, Event::Ended(end));
        }
        self.expected.doubt = Some(self.expected.probes);
        let connect_sent = at(connect_sent);
        self.step(defect, Event::Resumed { connect_sent });
        if defect == Some(Defect::MovesWhenAccepted) {
            let by = ConfirmedBy::Quorum;
            self.client.lease.moved(connect_sent, at(self.now), by);
        }
    }
}

pub(super) fn at(nanos: u64) -> ClockInstant {
    ClockInstant::from_nanos(nanos)
}
