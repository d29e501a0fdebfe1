//! Runs a contest against a session.

use std::sync::Arc;

use curator_client::{CuratorClient, Deadline, Retrier, Session, SessionEnd, ZPath};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};

use super::contest::{Contest, ContestError, Pace, Request, Step};
use super::driver::{ContenderId, ContenderIdentity, LockInternalsDriver};
use super::hold::Hold;
use super::shell::Shell;
use crate::error::{Error, Result};

/// How long to wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Enqueue, look, and leave again if somebody is before us.
    OneFlight,
    /// One deadline over everything.
    Until(Deadline),
}

/// The engine under every lock: takes one place in one queue, and waits until it owns.
///
/// After Curator's class of the same name. What it does is decided by [`Contest`]; the [`Shell`] sends the requests.
#[derive(Debug, Clone)]
pub(crate) struct LockInternals {
    client: CuratorClient,
    dir: ZPath,
    driver: Arc<dyn LockInternalsDriver>,
    data: Arc<[u8]>,
}

/// How one contest in one session came out.
enum Outcome {
    Owned(Hold),
    /// Somebody is before us, and we may not wait.
    Taken,
    /// The session ended; the next contest is another one, with another id.
    SessionOver(SessionEnd),
    /// Somebody deleted our node.
    PlaceDeleted,
}

impl LockInternals {
    pub(crate) fn new(client: &CuratorClient, path: &str, driver: Arc<dyn LockInternalsDriver>) -> Result<Self> {
        let dir = client.resolve(path)?;
        check_prefix(&dir, &*driver)?;
        Ok(Self { client: client.clone(), dir, driver, data: Arc::clone(client.default_lock_data()) })
    }

    pub(crate) fn with_data(mut self, data: Arc<[u8]>) -> Self {
        self.data = data;
        self
    }

    pub(crate) fn client(&self) -> &CuratorClient {
        &self.client
    }

    pub(crate) fn dir(&self) -> &ZPath {
        &self.dir
    }

    pub(crate) fn driver(&self) -> &dyn LockInternalsDriver {
        &*self.driver
    }

    pub(crate) fn data(&self) -> &Arc<[u8]> {
        &self.data
    }

    pub(crate) fn overflow(&self, node: String) -> Error {
        Error::SequenceOverflow { dir: self.dir.clone(), node }
    }

