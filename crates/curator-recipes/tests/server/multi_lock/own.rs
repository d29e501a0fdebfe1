//! A lock of the user's own, which fails or takes its time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use curator_recipes::client::{CuratorClient, ZPath};
use curator_recipes::{Error, InterProcessLock, InterProcessMutex, LockGuard, OwnerId, Participant, Result};

use crate::support::mutex;

pub(super) type Locks = Vec<Arc<dyn InterProcessLock>>;

/// What a lock of the user's own does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Behaviour {
    Fails,
    /// Passes it on, and takes its time.
    Slow(Duration),
}

/// A lock of the user's own.
#[derive(Debug)]
pub(super) struct Own {
    inner: InterProcessMutex,
    behaviour: Behaviour,
    /// What it was asked for.
    pub(super) timeouts: Mutex<Vec<Duration>>,
}

impl Own {
    pub(super) fn new(client: &CuratorClient, path: &str, behaviour: Behaviour) -> Arc<Self> {
        Arc::new(Self { inner: mutex(client, path), behaviour, timeouts: Mutex::default() })
    }

    async fn behave(&self) -> Result<()> {
        match self.behaviour {
            Behaviour::Fails => {
                let dir = InterProcessLock::paths(&self.inner).remove(0);
                Err(Error::Protocol { dir, cause: "out of order".to_owned() })
            }
            Behaviour::Slow(time) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
        }
    }
}

#[async_trait]
impl InterProcessLock for Own {
    async fn acquire_as(&self, owner: &OwnerId) -> Result<LockGuard> {
        self.behave().await?;
        self.inner.acquire_as(owner).await
    }

    async fn acquire_timeout_as(&self, owner: &OwnerId, timeout: Duration) -> Result<Option<LockGuard>> {
        self.timeouts.lock().unwrap().push(timeout);
        self.behave().await?;
        self.inner.acquire_timeout_as(owner, timeout).await
    }

    async fn try_acquire_as(&self, owner: &OwnerId) -> Result<Option<LockGuard>> {
        self.behave().await?;
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

pub(super) fn arc(lock: impl InterProcessLock + 'static) -> Arc<dyn InterProcessLock> {
    Arc::new(lock)
}
