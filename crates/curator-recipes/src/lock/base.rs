//! The part that mutexes, read-write locks and multi-locks share: the engine, the holds, and the
//! owner of each acquire.

use std::sync::Arc;

use curator_client::source::watch;
use curator_protocol::LockInternalsDriver;

use super::guard::LockGuard;
use super::holds::{Gates, Holds, Share};
use crate::engine::hold::{Hold, HoldUser};
use crate::engine::internals::LockInternals;
use crate::engine::log::AcquireLog;
use crate::error::{Error, Result};
use crate::owner::OwnerId;
use crate::wait::Wait;

/// A lock that can be reentrant. Clones share the holds.
#[derive(Debug, Clone)]
pub(crate) struct BaseLock {
    internals: Arc<LockInternals>,
    holds: Arc<Holds>,
    /// `None` if the lock is not reentrant: then each acquire has a separate owner.
    gates: Option<Arc<Gates>>,
}

impl BaseLock {
    pub(crate) fn non_reentrant(internals: LockInternals) -> Self {
        Self {
            internals: Arc::new(internals),
            holds: Arc::default(),
            gates: None,
        }
    }

    pub(crate) fn reentrant(internals: LockInternals) -> Self {
        Self {
            gates: Some(Arc::default()),
            ..Self::non_reentrant(internals)
        }
    }

    /// Makes another lock, which is reentrant if this one is.
    fn with(&self, internals: LockInternals) -> Self {
        match self.gates {
            Some(_) => Self::reentrant(internals),
            None => Self::non_reentrant(internals),
        }
    }

    /// Makes another lock on the same path, with this data in its nodes.
    pub(crate) fn with_data(&self, data: Arc<[u8]>) -> Self {
        self.with(LockInternals::clone(&self.internals).with_data(data))
    }

    /// Makes another lock on the same path, with this name in its metrics.
    #[cfg(feature = "metrics")]
    pub(crate) fn with_metrics_name(&self, name: Arc<str>) -> Self {
        self.with(LockInternals::clone(&self.internals).with_metrics_name(name))
    }

    /// Makes another lock on the same path, with the node names of this driver.
    pub(crate) fn with_driver(&self, driver: Arc<dyn LockInternalsDriver>) -> Result<Self> {
        Ok(self.with(LockInternals::clone(&self.internals).with_driver(driver)?))
    }

    /// The same lock with the same holds, whose acquires report to `queued`; see
    /// [`LockInternals::reporting`].
    pub(crate) fn reporting(&self, queued: Arc<watch::Sender<bool>>) -> Self {
        let internals = LockInternals::clone(&self.internals).reporting(queued);
        Self {
            internals: Arc::new(internals),
            ..self.clone()
        }
    }

    pub(crate) fn internals(&self) -> &LockInternals {
        &self.internals
    }

    pub(crate) fn holds(&self) -> &Holds {
        &self.holds
    }

    /// The gates, if the lock is reentrant.
    ///
    /// # Errors
    ///
    /// [`Error::OwnerUnknown`] if the lock is reentrant and the owner is a future outside a tokio
    /// runtime.
    pub(crate) fn gates(&self, owner: &OwnerId) -> Result<Option<&Gates>> {
        match &self.gates {
            Some(_) if owner.is_unknown() => Err(Error::OwnerUnknown {
                dir: self.internals.dir().clone(),
            }),
            gates => Ok(gates.as_deref()),
        }
    }

    /// Acquires the lock. If it is reentrant, returns another guard if `owner` already holds it;
    /// otherwise contends for it, unless `permitted` returns an error.
    ///
    /// # Errors
    ///
    /// The errors of [`gates`](Self::gates) and of the acquire; the error of `permitted`, which is
    /// called before and after the wait for the owner's other futures.
    pub(crate) async fn enter(
        &self,
        owner: &OwnerId,
        wait: Wait,
        permitted: impl Fn() -> Result<()> + Send + Sync,
    ) -> Result<Option<LockGuard>> {
        let Some(gates) = self.gates(owner)? else {
            return self.enter_alone(wait).await;
        };
        if let Some(guard) = self.reenter(owner) {
            return Ok(Some(guard));
        }
        let acquiring = async |log: &mut AcquireLog<'_>| {
            permitted()?;
            let Some(_passed) = gates.pass_logged(owner, wait, log).await else {
                return Ok(None);
            };
            if let Some(guard) = self.reenter(owner) {
                return Ok(Some(guard));
            }
            permitted()?;
            self.contend(wait, log).await
        };
        self.internals.logged(owner, wait, acquiring).await
    }

    /// Acquires the lock for a new owner, which has nothing to re-enter.
    pub(crate) async fn enter_alone(&self, wait: Wait) -> Result<Option<LockGuard>> {
        let owner = OwnerId::new();
        let acquiring = async |log: &mut AcquireLog<'_>| self.contend(wait, log).await;
        self.internals.logged(&owner, wait, acquiring).await
    }

    pub(crate) async fn contend(
        &self,
        wait: Wait,
        log: &mut AcquireLog<'_>,
    ) -> Result<Option<LockGuard>> {
        let holds = self.internals.acquire(wait, None, log).await?;
        // One node in each queue makes one hold.
        let hold = holds.and_then(|mut holds| holds.pop());
        Ok(hold.map(|hold| self.hold(hold)))
    }

    /// Returns another guard if `owner` already holds the lock.
    pub(crate) fn reenter(&self, owner: &OwnerId) -> Option<LockGuard> {
        let hold = self.holds.enter(owner, HoldUser::Guard)?;
        Some(LockGuard::new(Share::new(&self.holds, hold)).with_reentry(true))
    }

    /// If `owner` holds the lock, returns a share that keeps it held until dropped.
    pub(crate) fn keep(&self, owner: &OwnerId) -> Option<Share> {
        let hold = self.holds.enter(owner, HoldUser::Lock)?;
        Some(Share::internal(&self.holds, hold))
    }

    /// Records that the owner of `hold` now holds the lock.
    pub(crate) fn hold(&self, hold: Hold) -> LockGuard {
        LockGuard::new(self.holds.insert(hold))
    }
}
