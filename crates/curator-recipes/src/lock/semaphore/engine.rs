//! What is behind both semaphores: a queue, and leases that its first takes.

use std::sync::Arc;

use curator_client::{
    CuratorClient, Error as ClientError, ReadOperation, ReadResult, Refusals, Result as ClientResult, Session, Stat,
    ZPath,
};

use super::claim::{Claim, ClaimAnswer, ClaimStep, Limit};
use super::claim_shell::ClaimShell;
use super::limit::LimitSource;
use crate::error::{Error, Result};
use crate::lock::driver::{LockInternalsDriver, ParticipantKind, StandardLockInternalsDriver};
use crate::lock::guard::{LockGuard, Part};
use crate::lock::hold::Hold;
use crate::lock::holds::Holds;
use crate::lock::internals::LockInternals;
use crate::lock::owner::OwnerId;
use crate::lock::participants::{Numbers, Participant, read_queues};
use crate::lock::patience::{Failures, Patience};
use crate::lock::place::Place;
use crate::lock::refused::refused_in;

/// Curator's layout: contenders queue under `locks`, and leases are children of `leases`.
#[derive(Debug, Clone)]
pub(crate) struct SemaphoreEngine {
    path: ZPath,
    /// The queue of those who want leases.
    queue: LockInternals,
    leases_dir: ZPath,
    lease_driver: StandardLockInternalsDriver,
    lease_data: Arc<[u8]>,
    limit: LimitSource,
    /// Every lease has an owner of its own: nobody enters it again.
    holds: Arc<Holds>,
}

/// One request takes them all, and is put together before anybody sees how large it is.
const MOST_AT_ONCE: usize = 100_000;

/// How one claim came out.
enum ClaimEnd {
    Taken(Vec<LockGuard>),
    Refused,
    SessionOver(curator_client::SessionEnd),
    PlaceDeleted,
}

impl SemaphoreEngine {
    pub(super) fn new(client: &CuratorClient, path: &str, limit: LimitSource) -> Result<Self> {
        let path = client.resolve(path)?;
        let child = |name| path.join(name).map_err(ClientError::from);
        let (locks_dir, leases_dir) = (child("locks")?, child("leases")?);
        let driver = Arc::new(StandardLockInternalsDriver::new());
        let queue = LockInternals::of_dirs(client, [locks_dir].into(), driver)?;
        let lease_driver = StandardLockInternalsDriver::with_lock_name("lease-");
        let lease_data = Arc::clone(client.default_lock_data());
        Ok(Self { path, queue, leases_dir, lease_driver, lease_data, limit, holds: Arc::default() })
    }

    pub(super) fn with_lease_data(self, data: Arc<[u8]>) -> Self {
        Self { lease_data: data, holds: Arc::default(), ..self }
    }

    pub(super) fn path(&self) -> &ZPath {
        &self.path
    }

    pub(super) fn client(&self) -> &CuratorClient {
        self.queue.client()
    }

    pub(super) fn holds(&self) -> &Holds {
        &self.holds
    }

    /// The directory of the queue.
    pub(super) fn queue_dir(&self) -> &ZPath {
        self.queue.dir()
    }

    pub(super) fn leases_dir(&self) -> &ZPath {
        &self.leases_dir
    }

    pub(super) fn lease_driver(&self) -> &StandardLockInternalsDriver {
        &self.lease_driver
    }

    pub(super) fn lease_data(&self) -> &Arc<[u8]> {
        &self.lease_data
    }

    pub(super) fn limit(&self) -> &LimitSource {
        &self.limit
    }

    /// All the leases, each with a guard; `None` when patience ends first.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidQuantity`] at once, and those of the queue and of the claim.
    pub(super) async fn acquire(&self, quantity: usize, patience: Patience) -> Result<Option<Vec<LockGuard>>> {
        let max = self.limit.most().min(MOST_AT_ONCE);
        if quantity == 0 || quantity > max {
            return Err(Error::InvalidQuantity { path: self.path.clone(), asked: quantity, max });
        }
        // Boxed, so that a user's future that acquires stays small.
        self.queue.within(patience, Box::pin(self.contend(quantity, patience))).await
    }

