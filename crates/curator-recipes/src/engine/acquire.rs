//! The loop of every acquire: one contest per session, until one is won or the acquire fails.

use std::future::pending;
use std::pin::pin;

use curator_client::{Error as ClientError, Outcome, SessionEnd};
use curator_protocol::{ContestError, Event, Pace, Step};
use futures_util::future::FutureExt as _;

use super::attempts::Attempts;
use super::hold::Hold;
use super::internals::LockInternals;
use super::line::QueuePermit;
use super::log::AcquireLog;
use super::runner::{LeasesWanted, Runner};
use crate::error::{Error, Result};
use crate::wait::Wait;

/// How a contest in one session ended.
enum End {
    Won(Vec<Hold>),
    /// Another contender is ahead, or too few leases are left, and this acquire must not wait (any
    /// longer).
    Refused,
    /// The session ended. The next session starts a new contest, with a new id.
    Session(SessionEnd),
    /// Another client deleted the contender's node.
    PlaceDeleted,
}

impl LockInternals {
    /// Runs one contest after another until one is won. Returns one hold or, for a semaphore, one
    /// hold for each wanted lease. Returns `None` if `wait` is [`Wait::No`] and the acquire would
    /// have to wait.
    ///
    /// Does not check for re-entry: the owner in `log` is only logged and recorded in the hold.
    pub(crate) async fn acquire(
        &self,
        wait: Wait,
        wanted: Option<LeasesWanted<'_>>,
        log: &mut AcquireLog<'_>,
    ) -> Result<Option<Vec<Hold>>> {
        // Reset once the contender has a place in the queue.
        let mut attempts = self.attempts();
        let permit = self.line_up(wait, &mut attempts, log).await?;
        // Boxed, so that the futures of the many waiters in the line stay small.
        self.contend(wait, wanted, permit, attempts, log)
            .boxed()
            .await
    }

    async fn contend(
        &self,
        wait: Wait,
        wanted: Option<LeasesWanted<'_>>,
        mut permit: QueuePermit,
        mut attempts: Attempts<'_>,
        log: &mut AcquireLog<'_>,
    ) -> Result<Option<Vec<Hold>>> {
        let mut places_lost = None;
        loop {
            attempts.begin();
            let session = match (self.client.try_session(), wait) {
                (Ok(session), _) => session,
                (Err(error), Wait::No) => return Err(attempts.without_retry(error)),
                (Err(_), Wait::Until(_)) => match self.client.session().boxed().await {
                    Ok(session) => session,
                    Err(error) => {
                        attempts.pause(error).boxed().await?;
                        continue;
                    }
                },
            };
            self.note_queued(false);
            // However this iteration ends, dropping the runner deletes its nodes.
            let mut runner = Runner::new(self, &session, wanted, wait)?;
            let mut refusals = self.client.janitor().refusals(&session);
            // Check before the create: the server would refuse to delete the new node too, so each
            // attempt would leave another node behind.
            if let Some(refused) = runner.blocked_by_refused(&mut refusals).await {
                return Err(refused);
            }
            // One future for all waits, because each such future has a timer.
            let mut ended = pin!(session.ended());
            let mut step = runner.contest.start();
            let end = loop {
                step = match step {
                    Step::Send { requests, pace } => {
                        let failure = runner.failure.take();
                        if pace != Pace::Now || failure.is_some() {
                            // Boxed, so that the futures of the many waiters stay small.
                            self.keep_pace(pace, failure, wait, &mut attempts, log)
                                .boxed()
                                .await?;
                        }
                        // If the acquire may wait, wait for a connection first: a pipeline sent
                        // without a connection would count as a failed attempt. The turn lasts
                        // until the replies arrive.
                        let turn = match wait {
                            Wait::No => None,
                            Wait::Until(_) => match session.turn().await {
                                Ok(turn) => Some(turn),
                                Err(end) => break End::Session(end),
                            },
                        };
                        attempts.begin();
                        // Sent after the pause, because an earlier result could be outdated.
                        if runner.must_find_missing(&requests) {
                            let pace = if runner.find_missing(turn).boxed().await {
                                Pace::Now
                            } else {
                                Pace::Retry
                            };
                            if let Some(end) = session.end() {
                                break End::Session(end);
                            }
                            step = Step::Send { requests, pace };
                            continue;
                        }
                        attempts.creates(&requests);
                        let replies = runner.send(&requests)?;
                        permit.sent();
                        let answered = runner.receive(&requests, replies).boxed();
                        let next = match turn {
                            Some(turn) => turn.until_answered(answered).await?,
                            None => answered.await?,
                        };
                        if let Some(end) = session.end() {
                            break End::Session(end);
                        }
                        // A successful read is not progress: the create, or taking the leases, may
                        // keep failing.
                        if runner.failure.is_none() && runner.contest.is_queued() {
                            attempts.reset();
                        }
                        next
                    }
                    Step::Wait => {
                        log.waits(&session, &self.dirs, &runner.contest);
                        self.note_queued(true);
                        if let Some(refused) = runner.blocked_by_refused(&mut refusals).await {
                            return Err(refused);
                        }
                        attempts.reset();
                        let patience = match wait {
                            Wait::No => {
                                let deadline = runner.patience.deadline();
                                self.client.sleep_until(deadline).boxed()
                            }
                            Wait::Until(_) => pending().boxed(),
                        };
                        tokio::select! {
                            biased;
                            seen = runner.watches.next(&session, ended.as_mut()) => match seen {
                                Ok(event) => {
                                    log.woken();
                                    if matches!(event, Event::AheadDeleted { .. }) {
                                        runner.patience.advanced();
                                    }
                                    runner.contest.observed(event)
                                }
                                Err(end) => break End::Session(end),
                            },
                            () = refusals.changed() => Step::Wait,
                            () = patience => break End::Refused,
                        }
                    }
                    Step::Won(nodes) => {
                        if let Some(end) = session.end() {
                            break End::Session(end);
                        }
                        let holds = runner.take_holds(&nodes, log)?;
                        // Boxed, so that the futures of the many waiters stay small.
                        if session.connections() != runner.connection
                            && !runner.are_there(&holds, &mut attempts).boxed().await?
                        {
                            break End::PlaceDeleted;
                        }
                        // Read the clock last: the previous steps may have outlasted the session's
                        // lease.
                        break match session.end() {
                            Some(end) => End::Session(end),
                            None => End::Won(holds),
                        };
                    }
                    Step::Refused => break End::Refused,
                    Step::Restart => break End::PlaceDeleted,
                    Step::Failed { queue, error } => return Err(self.failed(queue, error)),
                };
            };
            // Dropped before any pause, so that no node of this contest blocks other contenders.
            drop(runner);
            match end {
                End::Won(holds) => return Ok(Some(holds)),
                End::Refused => return Ok(None),
                End::Session(end) if wait == Wait::No || !end.is_followed_by_another() => {
                    return Err(attempts.without_retry(ClientError::SessionEnded {
                        operation: "wait for",
                        path: self.dir().clone(),
                        end,
                        outcome: Outcome::NotApplied,
                    }));
                }
                End::Session(end) => log.session_ended(end),
                End::PlaceDeleted => {
                    log.place_deleted();
                    let may_retry = wait != Wait::No
                        && places_lost
                            .get_or_insert_with(|| self.client.retrier())
                            .again()
                            .boxed()
                            .await?;
                    if !may_retry {
                        return Err(Error::PlaceDeleted {
                            dir: self.dir().clone(),
                        });
                    }
                }
            }
        }
    }

