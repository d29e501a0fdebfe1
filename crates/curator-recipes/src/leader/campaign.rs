//! The task of a latch: joins the queue, leads, joins again, and reports why it cannot take part.
//!
//! Runs until the latch is closed or dropped.

use std::pin::pin;
use std::sync::Arc;

use curator_client::source::watch;
use curator_client::{
    ConnectionState, CuratorClient, Error as ClientError, FailureLog, Recovery, ZPath, source,
};

use super::leadership::{LeaderState, Leadership, Pauses, wait_until_left};
use crate::engine::meter::Participation;
use crate::error::{Error, Result};
use crate::lock::InterProcessMutex;
use crate::lock::guard::LockGuard;
use crate::owner::OwnerId;
use crate::task::report::Truncated;

/// What the user has commanded the task to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Intent {
    TakePart,
    StandAside,
    Close,
}

/// The latest command of the user.
#[derive(Debug, Clone, Copy)]
pub(super) struct Command {
    pub(super) intent: Intent,
    /// Increases with each command. A new number ends the current term, even with the same intent:
    /// `resign` relies on this.
    pub(super) number: u64,
}

/// The task's report to the handles.
#[derive(Debug, Clone)]
pub(super) struct Report {
    pub(super) term: Option<Leadership>,
    /// The error of the latest attempt to take part, if it failed.
    pub(super) error: Option<Error>,
    /// The number of the latest executed command, and its result.
    pub(super) done: (u64, Result<()>),
}

/// The senders of the task. Dropping them with the task reports that this participant does not
/// lead.
pub(super) struct Reporter {
    /// For the log.
    pub(super) client: CuratorClient,
    pub(super) states: watch::Sender<LeaderState>,
    pub(super) reports: watch::Sender<Report>,
}

impl Reporter {
    fn report_term(&self, term: Leadership) {
        let token = term.fencing_token();
        self.reports.send_modify(|report| {
            report.term = Some(term.clone());
            report.error = None;
        });
        self.report_state(LeaderState::Leader { token });
        term.log_begin(&self.client);
    }

    fn report_no_term(&self, state: LeaderState) {
        let mut term = None;
        self.reports.send_if_modified(|report| {
            term = report.term.take();
            term.is_some()
        });
        self.report_state(state);
        // Log after the report is unlocked: a tracing subscriber may call the latch.
        if let Some(term) = term {
            term.log_end(&self.client);
        }
    }

    fn report_state(&self, state: LeaderState) {
        self.states
            .send_if_modified(|known| std::mem::replace(known, state) != state);
    }

    fn report_error(&self, error: Option<Error>) {
        self.reports.send_modify(|report| report.error = error);
    }

    fn report_done(&self, number: u64, result: Result<()>) {
        self.reports
            .send_modify(|report| report.done = (number, result));
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.report_no_term(LeaderState::Unknown);
    }
}

/// The campaign of one participant.
pub(super) struct Campaign {
    pub(super) client: CuratorClient,
    pub(super) mutex: InterProcessMutex,
    pub(super) commands: watch::Receiver<Command>,
    /// Whether the current acquire has a place in the queue, and waits.
    pub(super) queued: Arc<watch::Sender<bool>>,
    /// Whether the data `__REVOKE__` in the participant's node is a request to resign. False if the
    /// participant's id is this text.
    pub(super) is_revocable: bool,
    pub(super) reporter: Reporter,
    pub(super) pauses: Pauses,
    pub(super) failures: FailureLog,
    /// `None` while the participant stands aside.
    pub(super) participation: Option<Participation>,
}

/// Why a term has ended.
enum TermEnd {
    Lost,
    Revoked,
    /// The user has sent a command.
    Commanded,
    /// The last handle was dropped.
    Abandoned,
}

/// The next step of the campaign.
enum Next {
    /// The step for the latest intent.
    ByIntent,
    /// This participant has left the queue for the command with this number. Wait until its node is
    /// deleted, and report the result.
    Report(u64, Result<()>),
    /// The last handle was dropped.
    Abandoned,
}

