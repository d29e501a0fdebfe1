//! The engine of both semaphores: contenders queue, and the first in the queue takes its leases.

use std::sync::Arc;

use curator_client::{CuratorClient, Error as ClientError, ZPath};
use curator_protocol::{
    LeaseLimit, LockInternalsDriver, ParticipantKind, StandardLockInternalsDriver,
};

use crate::engine::internals::LockInternals;
use crate::engine::log::AcquireLog;
use crate::engine::runner::LeasesWanted;
use crate::error::{Error, Result};
use crate::lock::guard::LockGuard;
use crate::lock::holds::Holds;
use crate::lock::participants::{Numbers, Participant, read_queues};
use crate::owner::OwnerId;
use crate::shared::SharedCount;
use crate::wait::Wait;

/// Curator's layout: contenders queue under `locks`, and leases are children of `leases`.
#[derive(Debug, Clone)]
pub(crate) struct SemaphoreInternals {
    path: ZPath,
    /// The queue of the contenders that want leases.
    queue: LockInternals,
    leases_dir: ZPath,
    /// The data of the leases, if it is not the client's default.
    lease_data: Option<Arc<[u8]>>,
    limit: LimitSource,
    /// Every lease has a unique owner, so there is no re-entry.
    holds: Arc<Holds>,
}

/// The maximum number of leases of one acquire. Limits the memory of the request that takes them,
/// which is built before its size is checked.
const MAX_LEASES_AT_ONCE: usize = 100_000;

/// The source of the number of leases.
#[derive(Debug, Clone)]
pub(super) enum LimitSource {
    /// A constant. Every process that uses the path must use the same number.
    Fixed(usize),
    /// A node contains the number.
    Shared(SharedCount),
}

impl SemaphoreInternals {
    pub(super) fn new(
        client: &CuratorClient,
        kind: &'static str,
        path: ZPath,
        limit: LimitSource,
    ) -> Result<Self> {
        let child = |name| path.join(name).map_err(ClientError::from);
        let locks_dir = child("locks")?;
        let leases_dir = child("leases")?;
        let driver = Arc::new(StandardLockInternalsDriver::new());
        let queue = LockInternals::new(client, kind, locks_dir, driver)?.with_lock_path(&path);
        Ok(Self {
            path,
            queue,
            leases_dir,
            lease_data: None,
            limit,
            holds: Arc::default(),
        })
    }

    pub(super) fn with_lease_data(self, data: Arc<[u8]>) -> Self {
        Self {
            lease_data: Some(data),
            holds: Arc::default(),
            ..self
        }
    }

    #[cfg(feature = "metrics")]
    pub(super) fn with_metrics_name(self, name: Arc<str>) -> Self {
        Self {
            queue: self.queue.with_metrics_name(name),
            holds: Arc::default(),
            ..self
        }
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

    /// The data of a lease that is taken now. Not cached: the client may not know its address
    /// before it has a session.
    pub(super) fn lease_data(&self) -> &Arc<[u8]> {
        self.lease_data
            .as_ref()
            .unwrap_or_else(|| self.client().default_lock_data())
    }

    /// Acquires `quantity` leases, each with a guard. Returns `None` if it must not wait any
    /// longer.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidQuantity`], before anything is sent; errors of the queue, and of taking the
    /// leases.
    pub(super) async fn acquire(
        &self,
        quantity: usize,
        wait: Wait,
    ) -> Result<Option<Vec<LockGuard>>> {
        let most = match self.limit {
            LimitSource::Fixed(leases) => leases,
            LimitSource::Shared(_) => i32::MAX as usize,
        };
        let max = most.min(MAX_LEASES_AT_ONCE);
        if quantity == 0 || quantity > max {
            return Err(Error::InvalidQuantity {
                path: self.path.clone(),
                asked: quantity,
                max,
            });
        }
        let (limit, limit_node) = match &self.limit {
            LimitSource::Fixed(leases) => (LeaseLimit::Fixed(*leases), None),
            LimitSource::Shared(count) => (LeaseLimit::Shared, Some(count)),
        };
        let directory = &self.leases_dir;
        let data = self.lease_data.as_ref();
        let wanted = LeasesWanted {
            quantity,
            directory,
            data,
            limit,
            limit_node,
        };
        let owner = OwnerId::new();
        let acquiring =
            async |log: &mut AcquireLog<'_>| self.queue.acquire(wait, Some(wanted), log).await;
        let holds = self.queue.logged(&owner, wait, acquiring).await?;
        Ok(holds.map(|holds| {
            holds
                .into_iter()
                .map(|hold| LockGuard::new(self.holds.insert(hold)))
                .collect()
        }))
    }

    /// Lists the holders of leases, followed by the waiters.
    ///
    /// The queue is listed before the leases. So a contender that takes a lease between the two
    /// lists is in both; its deleted node in the queue is then omitted.
    pub(super) async fn participants(&self, kind: ParticipantKind) -> Result<Vec<Participant>> {
        let waiters = self
            .queue
            .dirs()
            .iter()
            .map(|dir| (dir, self.queue.driver(), Numbers::Order));
        let leases = (
            &self.leases_dir,
            &StandardLockInternalsDriver::LEASES as &dyn LockInternalsDriver,
            Numbers::Nothing,
        );
        let queues: Vec<_> = waiters.chain([leases]).collect();
        let mut participants = read_queues(self.client(), &queues).await?;
        for participant in &mut participants {
            participant.kind = kind;
            participant.owns = participant.path.parent().as_ref() == Some(&self.leases_dir);
        }
        // A stable sort: the order of arrival within each group.
        participants.sort_by_key(|participant| !participant.owns);
        Ok(participants)
    }
}