    async fn contend(&self, quantity: usize, patience: Patience) -> Result<Option<Vec<LockGuard>>> {
        let mut beside = vec![ReadOperation::Children(self.leases_dir.clone())];
        beside.extend(self.limit.count().map(|count| ReadOperation::Data(count.path().clone())));
        let mut failures = Failures::new(self.client());
        let mut in_queue = self.queue.line_up(patience, &mut failures).await?;
        loop {
            let Some(place) = self.queue.win(patience, &beside, &mut in_queue, &mut failures).await? else {
                return Ok(None);
            };
            match self.claim(place, quantity, patience, &mut failures).await? {
                ClaimEnd::Taken(leases) => return Ok(Some(leases)),
                ClaimEnd::Refused => return Ok(None),
                ClaimEnd::SessionOver(end) => self.queue.session_over(end, patience)?,
                ClaimEnd::PlaceDeleted => self.queue.place_deleted(patience, &mut failures).await?,
            }
        }
    }

    async fn claim(
        &self,
        mut place: Box<Place>,
        quantity: usize,
        patience: Patience,
        failures: &mut Failures,
    ) -> Result<ClaimEnd> {
        let seen = self.seen(place.beside.take())?;
        let mut claim = Claim::new(place.session.id(), quantity, patience != Patience::OneFlight);
        let mut refusals = self.client().janitor().refusals(&place.session);
        let mut shell = ClaimShell::new(self, place)?;
        let mut step = claim.start(seen);
        loop {
            let session = &shell.place().session;
            step = match step {
                ClaimStep::Send { requests, pace } => {
                    let session = session.clone();
                    let failure = shell.failure.take();
                    let ready = self.queue.before_flight(&session, patience, pace, failure, &mut failures.requests);
                    let turn = match ready.await? {
                        Ok(turn) => turn,
                        Err(end) => return Ok(ClaimEnd::SessionOver(end)),
                    };
                    let answers = shell.fly(requests).await?;
                    drop(turn);
                    if let Some(end) = session.end() {
                        return Ok(ClaimEnd::SessionOver(end));
                    }
                    claim.answered(answers)
                }
                ClaimStep::Wait => {
                    if let Some(refused) = self.refused(&claim, quantity, session, &mut refusals).await {
                        return Err(refused);
                    }
                    // That we could look was no progress yet: the take may fail for ever.
                    failures.requests.reset();
                    tokio::select! {
                        biased;
                        event = shell.next() => match event {
                            Ok(event) => claim.observed(event),
                            Err(end) => return Ok(ClaimEnd::SessionOver(end)),
                        },
                        () = refusals.changed() => ClaimStep::Wait,
                    }
                }
                ClaimStep::Taken(leases) => {
                    // The clock is read last: what came before may have taken longer than the lease.
                    if let Some(end) = session.end() {
                        return Ok(ClaimEnd::SessionOver(end));
                    }
                    let holds = shell.into_holds(leases)?;
                    return Ok(ClaimEnd::Taken(holds.into_iter().map(|hold| self.guard(hold)).collect()));
                }
                ClaimStep::Refused => return Ok(ClaimEnd::Refused),
                ClaimStep::Restart => return Ok(ClaimEnd::PlaceDeleted),
                ClaimStep::Failed(cause) => return Err(self.queue.protocol(cause)),
            };
        }
    }

