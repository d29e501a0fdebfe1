//! The shared part of locks that can be reentrant: finds the owner's hold, or acquires the lock.

use std::borrow::Cow;
use std::sync::Arc;

use curator_client::source::watch;
use curator_protocol::LockInternalsDriver;

use super::guard::LockGuard;
use super::holds::{Holds, Share};
use crate::engine::hold::{Hold, HoldUser};
use crate::engine::internals::LockInternals;
use crate::engine::log::AcquireLog;
use crate::error::{Error, Result};
use crate::owner::{OwnerId, Reentry};
use crate::wait::Wait;

/// The engine of every lock that can be reentrant. Clones share the holds.
#[derive(Debug, Clone)]
pub(crate) struct Reentrant {
    internals: Arc<LockInternals>,
    holds: Arc<Holds>,
    reentry: Reentry,
}

impl Reentrant {
    pub(crate) fn new(internals: LockInternals, reentry: Reentry) -> Self {
        Self {
            internals: Arc::new(internals),
            holds: Arc::default(),
            reentry,
        }
    }

    /// Another lock on the same path, with other data.
    pub(crate) fn with_data(&self, data: Arc<[u8]>) -> Self {
        Self::new(
            LockInternals::clone(&self.internals).with_data(data),
            self.reentry,
        )
    }

    /// Another lock on the same path, with this name in its metrics.
    #[cfg(feature = "metrics")]
    pub(crate) fn with_metrics_name(&self, name: Arc<str>) -> Self {
        Self::new(
            LockInternals::clone(&self.internals).with_metrics_name(name),
            self.reentry,
        )
    }

    /// The same lock with the same holds, whose acquires report to `queued`; see
    /// [`LockInternals::reporting`].
    pub(crate) fn reporting(&self, queued: Arc<watch::Sender<bool>>) -> Self {
        let internals = LockInternals::clone(&self.internals).reporting(queued);
        Self {
            internals: Arc::new(internals),
            holds: Arc::clone(&self.holds),
            reentry: self.reentry,
        }
    }

    /// Another lock on the same path, with other nodes.
    pub(crate) fn with_driver(&self, driver: Arc<dyn LockInternalsDriver>) -> Result<Self> {
        Ok(Self::new(
            LockInternals::clone(&self.internals).with_driver(driver)?,
            self.reentry,
        ))
    }

    pub(crate) fn internals(&self) -> &LockInternals {
        &self.internals
    }

    pub(crate) fn holds(&self) -> &Holds {
        &self.holds
    }

    /// Returns the owner of an acquire by `caller`. Call this once for each acquire: if the lock is
    /// not reentrant, each call returns another owner.
    ///
    /// # Errors
    ///
    /// [`Error::OwnerUnknown`] for a reentrant lock outside a tokio runtime.
    pub(crate) fn owner<'a>(&self, caller: &'a OwnerId) -> Result<Cow<'a, OwnerId>> {
        let owner = self.reentry.owner(caller);
        if owner.is_unknown() {
            return Err(Error::OwnerUnknown {
                dir: self.internals.dir().clone(),
            });
        }
        Ok(owner)
    }

    /// Returns another guard if `owner` already holds the lock; otherwise acquires the lock, unless
    /// `permitted` returns an error.
    ///
    /// # Errors
    ///
    /// The error of `permitted`, which is called before and after the wait for the owner's other
    /// futures; and those of the acquire.
    pub(crate) async fn enter(
        &self,
        owner: &OwnerId,
        wait: Wait,
        permitted: impl Fn() -> Result<()> + Send + Sync,
    ) -> Result<Option<LockGuard>> {
        match self.reenter(owner) {
            Some(guard) => Ok(Some(guard)),
            None => {
                let acquiring = self
                    .internals
                    .acquiring(owner, wait, move |mut log| async move {
                        let acquired = self.contend(owner, wait, permitted, &mut log).await;
                        (log, acquired)
                    });
                acquiring.await
            }
        }
    }

    async fn contend(
        &self,
        owner: &OwnerId,
        wait: Wait,
        permitted: impl Fn() -> Result<()> + Send + Sync,
        log: &mut AcquireLog<'_>,
    ) -> Result<Option<LockGuard>> {
        permitted()?;
        let gate = self.holds.gate(owner);
        let Some(_passed) = gate.pass_logged(wait, log).await else {
            return Ok(None);
        };
        if let Some(guard) = self.reenter(owner) {
            return Ok(Some(guard));
        }
        permitted()?;
        let acquired = self.internals.acquire(wait, None, log).await?;
        Ok(acquired
            .and_then(|mut holds| holds.pop())
            .map(|hold| self.hold(hold)))
    }

    /// Returns another guard if `owner` already holds the lock.
    pub(crate) fn reenter(&self, owner: &OwnerId) -> Option<LockGuard> {
        let hold = self.holds.enter(owner, HoldUser::Guard)?;
        Some(LockGuard::new(Share::new(&self.holds, hold)).of_reentry(true))
    }

    /// If `owner` holds the lock, returns a share that keeps it held until dropped.
    pub(crate) fn keep(&self, owner: &OwnerId) -> Option<Share> {
        let hold = self.holds.enter(owner, HoldUser::Lock)?;
        Some(Share::of_lock(&self.holds, hold))
    }

    /// Records that the owner of `hold` now holds the lock.
    pub(crate) fn hold(&self, hold: Hold) -> LockGuard {
        LockGuard::new(self.holds.insert(hold))
    }
}