    /// Waits for another future of the same owner to be done with `gate`. `None` when patience ends first.
    pub(crate) async fn wait_for<'a>(
        &self,
        gate: &'a AsyncMutex<()>,
        patience: Patience,
    ) -> Result<Option<MutexGuard<'a, ()>>> {
        match patience {
            Patience::OneFlight => Ok(gate.try_lock().ok()),
            Patience::Until(deadline) => self.before(deadline, async { Ok(Some(gate.lock().await)) }).await,
        }
    }

    /// Owns the lock, or returns `None` when patience ends first.
    pub(crate) async fn acquire(&self, patience: Patience) -> Result<Option<Hold>> {
        // Boxed, so that a user's future that acquires stays small.
        let contend = Box::pin(self.contend(patience));
        let deadline = match patience {
            Patience::OneFlight => Deadline::NEVER,
            Patience::Until(deadline) => deadline,
        };
        self.before(deadline, contend).await.map_err(|error| match error {
            // Whichever of the two was seen first, it is the client that closes.
            Error::Client(curator_client::Error::SessionEnded { end: SessionEnd::Closed, .. }) => {
                curator_client::Error::Closed.into()
            }
            error => error,
        })
    }

    /// Ends `work` when the deadline has passed or the client closes. A contender that is dropped so cleans up.
    async fn before<T>(&self, deadline: Deadline, work: impl Future<Output = Result<Option<T>>>) -> Result<Option<T>> {
        tokio::select! {
            biased;
            () = self.client.closing() => Err(curator_client::Error::Closed.into()),
            done = work => done,
            () = self.client.sleep_until(deadline) => Ok(None),
        }
    }

    /// One contest after another, until one is owned.
    async fn contend(&self, patience: Patience) -> Result<Option<Hold>> {
        let mut places_lost = self.client.retrier();
        let mut failures = self.client.retrier();
        loop {
            let session = match patience {
                Patience::OneFlight => self.client.try_session()?,
                Patience::Until(_) => match self.client.session().await {
                    Ok(session) => session,
                    Err(error) => {
                        failures.pause(error).await?;
                        continue;
                    }
                },
            };
            match self.run_contest(&session, patience, &mut failures).await? {
                Outcome::Owned(hold) => return Ok(Some(hold)),
                Outcome::Taken => return Ok(None),
                Outcome::SessionOver(end) => {
                    if patience == Patience::OneFlight || end == SessionEnd::Closed {
                        return Err(self.session_over(end));
                    }
                    tracing::debug!(dir = %self.dir, %end, "lost the place in the queue with the session");
                }
                Outcome::PlaceDeleted => {
                    if patience == Patience::OneFlight || !places_lost.again().await? {
                        return Err(Error::PlaceDeleted { dir: self.dir.clone() });
                    }
                }
            }
        }
    }

    fn session_over(&self, end: SessionEnd) -> Error {
        let (operation, path, outcome) = ("wait for", self.dir.clone(), curator_client::Outcome::NotApplied);
        curator_client::Error::SessionEnded { operation, path, end, outcome }.into()
    }

    /// `failures` are those in a row; a place in the queue ends the row.
    async fn run_contest(&self, session: &Session, patience: Patience, failures: &mut Retrier) -> Result<Outcome> {
        let id = ContenderId::new();
        let mut shell = Shell::new(self, session, id)?;
        let mut contest = Contest::new(id, session.id());
        let mut step = contest.start(self.driver());
        loop {
            step = match step {
                Step::Send { requests, pace } => {
                    if patience == Patience::OneFlight {
                        if let Some(error) = shell.failure.take() {
                            return Err(error.into());
                        }
                        if requests.iter().any(|request| matches!(request, Request::WatchAhead { .. })) {
                            return Ok(Outcome::Taken);
                        }
                    }
                    match (pace, shell.failure.take()) {
                        (Pace::Retry, Some(error)) => failures.pause(error).await?,
                        (Pace::Retry, None) => {
                            // The directory vanishes as often as it is made.
                            if !failures.again().await? {
                                let (operation, path) = ("contend for", self.dir.clone());
                                return Err(curator_client::Error::NoNode { operation, path }.into());
                            }
                        }
                        (Pace::Now, _) => {}
                    }
                    // A flight that fails for want of a connection is no failure of the lock: it waits for one.
                    if patience != Patience::OneFlight
                        && let Err(end) = session.connected().await
                    {
                        return Ok(Outcome::SessionOver(end));
                    }
                    let answers = shell.fly(requests).await?;
                    if let Some(end) = session.end() {
                        return Ok(Outcome::SessionOver(end));
                    }
                    let complete = shell.failure.is_none();
                    let next = contest.answered(self.driver(), answers);
                    // That we can look is no progress yet: a create may fail for ever.
                    if complete && contest.node().is_some() {
                        failures.reset();
                    }
                    next
                }
                Step::Wait => {
                    if let Some(refused) = self.unreleased() {
                        return Err(refused);
                    }
                    match shell.watches.next(session).await {
                        Ok(event) => contest.observed(self.driver(), event),
                        Err(end) => return Ok(Outcome::SessionOver(end)),
                    }
                }
                Step::Owned(node) => {
                    // The clock is read last: what came before may have taken longer than the lease.
                    if let Some(end) = session.end() {
                        return Ok(Outcome::SessionOver(end));
                    }
                    shell.clean_up(contest.surplus())?;
                    return Ok(Outcome::Owned(shell.into_hold(&node.name, node.czxid)?));
                }
                Step::Restart(_) => {
                    // It is gone; by now another's node may have its name.
                    shell.place_is_gone();
                    return Ok(Outcome::PlaceDeleted);
                }
                Step::Failed(ContestError::SequenceOverflow(overflow)) => return Err(self.overflow(overflow.name)),
                Step::Failed(error) => return Err(self.protocol(error)),
            };
        }
    }

    /// A node of this client in the queue that the server does not let it delete. Whoever waits for that waits for itself.
    fn unreleased(&self) -> Option<Error> {
        let refused = self.client.janitor().pending_deletes().into_iter().filter(|delete| delete.given_up);
        refused.filter_map(|delete| Some((ZPath::new(&delete.path).ok()?, delete.last_error?))).find_map(
            |(path, cause)| {
                let is_here = path.parent().as_ref() == Some(&self.dir);
                is_here.then_some(Error::ReleaseRefused { path, cause })
            },
        )
    }

    fn protocol(&self, cause: impl ToString) -> Error {
        Error::Protocol { dir: self.dir.clone(), cause: cause.to_string() }
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
