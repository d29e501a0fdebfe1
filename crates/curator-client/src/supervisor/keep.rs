//! Keeps a session until it ends: reports what happens to the state machine in `step.rs`, and
//! carries out its actions.

use std::pin::Pin;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use tokio::task::unconstrained;

use super::follow::Following;
use super::resume::{Change, Connection};
use super::step::{Action, Event, Pace, SessionState};
use super::{PendingCloses, Supervisor};
use crate::error::{Error, Result, SessionEnd};
use crate::path::ZPath;
use crate::runtime::{Panicked, caught};
use crate::session::{OpenFailure, Session};
use crate::state::ConnectionState;
use crate::text::Truncated;
use crate::time::{ClockInstant, Deadline};
use crate::transport::ConfirmedBy;

impl Supervisor {
    /// Keeps the session until it ends, and returns why it ended.
    pub(super) async fn keep(
        &self,
        session: &Session,
        following: &mut Following,
        mut drained: Pin<&mut impl Future<Output = ()>>,
        pending_closes: &mut PendingCloses,
    ) -> SessionEnd {
        let Some(link) = session.link() else {
            return SessionEnd::Expired;
        };
        let connection = Connection::new(self, session, &link);
        drop(link);
        let pace = Pace {
            interval: session.probe_interval(),
            answer_limit: session.answer_limit(),
        };
        let mut kept = Kept {
            supervisor: self,
            session,
            connection,
            following,
            probes: FuturesUnordered::new(),
            next_probe: Deadline::after(pace.interval),
            pace,
        };
        let mut state = SessionState::opened();
        loop {
            if let SessionState::Ended(end) = state {
                return end;
            }
            if let Some(event) = kept.next_event(drained.as_mut(), pending_closes).await {
                let (next, actions) = state.step(event, ClockInstant::now(), pace);
                state = next;
                actions
                    .into_iter()
                    .for_each(|action| kept.carry_out(action));
            }
        }
    }
}

/// A session that the supervisor keeps.
struct Kept<'a> {
    supervisor: &'a Supervisor,
    session: &'a Session,
    connection: Connection,
    following: &'a mut Following,
    /// The unanswered probes.
    probes: FuturesUnordered<BoxFuture<'a, AnsweredProbe>>,
    next_probe: Deadline,
    pace: Pace,
}

struct AnsweredProbe {
    number: u64,
    sent: ClockInstant,
    answer: Result<ConfirmedBy>,
}

impl Kept<'_> {
    /// Waits for the next event. `None` means that the caller must check again whether the session
    /// has ended.
    async fn next_event(
        &mut self,
        drained: Pin<&mut impl Future<Output = ()>>,
        pending_closes: &mut PendingCloses,
    ) -> Option<Event> {
        let timer = &self.supervisor.timer;
        let left = self.session.lease().remaining();
        if let Some(end) = self.session.end() {
            // An attempt to resume the session may have succeeded by now; `finish` returns its
            // connection.
            if let Some(Change::Resumed(link, _)) =
                unconstrained(self.connection.changed()).now_or_never()
            {
                self.session.replace_link(link);
            }
            return Some(Event::Ended(end));
        }
        tokio::select! {
            biased;
            () = drained => Some(Event::Drained),
            change = self.connection.changed() => Some(self.changed(change)),
            Some(probe) = self.probes.next(), if !self.probes.is_empty() => Some(self.answered(probe)),
            () = timer.sleep_until(self.next_probe) => Some(Event::ProbeDue),
            () = self.following.advance(self.session) => None,
            Some(_) = pending_closes.next(), if !pending_closes.is_empty() => None,
            () = timer.sleep(left) => None,
        }
    }

    fn changed(&self, change: Change) -> Event {
        match change {
            Change::EndedByServer(end) => Event::EndedByServer(end),
            Change::Broken => Event::Broken,
            Change::Resumed(link, connect_sent) => {
                self.session.replace_link(link);
                // The server may have opened another session, or granted a shorter timeout than
                // before.
                match self.session.end() {
                    Some(end) => Event::Ended(end),
                    None => Event::Resumed { connect_sent },
                }
            }
        }
    }

    fn answered(
        &self,
        AnsweredProbe {
            number,
            sent,
            answer,
        }: AnsweredProbe,
    ) -> Event {
        match answer {
            Ok(by) => Event::Answered {
                probe: number,
                sent,
                by,
            },
            Err(Error::InvalidAcl { .. }) => Event::Unauthenticated,
            Err(error) => {
                let client = &*self.supervisor.options.name;
                tracing::debug!(client, error = %Truncated(&error), "probe failed");
                Event::Failed {
                    probe: number,
                    error,
                }
            }
        }
    }

    /// Publishes first, then logs: holders rely on the state, and a log line may block on its
    /// reader.
    fn carry_out(&mut self, action: Action) {
        let Supervisor {
            states, journal, ..
        } = self.supervisor;
        let session = self.session;
        match action {
            Action::Disconnect => session.set_connected(false),
            Action::RenewLease { sent } => session.lease().probe_answered(sent),
            Action::MoveLease { connect_sent, by } => session.lease().moved(connect_sent, by),
            Action::Confirm { ends_doubt } => {
                self.following.connected(session);
                let is_confirmed = ends_doubt && session.is_valid();
                let log = is_confirmed.then(|| journal.confirmed(session));
                // A caller that waits for the connection then finds this state.
                session.set_connected_after(true, || {
                    if is_confirmed {
                        states.publish_confirmed();
                    }
                });
                self.connection.confirmed();
                if let Some(log) = log {
                    log();
                }
            }
            Action::Suspend(doubt) => {
                states.publish(ConnectionState::Suspended);
                journal.doubted(session, &doubt);
            }
            Action::ScheduleProbe(after) => self.next_probe = Deadline::after(after),
            Action::SendProbe(number) => self.probes.push(Box::pin(probe(session, number))),
            Action::EndConnection => self.connection.end(self.pace.answer_limit),
            Action::LogResumed => journal.resumed(session),
            Action::LogUnauthenticated => {
                journal.failed(&OpenFailure::unauthenticated(&session.server()));
            }
        }
    }
}

/// Sends a probe when it is first polled. A panic counts as a failed probe.
async fn probe(session: &Session, number: u64) -> AnsweredProbe {
    let called = ClockInstant::now();
    let (sent, answer) = caught(async { session.probe().await })
        .await
        .unwrap_or_else(|Panicked { message }| {
            let cause = format!("the client has panicked: {message}");
            (
                called,
                Err(Error::Unexpected {
                    operation: "probe",
                    path: ZPath::root(),
                    cause,
                }),
            )
        });
    AnsweredProbe {
        number,
        sent,
        answer,
    }
}
