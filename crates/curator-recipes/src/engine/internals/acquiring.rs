//! Runs one acquire: one contest after another, until one is won.

use std::future::pending;
use std::pin::pin;

use curator_client::{
    Error as ClientError, Outcome, RecipeSupport as _, Session, SessionEnd, Turn, source,
};
use curator_protocol::{Contest, ContestError, Event, Pace, Step};
use futures_util::future::FutureExt as _;

use super::LockInternals;
use crate::engine::contender::{Contender, LeasesWanted};
use crate::engine::failures::Failures;
use crate::engine::hold::Hold;
use crate::engine::line::QueuePermit;
use crate::engine::log::AcquireLog;
use crate::engine::refused::blocked_by_refused;
use crate::error::{Error, Result};
use crate::wait::Wait;

/// One acquire of a lock.
pub(super) struct Acquiring<'a, 'l> {
    lock: &'a LockInternals,
    wait: Wait,
    wanted: Option<LeasesWanted<'a>>,
    /// Consecutive failures of requests; reset once the contender has a place in the queue.
    failures: Failures<'a>,
    log: &'a mut AcquireLog<'l>,
}

/// How one contest in one session ended.
enum ContestEnd {
    Won(Vec<Hold>),
    /// Another contender is ahead, or too few leases are left, and this acquire may not wait, or
    /// not any longer.
    Refused,
    /// The session ended; the next contest is a new one, with a new id.
    SessionOver(SessionEnd),
    /// Another client deleted the contender's node.
    PlaceDeleted,
}

impl<'a, 'l> Acquiring<'a, 'l> {
    pub(super) fn new(
        lock: &'a LockInternals,
        wait: Wait,
        wanted: Option<LeasesWanted<'a>>,
        log: &'a mut AcquireLog<'l>,
    ) -> Self {
        Self {
            lock,
            wait,
            wanted,
            failures: lock.failures(),
            log,
        }
    }

    /// See [`LockInternals::acquire`].
    pub(super) async fn run(&mut self) -> Result<Option<Vec<Hold>>> {
        let permit = self.line_up().await?;
        // Boxed, so that the futures of the many waiters in the line stay small.
        self.contend(permit).boxed().await
    }

    async fn contend(&mut self, mut permit: QueuePermit) -> Result<Option<Vec<Hold>>> {
        let (lock, wait) = (self.lock, self.wait);
        let mut places_lost = lock.failures();
        loop {
            self.failures.attempt();
            let session = match (lock.client.try_session(), wait) {
                (Ok(session), _) => session,
                (Err(error), Wait::No) => return Err(self.failures.without_retry(error)),
                (Err(_), Wait::Until(_)) => match lock.client.session().await {
                    Ok(session) => session,
                    Err(error) => {
                        self.failures.pause(error).await?;
                        continue;
                    }
                },
            };
            match self.run_contest(&session, &mut permit).await? {
                ContestEnd::Won(holds) => return Ok(Some(holds)),
                ContestEnd::Refused => return Ok(None),
                ContestEnd::SessionOver(end)
                    if wait == Wait::No || !end.is_followed_by_another() =>
                {
                    let (operation, path, outcome) =
                        ("wait for", lock.dir().clone(), Outcome::NotApplied);
                    return Err(self.failures.without_retry(ClientError::SessionEnded {
                        operation,
                        path,
                        end,
                        outcome,
                    }));
                }
                ContestEnd::SessionOver(end) => self.log.session_over(end),
                ContestEnd::PlaceDeleted => {
                    self.log.place_deleted();
                    if wait == Wait::No || !places_lost.again().await? {
                        return Err(Error::PlaceDeleted {
                            dir: lock.dir().clone(),
                        });
                    }
                }
            }
        }
    }

    /// Waits for a place among the contenders of this client in the queue. A contender that may not
    /// wait enters immediately.
    async fn line_up(&mut self) -> Result<QueuePermit> {
        let (Some(line), Wait::Until(_)) = (&self.lock.line, self.wait) else {
            return Ok(QueuePermit::without_line());
        };
        let mut entering = pin!(line.enter());
        if let Some(permit) = entering.as_mut().now_or_never() {
            return Ok(permit);
        }
        self.log.waits_in_line();
        loop {
            tokio::select! {
                biased;
                permit = &mut entering => return Ok(permit),
                // A contender that waits here fails in the same cases as one in the queue.
                error = self.without_session() => self.failures.pause(error).boxed().await?,
            }
        }
    }

