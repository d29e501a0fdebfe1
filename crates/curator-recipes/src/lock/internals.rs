//! Runs a contest against a session.

use std::sync::Arc;

use curator_client::{CuratorClient, ReadOperation, Retrier, Session, SessionEnd, Turn, ZPath};

use super::contest::{ContestError, JointContest, JointStep, Pace, Request};
use super::driver::{ContenderId, ContenderIdentity, LockInternalsDriver};
use super::hold::Hold;
use super::line::{InQueue, Line};
use super::patience::{Failures, Patience};
use super::place::Place;
use super::shell::Shell;
use crate::error::{Error, Result};

/// The engine under every lock: takes one place in each of its queues, and waits until it is first in all of them.
///
/// After Curator's class of the same name. What it does is decided by [`JointContest`]; the [`Shell`] sends the requests.
#[derive(Debug, Clone)]
pub(crate) struct LockInternals {
    client: CuratorClient,
    /// One for each queue. Never empty.
    dirs: Arc<[ZPath]>,
    driver: Arc<dyn LockInternalsDriver>,
    data: Arc<[u8]>,
    line: Arc<Line>,
}

/// How one contest in one session came out.
enum ContestEnd {
    Won(Box<Place>),
    /// Somebody is before us, and we may not wait.
    Taken,
    /// The session ended; the next contest is another one, with another id.
    SessionOver(SessionEnd),
    /// Somebody deleted our node.
    PlaceDeleted,
}

impl LockInternals {
    /// For the queue at `path`, which is in the client's namespace.
    pub(crate) fn new(client: &CuratorClient, path: &str, driver: Arc<dyn LockInternalsDriver>) -> Result<Self> {
        Self::of_dirs(client, [client.resolve(path)?].into(), driver)
    }

    /// For the queues in these directories of the server; at least one.
    pub(crate) fn of_dirs(
        client: &CuratorClient,
        dirs: Arc<[ZPath]>,
        driver: Arc<dyn LockInternalsDriver>,
    ) -> Result<Self> {
        for dir in &*dirs {
            check_prefix(dir, &*driver)?;
        }
        // The same for all contenders, whatever their ids.
        let kind = driver.node_prefix(&ContenderId::from_uuid(uuid::Uuid::nil()));
        let line = Line::of(client, Arc::clone(&dirs), kind);
        Ok(Self { client: client.clone(), dirs, driver, data: Arc::clone(client.default_lock_data()), line })
    }

    /// With the line of `other`, for kinds of nodes that stand in one queue.
    pub(crate) fn in_line_with(mut self, other: &Self) -> Self {
        self.line = Arc::clone(&other.line);
        self
    }

    pub(crate) fn with_data(mut self, data: Arc<[u8]>) -> Self {
        self.data = data;
        self
    }

    pub(crate) fn client(&self) -> &CuratorClient {
        &self.client
    }

    pub(crate) fn dirs(&self) -> &[ZPath] {
        &self.dirs
    }

    /// The first directory, which stands for all in messages.
    pub(crate) fn dir(&self) -> &ZPath {
        &self.dirs[0]
    }

    pub(crate) fn driver(&self) -> &dyn LockInternalsDriver {
        &*self.driver
    }

    pub(crate) fn data(&self) -> &Arc<[u8]> {
        &self.data
    }

    /// Owns the lock, or returns `None` when patience ends first.
    pub(crate) async fn acquire(&self, patience: Patience) -> Result<Option<Hold>> {
        // Boxed, so that a user's future that acquires stays small.
        let contend = Box::pin(async {
            let mut failures = Failures::new(&self.client);
            let mut in_queue = self.line_up(patience, &mut failures).await?;
            let place = self.win(patience, &[], &mut in_queue, &mut failures).await?;
            Ok(place.map(|place| place.into_hold()))
        });
        self.within(patience, contend).await
    }

