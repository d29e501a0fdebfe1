//! What the task of a latch does: takes part, leads, and takes part again.

use std::pin::pin;
use std::sync::Arc;

use curator_client::{ConnectionState, CuratorClient, Error as ClientError, RecipeSupport as _, Retrier, ZPath};
use tokio::sync::watch;

use super::leadership::Leadership;
use super::state::LeaderState;
use crate::error::{Error, Result};
use crate::lock::InterProcessMutex;
use crate::lock::guard::LockGuard;
use crate::owner::OwnerId;

/// What the user wants of the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    TakePart,
    StandAside,
    Close,
}

/// The latest order of the user.
#[derive(Debug, Clone, Copy)]
pub(super) struct Order {
    pub(super) intent: Intent,
    /// Grows with each order. One with the same intent ends a term.
    pub(super) number: u64,
}

/// What the task reports.
#[derive(Debug, Clone)]
pub(super) struct Report {
    pub(super) term: Option<Leadership>,
    /// Why this participant could not take part, since it did last.
    pub(super) error: Option<Error>,
    /// The latest order that was carried out, and its result.
    pub(super) done: (u64, Result<()>),
}

/// The sending half of both channels. When it is dropped, this participant does not lead.
pub(super) struct Reporter {
    pub(super) states: watch::Sender<LeaderState>,
    pub(super) reports: watch::Sender<Report>,
}

impl Reporter {
    fn leads(&self, term: Leadership) {
        let token = term.fencing_token();
        self.reports.send_modify(|report| (report.term, report.error) = (Some(term), None));
        self.set(LeaderState::Leader { token });
    }

    fn does_not_lead(&self, state: LeaderState) {
        self.reports.send_if_modified(|report| report.term.take().is_some());
        self.set(state);
    }

    fn set(&self, state: LeaderState) {
        self.states.send_if_modified(|known| std::mem::replace(known, state) != state);
    }

    fn failed(&self, error: Error) {
        self.reports.send_modify(|report| report.error = Some(error));
    }

    fn done(&self, number: u64, result: Result<()>) {
        self.reports.send_modify(|report| report.done = (number, result));
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.does_not_lead(LeaderState::Unknown);
    }
}

/// The campaign of one participant.
pub(super) struct Campaign {
    client: CuratorClient,
    mutex: InterProcessMutex,
    orders: watch::Receiver<Order>,
    reporter: Reporter,
    /// Consecutive failures to take part.
    retrier: Option<Retrier>,
}

/// What a step of the campaign ended with.
enum Next {
    Queue,
    /// The order with this number was carried out, but for what follows from its intent.
    Ordered(u64, Result<()>),
    /// The last handle was dropped.
    Abandoned,
}

impl Campaign {
    pub(super) fn new(
        client: &CuratorClient,
        mutex: InterProcessMutex,
        orders: watch::Receiver<Order>,
        reporter: Reporter,
    ) -> Self {
        Self { client: client.clone(), mutex, orders, reporter, retrier: None }
    }

    /// Takes part until the latch is closed or dropped, or the client ends. Returns what the calls of the latch return from
    /// then on.
    pub(super) async fn run(mut self) -> Error {
        let mut next = Next::Queue;
        loop {
            let intent = self.orders.borrow().intent;
            match (next, intent) {
                (Next::Abandoned, _) => return self.closed(),
                (Next::Ordered(number, result), intent) => {
                    self.left().await;
                    self.reporter.done(number, result);
                    if intent == Intent::Close {
                        return self.closed();
                    }
                    next = Next::Queue;
                }
                (Next::Queue, Intent::TakePart) => match self.take_part().await {
                    Ok(after) => next = after,
                    Err(end) => return end,
                },
                (Next::Queue, Intent::StandAside | Intent::Close) => match self.ordered().await {
                    Ok(after) => next = after,
                    Err(end) => return end,
                },
            }
        }
    }

    fn closed(&self) -> Error {
        Error::RecipeClosed { path: self.path() }
    }

    fn path(&self) -> ZPath {
        self.mutex.path().clone()
    }

