//! Our client, and all our locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use curator_recipes::client::{
    Acl, CreateMode, CuratorClient, Error, NodeSpec, Session as RawSession, Transport, ZPath,
};
use curator_recipes::{
    DistributedAtomicLong, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphoreMutex, InterProcessSemaphoreV2, LockGuard, ReadLock, SemaphoreLease,
    ValueError, WriteGuard, WriteLock,
};

use super::floor::{self, Floor};
use super::{BenchLock, Failure, Locks, Session, Step, cache, cases, shards};
use crate::protocol::{Lock, Operation, Workload};

pub(super) struct Ours;

static IS_NATIVE: AtomicBool = AtomicBool::new(false);

/// Makes the sessions of this process use the client's own transport.
pub(super) fn use_native_transport() {
    IS_NATIVE.store(true, Ordering::Relaxed);
}

impl Locks for Ours {
    type Session = CuratorClient;

    fn supports(operation: Operation, lock: Lock) -> Result<(), &'static str> {
        match (operation, lock) {
            (Operation::Increment, Lock::Counter | Lock::Receipt)
            | (Operation::Register | Operation::Find, Lock::Discovery)
            | (Operation::Shards, Lock::Shards) => Ok(()),
            (
                Operation::Increment | Operation::Register | Operation::Find | Operation::Shards,
                _,
            )
            | (_, Lock::Counter | Lock::Receipt | Lock::Discovery | Lock::Shards) => {
                Err("the operation is not for this lock")
            }
            (Operation::Reentry, Lock::Semaphore | Lock::SemaphoreMutex | Lock::Floor) => {
                Err("the lock is not reentrant")
            }
            (
                Operation::Crowd | Operation::Reconnect,
                Lock::Semaphore | Lock::SemaphoreMutex | Lock::Multi | Lock::Floor,
            ) => Err("the lock's queue is not the list of the path's children"),
            (Operation::Readers, lock) if lock != Lock::Read => {
                Err("the operation readers needs the lock `read`")
            }
            (
                Operation::CacheLoad | Operation::CacheStorm | Operation::CacheReconnect,
                Lock::Cache,
            ) => Ok(()),
            (Operation::CacheLoad | Operation::CacheStorm | Operation::CacheReconnect, _)
            | (_, Lock::Cache) => {
                Err("a cache has only the operations cache-load, cache-storm and cache-reconnect")
            }
            _ => Ok(()),
        }
    }

    async fn run(sessions: &[CuratorClient], workload: &Workload) -> Result<Step, Failure> {
        match (workload.operation, workload.lock) {
            (Operation::Readers, _) => {
                cases::readers::<ReadLock, WriteLock>(sessions, workload).await
            }
            (_, Lock::Mutex) => cases::run::<InterProcessMutex>(sessions, workload).await,
            (_, Lock::Read) => cases::run::<ReadLock>(sessions, workload).await,
            (_, Lock::Write) => cases::run::<WriteLock>(sessions, workload).await,
            (_, Lock::Semaphore) => cases::run::<InterProcessSemaphoreV2>(sessions, workload).await,
            (_, Lock::SemaphoreMutex) => {
                cases::run::<InterProcessSemaphoreMutex>(sessions, workload).await
            }
            (_, Lock::Multi) => cases::run::<InterProcessMultiLock>(sessions, workload).await,
            (_, Lock::Cache) => cache::prepare_cache(sessions, workload),
            (_, Lock::Counter | Lock::Receipt) => cases::run::<Counter>(sessions, workload).await,
            (_, Lock::Discovery) => cache::prepare_discovery(sessions, workload).await,
            (_, Lock::Shards) => shards::prepare(sessions, workload).await,
            (Operation::Handover, Lock::Floor) => {
                floor::handover(sessions, workload).await.map(Step::done)
            }
            (_, Lock::Floor) => cases::run::<Floor<CuratorClient>>(sessions, workload).await,
        }
    }
}

impl Session for CuratorClient {
    // The same as the private `MAX_IN_QUEUE` in `engine/line.rs` of curator-recipes.
    const MOST_IN_QUEUE: usize = 16;

