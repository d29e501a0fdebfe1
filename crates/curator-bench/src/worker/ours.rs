//! Our client, and all our locks.

use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::{Acl, CreateMode, CuratorClient, Error, NodeSpec, Session as RawSession, ZPath};
use curator_recipes::{
    DistributedAtomicLong, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphoreMutex, InterProcessSemaphoreV2, LockGuard, ReadLock, SemaphoreLease, ValueError, WriteGuard,
    WriteLock,
};

use super::floor::{self, Floor};
use super::locks::{Locks, Played};
use super::session::{BenchLock, Failure, Session};
use super::{cache, cases, discovery};
use crate::protocol::{Act, Lock, Play};

pub(super) struct Ours;

impl Locks for Ours {
    type Session = CuratorClient;

    fn supports(act: Act, lock: Lock) -> Result<(), &'static str> {
        match (act, lock) {
            (Act::Increment, Lock::Counter | Lock::Receipt) | (Act::Register | Act::Find, Lock::Discovery) => Ok(()),
            (Act::Increment | Act::Register | Act::Find, _) | (_, Lock::Counter | Lock::Receipt | Lock::Discovery) => {
                Err("it is no lock")
            }
            (Act::Reentry, Lock::Semaphore | Lock::SemaphoreMutex | Lock::Floor) => Err("it is not reentrant"),
            (Act::Crowd | Act::Reconnect, Lock::Semaphore | Lock::SemaphoreMutex | Lock::Multi | Lock::Floor) => {
                Err("its queue is not a list of the path's children")
            }
            (Act::Readers, lock) if lock != Lock::Read => Err("readers have the lock `read`"),
            (Act::CacheLoad | Act::CacheStorm | Act::CacheReconnect, Lock::Cache) => Ok(()),
            (Act::CacheLoad | Act::CacheStorm | Act::CacheReconnect, _) | (_, Lock::Cache) => Err("a cache is no lock"),
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
            (_, Lock::Cache) => cache::held(sessions, play),
            (_, Lock::Counter | Lock::Receipt) => cases::play::<Counter>(sessions, play).await,
            (_, Lock::Discovery) => discovery::held(sessions, play).await,
            (Act::Handover, Lock::Floor) => floor::handover(sessions, play).await.map(Played::Done),
            (_, Lock::Floor) => cases::play::<Floor<CuratorClient>>(sessions, play).await,
        }
    }
}

impl Session for CuratorClient {
    // `IN_QUEUE` in curator-recipes, `engine/line.rs`, which is private.
    const MOST_IN_QUEUE: usize = 16;

    type Raw = (RawSession, Arc<[Acl]>);

    async fn connect(connect: &str, timeout: Duration) -> Result<Self, Failure> {
        Ok(Self::builder(connect).session_timeout(timeout).connect().await?)
    }

    async fn children(&self, path: &str) -> Result<usize, Failure> {
        // The stat contains the number of children: the list is long while many tasks wait.
        let stat = CuratorClient::session(self).await?.exists(&self.resolve(path)?).await?;
        Ok(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0)))
    }

    async fn make_directory(&self, directory: &str) -> Result<(), Failure> {
        let create = CuratorClient::create(self).with_mode(CreateMode::Persistent).creating_parent_containers();
        match create.for_path(directory, b"").await {
            Ok(_) | Err(Error::NodeExists { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn raw(&self) -> Result<Self::Raw, Failure> {
        Ok((CuratorClient::session(self).await?, Arc::clone(self.default_acl())))
    }

    async fn create((session, acl): &Self::Raw, prefix: &str) -> Result<String, Failure> {
        let (path, data, acl) = (ZPath::on_server(prefix)?, [].into(), Arc::clone(acl));
        let created = session.create(&NodeSpec { path, data, mode: CreateMode::EphemeralSequential, acl }).await?;
        Ok(created.path.to_string())
    }

    async fn delete((session, _): &Self::Raw, node: &str) -> Result<(), Failure> {
        Ok(session.delete(&ZPath::on_server(node)?, None).await?)
    }

    async fn close(self) -> Result<(), Failure> {
        Ok(CuratorClient::close(&self).await?)
    }
}

/// A counter: to lock it is to increment it.
struct Counter(DistributedAtomicLong);

impl BenchLock for Counter {
    type Session = CuratorClient;
    type Guard = ();

    fn new(client: &CuratorClient, path: &str, play: &Play) -> Result<Self, Failure> {
        let counter = DistributedAtomicLong::new(client, path)?;
        Ok(Self(match play.lock {
            // One receipt for each process.
            Lock::Receipt => counter.exactly_once(format!("{path}-receipts/{}", std::process::id()))?,
            _ => counter,
        }))
    }

    async fn lock(&self) -> Result<(), Failure> {
        loop {
            match self.0.increment().await {
                Err(ValueError::Contended { .. }) => {}
                incremented => return Ok(incremented.map(drop)?),
            }
        }
    }

    async fn unlock((): ()) -> Result<(), Failure> {
        Ok(())
    }
}

/// Implements [`BenchLock`] for a lock with the methods that most locks have.
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