    /// Waits for a turn, and leads.
    async fn take_part(&mut self) -> Result<Next, Error> {
        let mutex = self.mutex.clone();
        // Each term has another owner, as of a lock that is not reentrant.
        let owner = OwnerId::new();
        let mut acquiring = pin!(mutex.acquire_as(&owner));
        let mut connection = self.client.connection_states();
        let acquired = loop {
            self.reporter.does_not_lead(self.idle_state());
            tokio::select! {
                biased;
                order = self.orders.changed() => {
                    let Ok(()) = order else { return Ok(Next::Abandoned) };
                    let Order { intent, number } = *self.orders.borrow_and_update();
                    if intent != Intent::TakePart {
                        return Ok(Next::Ordered(number, Ok(())));
                    }
                    // There is no term to end.
                    self.reporter.done(number, Ok(()));
                }
                state = connection.next() => self.go_on(state).await?,
                acquired = &mut acquiring => break acquired,
            }
        };
        match acquired {
            Ok(guard) => {
                self.retrier = None;
                Ok(self.lead(guard).await)
            }
            Err(Error::Client(end @ (ClientError::Closed | ClientError::ClientEnded { .. } | ClientError::Forked))) => {
                Err(end.into())
            }
            Err(error) => self.pause(error).await,
        }
    }

    /// Leads until the term ends.
    async fn lead(&mut self, guard: LockGuard) -> Next {
        let (mut lost, hold) = (guard.loss(), Arc::clone(guard.hold()));
        self.reporter.leads(Leadership::new(guard.hold(), guard.loss()));
        // A lost connection alone ends no term: it goes on while the session is certainly alive.
        tokio::select! {
            biased;
            _ = &mut lost => {
                self.reporter.does_not_lead(self.idle_state());
                Next::Queue
            }
            Ok(()) = hold.revocation_requested() => {
                self.reporter.does_not_lead(LeaderState::Follower);
                if let Err(error) = guard.release().await {
                    self.reporter.failed(error);
                }
                Next::Queue
            }
            order = self.orders.changed() => {
                // Before anything is sent, so before another participant can lead.
                self.reporter.does_not_lead(LeaderState::Follower);
                let Ok(()) = order else { return Next::Abandoned };
                let Order { number, .. } = *self.orders.borrow_and_update();
                let released = guard.release().await;
                // The caller wants it not to lead, and it does not.
                Next::Ordered(number, if let Err(Error::Lost(_)) = released { Ok(()) } else { released })
            }
        }
    }

    /// Pauses after a failure to take part: a permission may be repaired, a directory deleted.
    async fn pause(&mut self, error: Error) -> Result<Next, Error> {
        tracing::debug!(client = self.client.name(), path = %self.path(), %error, "the latch cannot take part, and will try again");
        self.reporter.failed(error);
        self.reporter.does_not_lead(LeaderState::Unknown);
        let client = self.client.clone();
        let mut retrier = self.retrier.take().unwrap_or_else(|| client.persistent_retrier());
        tokio::select! {
            biased;
            order = self.orders.changed() => {
                if order.is_err() {
                    return Ok(Next::Abandoned);
                }
                // The next step carries it out.
                self.orders.mark_changed();
            }
            paused = retrier.again() => { paused?; }
        }
        self.retrier = Some(retrier);
        Ok(Next::Queue)
    }

    /// Waits for the next order while this participant stands aside.
    async fn ordered(&mut self) -> Result<Next, Error> {
        let mut connection = self.client.connection_states();
        loop {
            self.reporter.does_not_lead(self.idle_state());
            tokio::select! {
                biased;
                order = self.orders.changed() => {
                    let Ok(()) = order else { return Ok(Next::Abandoned) };
                    return Ok(Next::Ordered(self.orders.borrow_and_update().number, Ok(())));
                }
                state = connection.next() => self.go_on(state).await?,
            }
        }
    }

    /// Waits until nothing of this participant is left in the queue: a place that is given up is deleted in the background.
    async fn left(&self) {
        tokio::select! {
            biased;
            _ = self.client.closing() => {}
            () = self.client.janitor().gone_below(self.mutex.path()) => {}
        }
    }

    /// Goes on after a change of the connection, unless the client has ended.
    async fn go_on(&self, state: Option<ConnectionState>) -> Result<(), Error> {
        match state {
            Some(_) => Ok(()),
            None => Err(self.client.closing().await.into()),
        }
    }

    /// The state without a term.
    fn idle_state(&self) -> LeaderState {
        if self.client.try_session().is_ok() { LeaderState::Follower } else { LeaderState::Unknown }
    }
}
