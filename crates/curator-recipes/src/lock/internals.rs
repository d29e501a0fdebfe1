//! The engine under every lock: runs one contest after another, until one is won.

use std::sync::Arc;

use curator_client::{CuratorClient, Error as ClientError, Outcome, Session, SessionEnd, Turn, ZPath};
use curator_protocol::{ContenderIdentity, Contest, ContestError, LockInternalsDriver, Pace, Step, Uuid};

use super::acquire_methods::Wait;
use super::contender::{Contender, LeasesWanted};
use super::failures::Failures;
use super::hold::Hold;
use super::line::{InQueue, Line};
use super::refused::refused_before;
use crate::error::{Error, Result};

/// The engine under every lock: takes one place in each of its queues, and waits until it is first in all of them.
///
/// After Curator's class of the same name. The [`Contest`] decides what to do; the [`Contender`] sends the requests.
#[derive(Debug, Clone)]
pub(crate) struct LockInternals {
    client: CuratorClient,
    /// The directory of each queue. Never empty.
    dirs: Arc<[ZPath]>,
    /// The lock's own path, for messages: the first directory, unless the queue stands below the lock.
    lock: ZPath,
    driver: Arc<dyn LockInternalsDriver>,
    data: Arc<[u8]>,
    line: Arc<Line>,
}

/// How one contest in one session ended.
enum ContestEnd {
    Won(Vec<Hold>),
    /// Someone is before us, and we may not wait.
    Refused,
    /// The session ended; the next contest is a new one, with a new id.
    SessionOver(SessionEnd),
    /// Someone deleted our node.
    PlaceDeleted,
}

impl LockInternals {
    /// For the queue in this directory.
    pub(crate) fn new(client: &CuratorClient, dir: ZPath, driver: Arc<dyn LockInternalsDriver>) -> Result<Self> {
        Self::of_dirs(client, [dir].into(), driver)
    }

    /// For the queues in these directories; at least one.
    pub(crate) fn of_dirs(
        client: &CuratorClient,
        dirs: Arc<[ZPath]>,
        driver: Arc<dyn LockInternalsDriver>,
    ) -> Result<Self> {
        for dir in &*dirs {
            check_prefix(dir, &*driver)?;
        }
        // The same for all contenders, whatever their ids.
        let line = Line::of(client, Arc::clone(&dirs), driver.node_prefix(&Uuid::nil()));
        let (lock, data) = (dirs[0].clone(), Arc::clone(client.default_lock_data()));
        Ok(Self { client: client.clone(), dirs, lock, driver, data, line })
    }

    /// For a lock at `path` whose queue stands below it.
    pub(crate) fn of_lock(mut self, path: &ZPath) -> Self {
        self.lock = path.clone();
        self
    }

    /// Shares the line of `other`, for kinds of nodes that stand in the same queue.
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

    /// The first directory, which stands for all of them in messages.
    pub(crate) fn dir(&self) -> &ZPath {
        &self.dirs[0]
    }