    /// Waits until the client's line admits this contender to the queue. A contender that must not
    /// wait enters immediately.
    async fn line_up(
        &self,
        wait: Wait,
        attempts: &mut Attempts<'_>,
        log: &AcquireLog<'_>,
    ) -> Result<QueuePermit> {
        let (Some(line), Wait::Until(_)) = (self.line.as_deref(), wait) else {
            return Ok(QueuePermit::without_line());
        };
        let mut entering = pin!(line.enter());
        if let Some(permit) = entering.as_mut().now_or_never() {
            return Ok(permit);
        }
        log.waits_in_line();
        loop {
            tokio::select! {
                biased;
                permit = &mut entering => return Ok(permit),
                // A contender in the line fails for the same reasons as one in the queue.
                error = self.without_session(attempts) => {
                    attempts.pause(error).boxed().await?;
                }
            }
        }
    }

    /// Waits until the client fails to provide a session, and returns the error. Each new session
    /// resets the attempts.
    async fn without_session(&self, attempts: &mut Attempts<'_>) -> ClientError {
        loop {
            attempts.begin();
            let session = match self.client.session().boxed().await {
                Ok(session) => session,
                Err(error) => return error,
            };
            attempts.reset();
            session.ended().await;
        }
    }

    /// Pauses before the next pipeline, depending on `pace`. `failure` is the error of the last
    /// pipeline. A contender that must not wait does not retry.
    async fn keep_pace(
        &self,
        pace: Pace,
        failure: Option<ClientError>,
        wait: Wait,
        attempts: &mut Attempts<'_>,
        log: &mut AcquireLog<'_>,
    ) -> Result<()> {
        match (pace, failure) {
            (_, Some(error)) if wait == Wait::No => Err(attempts.without_retry(error)),
            (Pace::Now, _) => Ok(()),
            (Pace::Retry, Some(error)) if !matches!(error, ClientError::KeepsChanging { .. }) => {
                attempts.pause(error).await
            }
            (Pace::Pause | Pace::Retry, _) if wait == Wait::No => {
                Err(attempts.keep_changing(ClientError::KeepsChanging {
                    operation: "contend for",
                    path: self.dir().clone(),
                }))
            }
            (Pace::Pause | Pace::Retry, _) => {
                log.directories_keep_changing();
                attempts.pause_for_changes().await
            }
        }
    }

    fn failed(&self, queue: usize, error: ContestError) -> Error {
        match error {
            ContestError::SequenceOverflow(overflow) => Error::SequenceOverflow {
                dir: self.dirs.get(queue).unwrap_or(self.dir()).clone(),
                node: overflow.name,
            },
            error => self.protocol_error(error),
        }
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
    async fn the_futures_of_an_acquire_have_at_most_1200_and_700_bytes_and_in_the_queue_2500() {
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
        drop(acquiring);
        let logging = lock.log_and_bound(&owner, Wait::FOREVER, async |_| Ok(None::<()>));
        assert!(
            size_of_val(&logging) <= 700,
            "{} bytes around it",
            size_of_val(&logging)
        );
        drop(logging);
        let permit = QueuePermit::without_line();
        let contending = lock.contend(Wait::FOREVER, None, permit, lock.attempts(), &mut log);
        assert!(
            size_of_val(&contending) <= 2_500,
            "{} bytes in the queue",
            size_of_val(&contending)
        );
    }
}