    /// Waits until fewer contenders of this client stand in the queue than may. Who may not wait goes there at once.
    pub(crate) async fn line_up(&self, patience: Patience, failures: &mut Failures) -> Result<InQueue> {
        if patience == Patience::OneFlight {
            return Ok(InQueue::aside());
        }
        let mut entering = std::pin::pin!(self.line.enter());
        loop {
            tokio::select! {
                biased;
                in_queue = &mut entering => return Ok(in_queue),
                // Who waits here fails as those do who stand in the queue.
                error = self.without_session(&mut failures.requests) => failures.requests.pause(error).await?,
            }
        }
    }

    /// Waits until there has been no session for too long. One that comes ends the row of failures.
    async fn without_session(&self, retrier: &mut Retrier) -> curator_client::Error {
        loop {
            match self.client.session().await {
                Ok(session) => {
                    retrier.reset();
                    session.ended().await;
                }
                Err(error) => return error,
            }
        }
    }

    /// One contest after another, until one is won: then we are first in all queues.
    ///
    /// `read_beside` is read in the same request as the first lists.
    pub(crate) async fn win(
        &self,
        patience: Patience,
        read_beside: &[ReadOperation],
        in_queue: &mut InQueue,
        failures: &mut Failures,
    ) -> Result<Option<Box<Place>>> {
        loop {
            let session = match patience {
                Patience::OneFlight => self.client.try_session()?,
                Patience::Until(_) => match self.client.session().await {
                    Ok(session) => session,
                    Err(error) => {
                        failures.requests.pause(error).await?;
                        continue;
                    }
                },
            };
            match self.run_contest(&session, patience, read_beside, in_queue, &mut failures.requests).await? {
                ContestEnd::Won(place) => return Ok(Some(place)),
                ContestEnd::Taken => return Ok(None),
                ContestEnd::SessionOver(end) => self.session_over(end, patience)?,
                ContestEnd::PlaceDeleted => self.place_deleted(patience, failures).await?,
            }
        }
    }

    /// The place in the queue is lost with the session.
    ///
    /// # Errors
    ///
    /// It is no time to begin anew.
    pub(crate) fn session_over(&self, end: SessionEnd, patience: Patience) -> Result<()> {
        if patience == Patience::OneFlight || end == SessionEnd::Closed {
            let (operation, path, outcome) = ("wait for", self.dir().clone(), curator_client::Outcome::NotApplied);
            return Err(curator_client::Error::SessionEnded { operation, path, end, outcome }.into());
        }
        tracing::debug!(dir = %self.dir(), %end, "lost the place in the queue with the session");
        Ok(())
    }

    /// Somebody has deleted our place in the queue.
    ///
    /// # Errors
    ///
    /// It is no time to begin anew.
    pub(crate) async fn place_deleted(&self, patience: Patience, failures: &mut Failures) -> Result<()> {
        if patience == Patience::OneFlight || !failures.places_lost.again().await? {
            return Err(Error::PlaceDeleted { dir: self.dir().clone() });
        }
        Ok(())
    }

    /// Waits until the next flight may be sent: as the policy says if `pace` asks for that, for a connection, and for our
    /// turn, which is to be kept until it is answered. `failure` is what was wrong with the last one. Who has one flight
    /// only has no second try, and waits for nothing.
    ///
    /// The inner error is that the session ended first.
    pub(crate) async fn before_flight(
        &self,
        session: &Session,
        patience: Patience,
        pace: Pace,
        failure: Option<curator_client::Error>,
        retrier: &mut Retrier,
    ) -> Result<Result<Option<Turn>, SessionEnd>> {
        match (pace, failure) {
            (_, Some(error)) if patience == Patience::OneFlight => return Err(error.into()),
            (Pace::Now, _) => {}
            (Pace::Retry, Some(error)) => retrier.pause(error).await?,
            // The directory vanishes as often as it is made.
            (Pace::Retry, None) => {
                if !retrier.again().await? {
                    let (operation, path) = ("contend for", self.dir().clone());
                    return Err(curator_client::Error::NoNode { operation, path }.into());
                }
            }
        }
        if patience == Patience::OneFlight {
            return Ok(Ok(None));
        }
        // A flight that fails for want of a connection is no failure of the lock: it waits for one.
        Ok(session.turn().await.map(Some))
    }

