//! Our client, and all our locks.

use std::time::Duration;

use curator_recipes::client::{CreateMode, CuratorClient, Error};
use curator_recipes::{
    InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreMutex,
    InterProcessSemaphoreV2, LockGuard, ReadLock, SemaphoreLease, WriteGuard, WriteLock,
};

use super::cases;
use super::floor::Floor;
use super::locks::{Locks, Played};
use super::session::{BenchLock, Failure, Session};
use crate::protocol::{Act, Lock, Play};

pub(super) struct Ours;

impl Locks for Ours {
    type Session = CuratorClient;

    fn supports(act: Act, lock: Lock) -> Result<(), &'static str> {
        match (act, lock) {
            (Act::Reentry, Lock::Semaphore | Lock::SemaphoreMutex | Lock::Floor) => Err("it is not reentrant"),
            (Act::Crowd | Act::Reconnect, Lock::Semaphore | Lock::SemaphoreMutex | Lock::Multi | Lock::Floor) => {
                Err("its queue is not a list of the path's children")
            }
            (Act::Readers, lock) if lock != Lock::Read => Err("readers have the lock `read`"),
            _ => Ok(()),
        }
    }

    async fn play(sessions: &[CuratorClient], play: &Play) -> Result<Played, Failure> {
        match (play.act, play.lock) {
            (Act::Readers, _) => cases::readers::<ReadLock, WriteLock>(sessions, play).await,
            (_, Lock::Mutex) => cases::play::<InterProcessMutex>(sessions, play).await,
            (_, Lock::Read) => cases::play::<ReadLock>(sessions, play).await,
            (_, Lock::Write) => cases::play::<WriteLock>(sessions, play).await,
            (_, Lock::Semaphore) => cases::play::<InterProcessSemaphoreV2>(sessions, play).await,
            (_, Lock::SemaphoreMutex) => cases::play::<InterProcessSemaphoreMutex>(sessions, play).await,
            (_, Lock::Multi) => cases::play::<InterProcessMultiLock>(sessions, play).await,
            (_, Lock::Floor) => cases::play::<Floor<CuratorClient>>(sessions, play).await,
        }
    }
}

impl Session for CuratorClient {
    // `docs/adr/0025`.
    const MOST_IN_QUEUE: usize = 16;

    async fn connect(connect: &str, timeout: Duration) -> Result<Self, Failure> {
        Ok(Self::builder(connect).session_timeout(timeout).connect().await?)
    }

    async fn children(&self, path: &str) -> Result<usize, Failure> {
        match self.get_children(path).await {
            Ok(children) => Ok(children.len()),
            Err(Error::NoNode { .. }) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    async fn create(&self, directory: &str) -> Result<String, Failure> {
        let create = CuratorClient::create(self).with_mode(CreateMode::EphemeralSequential);
        let node = create.creating_parent_containers().for_path(format!("{directory}/node-"), b"").await?;
        Ok(node.to_string())
    }

    async fn delete(&self, node: &str) -> Result<(), Failure> {
        Ok(CuratorClient::delete(self).for_path(node).await?)
    }

    async fn close(self) -> Result<(), Failure> {
        Ok(CuratorClient::close(&self).await?)
    }
}

/// A lock with the methods that most have.
macro_rules! bench_lock {
    ($lock:ty, $guard:ty, $new:expr) => {
        impl BenchLock for $lock {
            type Session = CuratorClient;
            type Guard = $guard;

            fn new(client: &CuratorClient, path: &str, play: &Play) -> Result<Self, Failure> {
                let new: fn(&CuratorClient, &str, &Play) -> curator_recipes::Result<Self> = $new;
                Ok(new(client, path, play)?)
            }

            async fn lock(&self) -> Result<$guard, Failure> {
                Ok(self.acquire().await?)
            }

            async fn unlock(guard: $guard) -> Result<(), Failure> {
                Ok(guard.release().await?)
            }
        }
    };
}

bench_lock!(InterProcessMutex, LockGuard, |client, path, _| InterProcessMutex::new(client, path));
bench_lock!(ReadLock, LockGuard, |client, path, _| Ok(InterProcessReadWriteLock::new(client, path)?.read().clone()));
bench_lock!(WriteLock, WriteGuard, |client, path, _| Ok(InterProcessReadWriteLock::new(client, path)?.write().clone()));
bench_lock!(InterProcessSemaphoreV2, SemaphoreLease, |client, path, _| InterProcessSemaphoreV2::new(client, path, 1));
bench_lock!(InterProcessSemaphoreMutex, LockGuard, |client, path, _| InterProcessSemaphoreMutex::new(client, path));
bench_lock!(InterProcessMultiLock, LockGuard, |client, path, play| {
    InterProcessMultiLock::new(client, (0..play.members).map(|member| format!("{path}/{member}")))
});
