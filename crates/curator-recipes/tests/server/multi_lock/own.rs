//! A lock of the user's own, which takes its time.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::client::{CuratorClient, ZPath};
use curator_recipes::{InterProcessLock, InterProcessMutex, LockGuard, OwnerId, Participant, Result};

/// A lock of the user's own.
#[derive(Debug)]
pub(super) struct Slow {
    pub(super) inner: InterProcessMutex,
    pub(super) takes: Duration,
    /// What it was asked for.
    pub(super) timeouts: Mutex<Vec<Duration>>,
}

#[async_trait]
impl InterProcessLock for Slow {
    async fn acquire_as(&self, owner: &OwnerId) -> Result<LockGuard> {
        self.inner.acquire_as(owner).await
    }

    async fn acquire_timeout_as(&self, owner: &OwnerId, timeout: Duration) -> Result<Option<LockGuard>> {
        self.timeouts.lock().unwrap().push(timeout);
        tokio::time::sleep(self.takes).await;
        self.inner.acquire_timeout_as(owner, timeout).await
    }

    async fn try_acquire_as(&self, owner: &OwnerId) -> Result<Option<LockGuard>> {
        self.inner.try_acquire_as(owner).await
    }

    async fn participants(&self) -> Result<Vec<Participant>> {
        self.inner.participants().await
    }

    fn is_acquired_in_this_process(&self) -> bool {
        self.inner.is_acquired_in_this_process()
    }

    fn paths(&self) -> Vec<ZPath> {
        InterProcessLock::paths(&self.inner)
    }

    fn client(&self) -> &CuratorClient {
        InterProcessLock::client(&self.inner)
    }
}