    async fn run_contest(
        &self,
        session: &Session,
        patience: Patience,
        read_beside: &[ReadOperation],
        in_queue: &mut InQueue,
        retrier: &mut Retrier,
    ) -> Result<ContestEnd> {
        let id = ContenderId::new();
        let mut shell = Shell::new(self, session, id, read_beside.to_vec())?;
        let mut contest = JointContest::new(id, session.id(), self.dirs.len());
        let mut refusals = self.client.janitor().refusals(session);
        let mut step = contest.start(self.driver());
        loop {
            step = match step {
                JointStep::Send { requests, pace } => {
                    let waits = requests.iter().any(|(_, request)| matches!(request, Request::WatchAhead { .. }));
                    if waits && patience == Patience::OneFlight && shell.failure.is_none() {
                        return Ok(ContestEnd::Taken);
                    }
                    let failure = shell.failure.take();
                    let turn = match self.before_flight(session, patience, pace, failure, retrier).await? {
                        Ok(turn) => turn,
                        Err(end) => return Ok(ContestEnd::SessionOver(end)),
                    };
                    let flight = shell.send(requests)?;
                    in_queue.sent();
                    let answers = shell.answers(flight).await?;
                    drop(turn);
                    if let Some(end) = session.end() {
                        return Ok(ContestEnd::SessionOver(end));
                    }
                    let complete = shell.failure.is_none();
                    let next = contest.answered(self.driver(), answers);
                    // That we can look is no progress yet: a create may fail for ever.
                    if complete && contest.nodes().next().is_some() {
                        retrier.reset();
                    }
                    next
                }
                JointStep::Wait => {
                    if let Some(refused) = self.refused_before(&contest, session, &mut refusals).await {
                        return Err(refused);
                    }
                    tokio::select! {
                        biased;
                        seen = shell.watches.next(session) => match seen {
                            Ok((queue, event)) => contest.observed(self.driver(), queue, event),
                            Err(end) => return Ok(ContestEnd::SessionOver(end)),
                        },
                        () = refusals.changed() => JointStep::Wait,
                    }
                }
                JointStep::Owned(nodes) => {
                    // The clock is read last: what came before may have taken longer than the lease.
                    if let Some(end) = session.end() {
                        return Ok(ContestEnd::SessionOver(end));
                    }
                    shell.clean_up(contest.surplus())?;
                    return Ok(ContestEnd::Won(Box::new(shell.into_place(nodes)?)));
                }
                JointStep::Restart(reason) => {
                    shell.clean_up(contest.surplus())?;
                    shell.place_is_gone(reason);
                    return Ok(ContestEnd::PlaceDeleted);
                }
                JointStep::Failed { queue, error } => return Err(self.failed(queue, error)),
            };
        }
    }

    fn failed(&self, queue: usize, error: ContestError) -> Error {
        match error {
            ContestError::SequenceOverflow(overflow) => {
                let dir = self.dirs.get(queue).unwrap_or(self.dir()).clone();
                Error::SequenceOverflow { dir, node: overflow.name }
            }
            error => self.protocol(error),
        }
    }

    pub(crate) fn protocol(&self, cause: impl ToString) -> Error {
        Error::Protocol { dir: self.dir().clone(), cause: cause.to_string() }
    }
}

/// A bad name would be found out by the first create at the latest; this says it when the lock is made.
fn check_prefix(dir: &ZPath, driver: &dyn LockInternalsDriver) -> Result<()> {
    let id = ContenderId::new();
    let prefix = driver.node_prefix(&id);
    let invalid = |expected| Error::InvalidDriver { prefix: prefix.clone(), expected };
    if prefix.is_empty() || prefix.contains('/') {
        return Err(invalid("a name that is not empty and has no '/'"));
    }
    dir.join(&prefix).map_err(|_| invalid("a name that ZooKeeper accepts"))?;
    if driver.identity() == ContenderIdentity::Name && !prefix.contains(&id.to_string()) {
        return Err(invalid("a name with the contender's id in it, or a driver whose identity is in the data"));
    }
    if driver.sequence(&format!("{prefix}0000000007")) != Some(7) {
        return Err(invalid("a name that the driver's own `sequence` understands"));
    }
    Ok(())
}