    /// Waits until the client fails to find a session, and returns the error. A new session ends
    /// the sequence of failures.
    async fn without_session(&mut self) -> ClientError {
        loop {
            self.failures.attempt();
            let session = match self.lock.client.session().boxed().await {
                Ok(session) => session,
                Err(error) => return error,
            };
            self.failures.forget();
            session.ended().await;
        }
    }

    async fn run_contest(
        &mut self,
        session: &Session,
        permit: &mut QueuePermit,
    ) -> Result<ContestEnd> {
        let (lock, id) = (self.lock, source::new_uuid());
        lock.note_queued(false);
        let mut contender = Contender::new(
            &lock.client,
            session,
            &id,
            &lock.dirs,
            &*lock.driver,
            lock.data(),
        )?;
        let mut contest = Contest::new(id, session.id(), lock.dirs.len());
        if let Some(wanted) = self.wanted {
            contender = contender.with_leases(&id, &wanted)?;
            contest = Contest::for_leases(id, session.id(), wanted.quantity, wanted.limit);
        }
        if self.wait == Wait::No {
            contest = contest.without_waiting();
        }
        let mut refusals = lock.client.janitor().refusals(session);
        // Checked before the create, because the server would refuse to delete the created node
        // too: each attempt would leave another one.
        if let Some(refused) =
            blocked_by_refused(lock.driver(), &contest, &mut contender, &mut refusals).await
        {
            return Err(refused);
        }
        // One future for all waits, because each such future has a timer.
        let mut ended = pin!(session.ended());
        // The connection over which the contender's nodes were last seen.
        let mut connection = session.connections();
        let mut step = contest.start();
        loop {
            step = match step {
                Step::Send { requests, pace } => {
                    let failure = contender.failure.take();
                    let turn = match self.next_turn(session, pace, failure).await? {
                        Ok(turn) => turn,
                        Err(end) => return Ok(ContestEnd::SessionOver(end)),
                    };
                    self.failures.attempt();
                    // After the pause, because a look from before it would be outdated.
                    if contender.has_to_look(&requests) {
                        let is_answered = contender.look(turn).await;
                        if let Some(end) = session.end() {
                            return Ok(ContestEnd::SessionOver(end));
                        }
                        step = Step::Send {
                            requests,
                            pace: if is_answered { Pace::Now } else { Pace::Retry },
                        };
                        continue;
                    }
                    self.failures.creates(&requests);
                    connection = session.connections();
                    let pipeline = contender.send(&requests)?;
                    permit.sent();
                    let answers = in_turn(turn, contender.answers(&requests, pipeline)).await?;
                    if let Some(end) = session.end() {
                        return Ok(ContestEnd::SessionOver(end));
                    }
                    let next = contest.answered(lock.driver(), answers);
                    // After a restart or a failure, the recorded nodes stay valid.
                    if !matches!(next, Step::Restart | Step::Failed { .. }) {
                        contender.note_nodes(&contest)?;
                    }
                    // A successful read is not progress: the create, or taking the leases, may keep
                    // failing.
                    if contender.failure.is_none() && contest.is_queued() {
                        self.failures.forget();
                    }
                    next
                }
                Step::Wait => {
                    self.log.waits(session, &lock.dirs, &contest);
                    lock.note_queued(true);
                    if let Some(refused) =
                        blocked_by_refused(lock.driver(), &contest, &mut contender, &mut refusals)
                            .await
                    {
                        return Err(refused);
                    }
                    self.failures.forget();
                    let patience = match self.wait {
                        Wait::No => lock
                            .client
                            .sleep_until(contender.patience.deadline())
                            .boxed(),
                        Wait::Until(_) => pending().boxed(),
                    };
                    tokio::select! {
                        biased;
                        seen = contender.watches.next(session, ended.as_mut()) => match seen {
                            Ok(event) => {
                                self.log.woken();
                                if matches!(event, Event::AheadDeleted { .. }) {
                                    contender.patience.advanced();
                                }
                                contest.observed(event)
                            }
                            Err(end) => return Ok(ContestEnd::SessionOver(end)),
                        },
                        () = refusals.changed() => Step::Wait,
                        () = patience => return Ok(ContestEnd::Refused),
                    }
                }
                Step::Won(nodes) => {
                    if let Some(end) = session.end() {
                        return Ok(ContestEnd::SessionOver(end));
                    }
                    contender.delete_surplus(&contest)?;
                    let holds = contender.into_holds(&nodes, self.log)?;
                    for hold in &holds {
                        if !hold
                            .is_there_since(connection, self.wait, &mut self.failures)
                            .await?
                        {
                            return Ok(ContestEnd::PlaceDeleted);
                        }
                    }
                    // Read the clock last: the steps before may have taken longer than the
                    // session's lease.
                    return Ok(match session.end() {
                        Some(end) => ContestEnd::SessionOver(end),
                        None => ContestEnd::Won(holds),
                    });
                }
                Step::Refused => return Ok(ContestEnd::Refused),
                Step::Restart => {
                    contender.delete_surplus(&contest)?;
                    return Ok(ContestEnd::PlaceDeleted);
                }
                Step::Failed { queue, error } => return Err(self.failed(queue, error)),
            };
        }
    }