impl Campaign {
    /// Takes part until the latch is closed or dropped, or the client ends. Returns the error that
    /// the calls of the latch return afterwards.
    pub(super) async fn run(mut self) -> Error {
        let mut next = Next::ByIntent;
        loop {
            let intent = self.commands.borrow().intent;
            self.participation = match intent {
                Intent::TakePart => self
                    .participation
                    .take()
                    .or_else(|| Some(self.mutex.participates())),
                _ => None,
            };
            // A participant outside the queue has no failure to report.
            if intent != Intent::TakePart && self.pauses.end() {
                self.reporter.report_error(None);
                let _ = self.failures.recovered(source::now());
            }
            let step = match next {
                Next::Abandoned => return self.closed(),
                Next::Report(number, result) => {
                    let result = self.wait_until_left(result).await;
                    let Command {
                        intent,
                        number: latest,
                    } = *self.commands.borrow();
                    if intent == Intent::Close {
                        self.reporter.report_no_term(LeaderState::Unknown);
                        self.reporter.report_done(latest, result);
                        return self.closed();
                    }
                    self.reporter.report_done(number, result);
                    Ok(Next::ByIntent)
                }
                Next::ByIntent if intent == Intent::TakePart => self.take_part().await,
                Next::ByIntent => self.stand_aside().await,
            };
            match step {
                Ok(after) => next = after,
                Err(end) => return end,
            }
        }
    }

    fn closed(&self) -> Error {
        Error::RecipeClosed {
            path: self.path().clone(),
        }
    }

    fn path(&self) -> &ZPath {
        self.mutex.path()
    }

    /// Waits in the queue, and leads.
    async fn take_part(&mut self) -> Result<Next> {
        match self.wait_for_turn().await {
            Ok(Ok(guard)) => {
                self.recovered();
                Ok(self.lead(guard).await)
            }
            Ok(Err(next)) => Ok(next),
            Err(Error::Client(
                end @ (ClientError::Closed | ClientError::ClientEnded { .. } | ClientError::Forked),
            )) => Err(end.into()),
            Err(error) => self.pause(error).await,
        }
    }

    /// Waits in the queue. The inner error is the next step, if a command ended the wait.
    async fn wait_for_turn(&mut self) -> Result<Result<LockGuard, Next>> {
        let mutex = self.mutex.clone();
        let owner = OwnerId::new();
        self.queued.send_replace(false);
        let mut queued = self.queued.subscribe();
        let mut connection = self.client.connection_states();
        let mut acquiring = pin!(mutex.acquire_as(&owner));
        loop {
            self.reporter.report_no_term(self.state_without_term());
            tokio::select! {
                biased;
                command = self.commands.changed() => {
                    let Ok(()) = command else { return Ok(Err(Next::Abandoned)) };
                    let Command { intent, number } = *self.commands.borrow_and_update();
                    if intent != Intent::TakePart {
                        return Ok(Err(Next::Report(number, Ok(()))));
                    }
                    // There is no term to end.
                    self.reporter.report_done(number, Ok(()));
                }
                state = connection.next() => self.check_not_ended(state).await?,
                Ok(()) = queued.changed() => {
                    if *queued.borrow_and_update() {
                        self.recovered();
                    }
                }
                acquired = &mut acquiring => return acquired.map(Ok),
            }
        }
    }

    /// Leads until the term ends.
    async fn lead(&mut self, guard: LockGuard) -> Next {
        let mut lost = guard.loss();
        let hold = Arc::clone(guard.hold());
        // Skips the report if a client has already requested the lock back: the term ends
        // immediately.
        if !self.is_revocable || !hold.is_revoked() {
            self.reporter
                .report_term(Leadership::new(guard.hold(), guard.loss()));
        }
        // A lost connection alone does not end the term, which lasts while the session is certainly
        // alive.
        let end = tokio::select! {
            biased;
            _ = &mut lost => TermEnd::Lost,
            Ok(()) = hold.revocation_requested(), if self.is_revocable => TermEnd::Revoked,
            command = self.commands.changed() => match command {
                Ok(()) => TermEnd::Commanded,
                Err(_) => TermEnd::Abandoned,
            },
        };
        // Report before the release is sent, so before another participant can lead.
        self.reporter.report_no_term(self.state_without_term());
        match end {
            TermEnd::Lost => Next::ByIntent,
            TermEnd::Revoked => {
                if let Err(error) = guard.release().await {
                    self.log(&error, "the release of the term is not confirmed");
                }
                Next::ByIntent
            }
            TermEnd::Abandoned => Next::Abandoned,
            TermEnd::Commanded => {
                let Command { number, .. } = *self.commands.borrow_and_update();
                Next::Report(number, guard.release().await)
            }
        }
    }