    /// No failures yet, of an acquire of this lock.
    pub(crate) fn failures(&self) -> Failures<'_> {
        Failures::new(&self.client, &self.lock)
    }

    pub(crate) fn driver(&self) -> &dyn LockInternalsDriver {
        &*self.driver
    }

    pub(crate) fn data(&self) -> &Arc<[u8]> {
        &self.data
    }

    /// Runs one contest after another until one is won. Returns a single hold; or, once first in a semaphore's queue, a
    /// hold for each of the wanted leases; or `None` if it would have to wait and may not.
    pub(crate) async fn acquire(&self, wait: Wait, wanted: Option<LeasesWanted<'_>>) -> Result<Option<Vec<Hold>>> {
        // Consecutive failures of requests, which end with a place in the queue; and deletions of that place.
        let (mut failures, mut places_lost) = (self.failures(), self.failures());
        let mut in_queue = self.line_up(wait, &mut failures).await?;
        loop {
            let session = match (self.client.try_session(), wait) {
                (Ok(session), _) => session,
                (Err(error), Wait::No) => return Err(failures.at_once(error)),
                (Err(_), Wait::Until(_)) => match self.client.session().await {
                    Ok(session) => session,
                    Err(error) => {
                        failures.pause(error).await?;
                        continue;
                    }
                },
            };
            match self.run_contest(&session, wait, wanted, &mut in_queue, &mut failures).await? {
                ContestEnd::Won(holds) => return Ok(Some(holds)),
                ContestEnd::Refused => return Ok(None),
                ContestEnd::SessionOver(end) if wait == Wait::No || end == SessionEnd::Closed => {
                    let (operation, path, outcome) = ("wait for", self.dir().clone(), Outcome::NotApplied);
                    return Err(failures.at_once(ClientError::SessionEnded { operation, path, end, outcome }));
                }
                ContestEnd::SessionOver(end) => {
                    tracing::debug!(dir = %self.dir(), %end, "lost the place in the queue with the session");
                }
                ContestEnd::PlaceDeleted => {
                    if wait == Wait::No || !places_lost.again().await? {
                        return Err(Error::PlaceDeleted { dir: self.dir().clone() });
                    }
                }
            }
        }
    }

    /// Waits until fewer contenders of this client stand in the queue than may. A contender that may not wait enters it
    /// at once.
    async fn line_up(&self, wait: Wait, failures: &mut Failures<'_>) -> Result<InQueue> {
        if wait == Wait::No {
            return Ok(InQueue::without_line());
        }
        let mut entering = std::pin::pin!(self.line.enter());
        loop {
            tokio::select! {
                biased;
                in_queue = &mut entering => return Ok(in_queue),
                // A contender that waits here fails in the same cases as one in the queue.
                error = self.without_session(failures) => failures.pause(error).await?,
            }
        }
    }

    /// Waits until there has been no session for too long. A new session ends the sequence of failures.
    async fn without_session(&self, failures: &mut Failures<'_>) -> ClientError {
        loop {
            match self.client.session().await {
                Ok(session) => {
                    failures.forget();
                    session.ended().await;
                }
                Err(error) => return error,
            }
        }
    }

    async fn run_contest(
        &self,
        session: &Session,
        wait: Wait,
        wanted: Option<LeasesWanted<'_>>,
        in_queue: &mut InQueue,
        failures: &mut Failures<'_>,
    ) -> Result<ContestEnd> {
        let id = Uuid::new_v4();
        let mut contender = Contender::new(&self.client, session, &id, &self.dirs, &*self.driver, &self.data)?;
        let mut contest = Contest::new(id, session.id(), self.dirs.len());
        if let Some(wanted) = wanted {
            contender = contender.with_leases(&id, &wanted)?;
            contest = Contest::for_leases(id, session.id(), wanted.quantity, wanted.limit);
        }
        if wait == Wait::No {
            contest = contest.without_waiting();
        }
        let mut refusals = None;
        let mut step = contest.start();
        loop {
            step = match step {
                Step::Send { requests, pace } => {
                    let failure = contender.failure.take();
                    let turn = match self.next_turn(session, wait, pace, failure, failures).await? {
                        Ok(turn) => turn,
                        Err(end) => return Ok(ContestEnd::SessionOver(end)),
                    };
                    let pipeline = contender.send(&requests)?;
                    in_queue.sent();
                    let answers = contender.answers(&requests, pipeline).await?;
                    drop(turn);
                    if let Some(end) = session.end() {
                        return Ok(ContestEnd::SessionOver(end));
                    }
                    let next = contest.answered(self.driver(), answers);
                    // After a restart or a failure, what was known of the nodes before still holds.
                    if !matches!(next, Step::Restart(_) | Step::Failed { .. }) {
                        contender.note_nodes(&contest)?;
                    }
                    // Being able to look is not progress yet: a create, or the taking of leases, may keep failing.
                    if contender.failure.is_none() && contest.is_queued() {
                        failures.forget();
                    }
                    next
                }
                Step::Wait => {
                    let refusals = refusals.get_or_insert_with(|| self.client.janitor().refusals(session));
                    if let Some(refused) = refused_before(self.driver(), &contest, &mut contender, refusals).await {
                        return Err(refused);
                    }
                    failures.forget();
                    tokio::select! {
                        biased;
                        seen = contender.watches.next(session) => match seen {
                            Ok(event) => contest.observed(event),
                            Err(end) => return Ok(ContestEnd::SessionOver(end)),
                        },
                        () = refusals.changed() => Step::Wait,
                    }
                }
                Step::Won(nodes) => {
                    // The clock is read last: everything before may have taken longer than the session's lease.
                    if let Some(end) = session.end() {
                        return Ok(ContestEnd::SessionOver(end));
                    }
                    contender.delete_surplus(&contest)?;
                    return Ok(ContestEnd::Won(contender.into_holds(&nodes)?));
                }
                Step::Refused => return Ok(ContestEnd::Refused),
                Step::Restart(reason) => {
                    contender.delete_surplus(&contest)?;
                    contender.restart(reason);
                    return Ok(ContestEnd::PlaceDeleted);
                }
                Step::Failed { queue, error } => return Err(self.failed(queue, error)),
            };
        }
    }

    /// Waits until the next pipeline may be sent: as long as the policy says, if `pace` asks for that; for a connection;
    /// and for our turn, which must be kept until the pipeline is answered. `failure` is what was wrong with the last
    /// pipeline. A contender that may not wait retries nothing, and does not wait here.
    ///
    /// The inner error means that the session ended first.
    async fn next_turn(
        &self,
        session: &Session,
        wait: Wait,
        pace: Pace,
        failure: Option<ClientError>,
        failures: &mut Failures<'_>,
    ) -> Result<Result<Option<Turn>, SessionEnd>> {
        match (pace, failure) {
            (_, Some(error)) if wait == Wait::No => return Err(failures.at_once(error)),
            (Pace::Now, _) => {}
            (Pace::Retry, Some(error)) => failures.pause(error).await?,
            // The directory disappears as often as we create it.
            (Pace::Retry, None) => {
                if !failures.again().await? {
                    let (operation, path) = ("contend for", self.dir().clone());
                    return Err(ClientError::NoNode { operation, path }.into());
                }
            }
        }
        if wait == Wait::No {
            return Ok(Ok(None));
        }
        // A pipeline that fails for lack of a connection is not a failure of the lock, which waits for a connection.
        Ok(session.turn().await.map(Some))
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

/// Refuses bad names when the lock is made; otherwise the first create would find them.
fn check_prefix(dir: &ZPath, driver: &dyn LockInternalsDriver) -> Result<()> {
    let id = Uuid::new_v4();
    let prefix = driver.node_prefix(&id);
    let invalid = |expected| Error::InvalidDriver { prefix: prefix.clone(), expected };
    if prefix.is_empty() || prefix.contains('/') {
        return Err(invalid("a name that is not empty and has no '/'"));
    }
    dir.join(&prefix).map_err(|_| invalid("a name that ZooKeeper accepts"))?;
    if driver.identity() == ContenderIdentity::Name && !prefix.contains(&id.to_string()) {
        return Err(invalid(
            "a name with the contender's id in it, or a driver whose contenders have their id in the data",
        ));
    }
    if driver.sequence(&format!("{prefix}0000000007")) != Some(7) {
        return Err(invalid("a name that the driver's own `sequence` understands"));
    }
    Ok(())
}