    /// Waits until the next pipeline may be sent: for a pause, depending on `pace`; for a
    /// connection; and for a request turn, which lasts until the replies arrive. `failure` is the
    /// error of the last pipeline. A contender that may not wait neither retries nor waits here.
    ///
    /// The inner error means that the session ended first.
    async fn next_turn(
        &mut self,
        session: &Session,
        pace: Pace,
        failure: Option<ClientError>,
    ) -> Result<Result<Option<Turn>, SessionEnd>> {
        match (pace, failure) {
            (_, Some(error)) if self.wait == Wait::No => {
                return Err(self.failures.without_retry(error));
            }
            (Pace::Now, _) => {}
            (Pace::Retry, Some(error)) if !matches!(error, ClientError::KeepsChanging { .. }) => {
                self.failures.pause(error).await?;
            }
            (Pace::Pause | Pace::Retry, _) if self.wait == Wait::No => {
                let (operation, path) = ("contend for", self.lock.dir().clone());
                return Err(self
                    .failures
                    .keep_changing(ClientError::KeepsChanging { operation, path }));
            }
            (Pace::Pause | Pace::Retry, _) => {
                self.log.directories_keep_changing();
                self.failures.pause_for_changes().await?;
            }
        }
        if self.wait == Wait::No {
            return Ok(Ok(None));
        }
        // Waits for a connection first: a pipeline sent without one would count as a failure of the
        // acquire.
        Ok(session.turn().await.map(Some))
    }

    fn failed(&self, queue: usize, error: ContestError) -> Error {
        match error {
            ContestError::SequenceOverflow(overflow) => {
                let dir = self.lock.dirs.get(queue).unwrap_or(self.lock.dir()).clone();
                Error::SequenceOverflow {
                    dir,
                    node: overflow.name,
                }
            }
            error => self.lock.protocol_error(error),
        }
    }
}

/// Waits for the replies to requests, and ends the turn when they arrive.
async fn in_turn<F: Future>(turn: Option<Turn>, answers: F) -> F::Output {
    match turn {
        Some(turn) => turn.until_answered(answers).await,
        None => answers.await,
    }
}

#[cfg(test)]
mod tests {
    use std::mem::size_of_val;
    use std::sync::Arc;

    use curator_client::{CuratorClient, ZPath};
    use curator_protocol::StandardLockInternalsDriver;

    use super::*;
    use crate::owner::OwnerId;

    /// There may be ten thousand waiters. State that is needed only in the queue is boxed there.
    #[tokio::test]
    async fn the_future_of_an_acquire_has_at_most_1200_bytes_before_it_enters_the_queue() {
        // No request is sent.
        let client = CuratorClient::builder("127.0.0.1:1").start().unwrap();
        let path = ZPath::on_server("/lock").unwrap();
        let driver = Arc::new(StandardLockInternalsDriver::new());
        let lock = LockInternals::new(&client, "mutex", path.clone(), driver).unwrap();
        let owner = OwnerId::new();
        let mut log = lock.start_log(&owner, Wait::FOREVER);
        let acquiring = lock.acquire(Wait::FOREVER, None, &mut log);
        assert!(
            size_of_val(&acquiring) <= 1_200,
            "{} bytes",
            size_of_val(&acquiring)
        );
    }
}