    /// Pauses after a failure to take part. Its cause may be repaired in the meantime, such as a
    /// missing permission, or used-up sequence numbers.
    async fn pause(&mut self, error: Error) -> Result<Next> {
        self.reporter.report_error(Some(error.clone()));
        self.reporter.report_no_term(LeaderState::Unknown);
        // The client logs its outages.
        let is_outage = error.is_retryable() && self.client.check_connected().is_err();
        if !is_outage && self.failures.failed(&error, source::now()) {
            tracing::warn!(client = self.client.name(), path = %Truncated(self.path()), error = %Truncated(&error), "leader latch: cannot take part, and will try again");
        } else {
            self.log(&error, "the latch cannot take part, and will try again");
        }
        let client = self.client.clone();
        self.pauses.begin(&client);
        tokio::select! {
            biased;
            command = self.commands.changed() => {
                if command.is_err() {
                    return Ok(Next::Abandoned);
                }
                // The next step executes the command.
                self.commands.mark_changed();
            }
            paused = self.pauses.pause(&client) => paused?,
        }
        Ok(Next::ByIntent)
    }

    /// Records that this participant is in the queue, or leads.
    fn recovered(&mut self) {
        self.pauses.end();
        self.reporter.report_error(None);
        if let Some(Recovery {
            lasted, failures, ..
        }) = self.failures.recovered(source::now())
        {
            tracing::info!(client = self.client.name(), path = %Truncated(self.path()), ?lasted, failures, "leader latch: takes part again");
        }
    }

    /// Stays out of the queue until the next command.
    async fn stand_aside(&mut self) -> Result<Next> {
        let mut connection = self.client.connection_states();
        loop {
            self.reporter.report_no_term(self.state_without_term());
            tokio::select! {
                biased;
                command = self.commands.changed() => {
                    let Ok(()) = command else { return Ok(Next::Abandoned) };
                    return Ok(Next::Report(self.commands.borrow_and_update().number, Ok(())));
                }
                state = connection.next() => self.check_not_ended(state).await?,
            }
        }
    }

    /// Waits until no node of this participant is left in the queue. `released` is the result of
    /// its release.
    async fn wait_until_left(&self, released: Result<()>) -> Result<()> {
        let mut connection = self.client.connection_states();
        let mut left = pin!(wait_until_left(
            &self.client,
            self.path(),
            self.mutex.driver()
        ));
        let left = loop {
            self.reporter.report_no_term(self.state_without_term());
            tokio::select! {
                biased;
                left = &mut left => break left,
                Some(_) = connection.next() => {}
            }
        };
        match released {
            // The result of the wait replaces the result of the release: the node is deleted, or
            // the server refuses to delete it. After a loss, there is no term to end.
            Ok(())
            | Err(Error::ReleasePending { .. } | Error::ReleaseRefused { .. } | Error::Lost(_)) => {
                left
            }
            failed => failed,
        }
    }

    /// Returns an error if the client has ended: then there is no next `state`.
    async fn check_not_ended(&self, state: Option<ConnectionState>) -> Result<()> {
        match state {
            Some(_) => Ok(()),
            None => Err(self.client.closing().await.into()),
        }
    }

    fn state_without_term(&self) -> LeaderState {
        let is_failing = self.pauses.is_failing();
        if self.client.check_connected().is_ok() && !is_failing {
            LeaderState::Follower
        } else {
            LeaderState::Unknown
        }
    }

    fn log(&self, error: &Error, what: &str) {
        tracing::debug!(client = self.client.name(), path = %self.path(), %error, "{what}");
    }
}