    /// What was read together with the list that has shown that the place is the first.
    fn seen(&self, beside: Option<Vec<ClientResult<ReadResult>>>) -> Result<(Option<usize>, Option<Limit>)> {
        let mut beside = beside.into_iter().flatten();
        let leases = match beside.next() {
            None => return Ok((None, None)),
            Some(Ok(ReadResult::Children(children))) => self.count_leases(Ok(children)),
            Some(Err(error)) => self.count_leases(Err(error)),
            Some(Ok(_)) => return Err(self.queue.protocol("the answer is no list of leases")),
        };
        let limit = match (self.limit.count(), beside.next()) {
            (None, _) => Ok(ClaimAnswer::Limit(self.limit.fixed())),
            (Some(_), Some(Ok(ReadResult::Data { data, stat, .. }))) => self.read_limit(Ok((data, stat))),
            (Some(_), Some(Err(error))) => self.read_limit(Err(error)),
            (Some(_), _) => return Err(self.queue.protocol("the answer is no number of leases")),
        };
        Ok(match (leases?, limit?) {
            (ClaimAnswer::Leases(leases), ClaimAnswer::Limit(limit)) => (Some(leases), Some(limit)),
            _ => (None, None),
        })
    }

    /// Children that are no leases use up nothing.
    pub(super) fn count_leases(&self, listed: ClientResult<Vec<String>>) -> Result<ClaimAnswer> {
        match listed {
            Err(ClientError::NoNode { .. }) => Ok(ClaimAnswer::Leases(0)),
            listed => {
                let is_lease = |name: &&String| self.lease_driver.sequence(name).is_some();
                Ok(ClaimAnswer::Leases(listed?.iter().filter(is_lease).count()))
            }
        }
    }

    pub(super) fn read_limit(&self, read: ClientResult<(Vec<u8>, Stat)>) -> Result<ClaimAnswer> {
        let Some(count) = self.limit.count() else { return Ok(ClaimAnswer::Limit(self.limit.fixed())) };
        let (data, stat) = match read {
            Err(ClientError::NoNode { .. }) => return Ok(ClaimAnswer::NoLimit),
            read => read?,
        };
        let read = count.parse(&data, stat.version)?;
        let leases = usize::try_from(read.value).unwrap_or(0);
        Ok(ClaimAnswer::Limit(Limit { leases, version: Some(read.version) }))
    }

    /// A guard for each lease.
    fn guard(&self, hold: Hold) -> LockGuard {
        let (owner, hold) = (OwnerId::new(), Arc::new(hold));
        self.holds.slot(&owner).set(&hold);
        LockGuard::new(Part::new(&self.holds, &owner, hold))
    }

    /// A lease that the server does not let this session delete, if such leases leave no room for the claim, whatever the
    /// others give back.
    async fn refused(
        &self,
        claim: &Claim,
        quantity: usize,
        session: &Session,
        refusals: &mut Refusals,
    ) -> Option<Error> {
        let most = claim.limit()?.leases;
        let refused = refused_in(&self.leases_dir, &self.lease_driver, session, refusals).await;
        // What is more than the number waits for another number.
        let is_blocked = quantity <= most && quantity > most.saturating_sub(refused.len());
        let (path, cause) = refused.into_iter().next().filter(|_| is_blocked)?;
        Some(Error::ReleaseRefused { path, cause })
    }

    /// First those who hold leases, then those who wait for some.
    ///
    /// The queue is listed before the leases. So who takes a lease between the two lists is in both, and its place in the
    /// queue is found to be gone.
    pub(super) async fn participants(&self, kind: ParticipantKind) -> Result<Vec<Participant>> {
        let waiters = self.queue.dirs().iter().map(|dir| (dir, self.queue.driver(), Numbers::Order));
        let leases = (&self.leases_dir, &self.lease_driver as &dyn LockInternalsDriver, Numbers::Nothing);
        let queues: Vec<_> = waiters.chain([leases]).collect();
        let mut participants = self.client().retry(|session| read_queues(session, &queues)).await??;
        for participant in &mut participants {
            participant.kind = kind;
            participant.owns = participant.path.parent().as_ref() == Some(&self.leases_dir);
        }
        // Stable: first comer first in each.
        participants.sort_by_key(|participant| !participant.owns);
        Ok(participants)
    }
}