    type Raw = (RawSession, Arc<[Acl]>);

    async fn connect(connect: &str, timeout: Duration) -> Result<Self, Failure> {
        let transport = if IS_NATIVE.load(Ordering::Relaxed) {
            Transport::Native
        } else {
            Transport::default()
        };
        Ok(Self::builder(connect)
            .transport(transport)
            .session_timeout(timeout)
            .connect()
            .await?)
    }

    async fn children(&self, path: &str) -> Result<usize, Failure> {
        // Reads only the stat: the list of children is long while many tasks wait.
        let stat = CuratorClient::session(self)
            .await?
            .exists(&self.resolve(path)?)
            .await?;
        Ok(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0)))
    }

    async fn make_directory(&self, directory: &str) -> Result<(), Failure> {
        match CuratorClient::create(self)
            .with_mode(CreateMode::Persistent)
            .creating_parent_containers()
            .for_path(directory, b"")
            .await
        {
            Ok(_) | Err(Error::NodeExists { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn raw(&self) -> Result<Self::Raw, Failure> {
        Ok((
            CuratorClient::session(self).await?,
            Arc::clone(self.default_acl()),
        ))
    }

    async fn create((session, acl): &Self::Raw, prefix: &str) -> Result<String, Failure> {
        let created = session
            .create(&NodeSpec {
                path: ZPath::on_server(prefix)?,
                data: [].into(),
                mode: CreateMode::EphemeralSequential,
                acl: Arc::clone(acl),
            })
            .await?;
        Ok(created.path.to_string())
    }

    async fn delete((session, _): &Self::Raw, node: &str) -> Result<(), Failure> {
        Ok(session.delete(&ZPath::on_server(node)?, None).await?)
    }

    async fn close(self) -> Result<(), Failure> {
        Ok(CuratorClient::close(&self).await?)
    }
}

/// A counter, used as a lock: `lock` increments it.
struct Counter(DistributedAtomicLong);

impl BenchLock for Counter {
    type Session = CuratorClient;
    type Guard = ();

    fn new(client: &CuratorClient, path: &str, workload: &Workload) -> Result<Self, Failure> {
        let counter = DistributedAtomicLong::new(client, path)?;
        Ok(Self(match workload.lock {
            // One receipt for each process.
            Lock::Receipt => {
                counter.exactly_once(format!("{path}-receipts/{}", std::process::id()))?
            }
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

/// Implements [`BenchLock`] for a lock with the methods `acquire` and `release`.
macro_rules! bench_lock {
    ($lock:ty, $guard:ty, $new:expr) => {
        impl BenchLock for $lock {
            type Session = CuratorClient;
            type Guard = $guard;

            fn new(
                client: &CuratorClient,
                path: &str,
                workload: &Workload,
            ) -> Result<Self, Failure> {
                let new: fn(&CuratorClient, &str, &Workload) -> curator_recipes::Result<Self> =
                    $new;
                Ok(new(client, path, workload)?)
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

bench_lock!(InterProcessMutex, LockGuard, |client, path, _| {
    InterProcessMutex::new(client, path)
});
bench_lock!(ReadLock, LockGuard, |client, path, _| Ok(
    InterProcessReadWriteLock::new(client, path)?.read().clone()
));
bench_lock!(WriteLock, WriteGuard, |client, path, _| Ok(
    InterProcessReadWriteLock::new(client, path)?
        .write()
        .clone()
));
bench_lock!(
    InterProcessSemaphoreV2,
    SemaphoreLease,
    |client, path, _| InterProcessSemaphoreV2::new(client, path, 1)
);
bench_lock!(InterProcessSemaphoreMutex, LockGuard, |client, path, _| {
    InterProcessSemaphoreMutex::new(client, path)
});
bench_lock!(
    InterProcessMultiLock,
    LockGuard,
    |client, path, workload| {
        InterProcessMultiLock::new(
            client,
            (0..workload.members).map(|member| format!("{path}/{member}")),
        )
    }
);
