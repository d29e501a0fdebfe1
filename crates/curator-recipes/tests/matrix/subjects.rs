//! The locks of the matrix, all with one face.

use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{
    InterProcessLock, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreMutex,
    InterProcessSemaphoreV2, LockGuard, OwnerId, ReadLock, Result, SemaphoreLease, SharedCount, WriteGuard,
};

named! {
    /// Which lock. Locks that send the same are here once.
    enum Kind {
        Mutex => "mutex",
        /// It sends what a semaphore with one lease sends.
        SemaphoreMutex => "semaphore mutex",
        /// Two of three leases.
        Leases => "semaphore, two of three leases",
        /// One lease, and a node says that there is one.
        SharedLimit => "semaphore with a shared count",
        Read => "read lock",
        Write => "write lock",
        /// A multi-lock of three paths.
        Paths => "multi-lock of paths",
        /// A multi-lock of a mutex, a write lock and a semaphore mutex.
        Locks => "multi-lock of locks",
    }
}

impl Kind {
    pub(crate) fn lock(self, client: &CuratorClient, path: &str) -> Lock {
        let exclusive = |lock: Arc<dyn InterProcessLock>| Lock::Exclusive(lock);
        let read_write = |path: &str| InterProcessReadWriteLock::new(client, path).unwrap();
        match self {
            Self::Mutex => exclusive(Arc::new(InterProcessMutex::new(client, path).unwrap())),
            Self::SemaphoreMutex => exclusive(Arc::new(InterProcessSemaphoreMutex::new(client, path).unwrap())),
            Self::Leases => Lock::Semaphore(InterProcessSemaphoreV2::new(client, path, 3).unwrap(), 2),
            Self::SharedLimit => {
                let limit = SharedCount::new(client, member(path, "limit"), 1).unwrap();
                Lock::Semaphore(InterProcessSemaphoreV2::with_shared_count(client, path, limit).unwrap(), 1)
            }
            Self::Read => Lock::Read(read_write(path).read().clone()),
            Self::Write => Lock::Write(read_write(path)),
            Self::Paths => {
                let paths = MEMBERS.map(|name| member(path, name));
                exclusive(Arc::new(InterProcessMultiLock::new(client, paths).unwrap()))
            }
            Self::Locks => {
                let [first, second, third] = MEMBERS.map(|name| member(path, name));
                let locks: [Arc<dyn InterProcessLock>; 3] = [
                    Arc::new(InterProcessMutex::new(client, first).unwrap()),
                    Arc::new(read_write(&second).write().clone()),
                    Arc::new(InterProcessSemaphoreMutex::new(client, third).unwrap()),
                ];
                exclusive(Arc::new(InterProcessMultiLock::of(locks).unwrap()))
            }
        }
    }

    /// The lock of those before it, counted from the first of them. Of two that follow one another, one is exclusive.
    pub(crate) fn before(self, nth: usize) -> Self {
        let reads = match self {
            Self::Read => !nth.is_multiple_of(2),
            Self::Write => nth.is_multiple_of(2),
            _ => return self,
        };
        if reads { Self::Read } else { Self::Write }
    }

    /// The lock of the one behind it, which keeps out everybody else.
    pub(crate) fn behind(self) -> Self {
        if self == Self::Read { Self::Write } else { self }
    }

    /// Whether the owner that holds it gets it again.
    pub(crate) fn is_reentrant(self) -> bool {
        matches!(self, Self::Mutex | Self::Read | Self::Write | Self::Paths)
    }

    /// Whether its courses are also played with a cut. Of locks that recover in the same way, one stands for all.
    pub(crate) fn stands_for_recovery(self) -> bool {
        self != Self::SemaphoreMutex
    }

    /// All directories that may have nodes of the lock.
    pub(crate) fn dirs(self, path: &str) -> Vec<String> {
        let semaphore = |path: &str| [member(path, "locks"), member(path, "leases")];
        match self {
            Self::Mutex | Self::Write | Self::Read => vec![path.to_owned()],
            Self::SemaphoreMutex | Self::Leases | Self::SharedLimit => semaphore(path).into(),
            Self::Paths => MEMBERS.map(|name| member(path, name)).into(),
            Self::Locks => {
                let [first, second, third] = MEMBERS.map(|name| member(path, name));
                [first, second].into_iter().chain(semaphore(&third)).collect()
            }
        }
    }
}

/// The names of the locks of a multi-lock.
const MEMBERS: [&str; 3] = ["a", "b", "c"];

fn member(path: &str, name: &str) -> String {
    format!("{path}/{name}")
}

/// A lock of any kind.
#[derive(Debug, Clone)]
pub(crate) enum Lock {
    Exclusive(Arc<dyn InterProcessLock>),
    Read(ReadLock),
    Write(InterProcessReadWriteLock),
    /// And how many leases to take.
    Semaphore(InterProcessSemaphoreV2, usize),
}

impl Lock {
    /// Whether others may hold it at the same time.
    pub(crate) fn shares(&self) -> bool {
        matches!(self, Self::Read(_))
    }

    /// By an owner of its own.
    pub(crate) async fn acquire(&self) -> Result<Held> {
        let owner = &OwnerId::new();
        Ok(match self {
            Self::Exclusive(lock) => Held::Guard(lock.acquire_as(owner).await?),
            Self::Read(lock) => Held::Guard(lock.acquire_as(owner).await?),
            Self::Write(lock) => Held::Write(lock.clone(), lock.write().acquire_as(owner).await?),
            Self::Semaphore(lock, leases) => Held::Leases(lock.acquire_many(*leases).await?),
        })
    }

    /// No longer than this.
    pub(crate) async fn acquire_within(&self, limit: Duration) -> Result<Option<Held>> {
        let owner = &OwnerId::new();
        Ok(match self {
            Self::Exclusive(lock) => lock.acquire_timeout_as(owner, limit).await?.map(Held::Guard),
            Self::Read(lock) => lock.acquire_timeout_as(owner, limit).await?.map(Held::Guard),
            Self::Write(lock) => {
                lock.write().acquire_timeout_as(owner, limit).await?.map(|guard| Held::Write(lock.clone(), guard))
            }
            Self::Semaphore(lock, leases) => lock.acquire_many_timeout(*leases, limit).await?.map(Held::Leases),
        })
    }

    /// Once more, by the owner that holds it.
    pub(crate) async fn enter_again(&self, held: &Held) -> Result<Held> {
        let owner = held.guard().owner();
        Ok(match self {
            Self::Exclusive(lock) => Held::Guard(lock.acquire_as(owner).await?),
            Self::Read(lock) => Held::Guard(lock.acquire_as(owner).await?),
            Self::Write(lock) => Held::Write(lock.clone(), lock.write().acquire_as(owner).await?),
            Self::Semaphore(..) => panic!("leases have no owner"),
        })
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<Held>> {
        let owner = &OwnerId::new();
        Ok(match self {
            Self::Exclusive(lock) => lock.try_acquire_as(owner).await?.map(Held::Guard),
            Self::Read(lock) => lock.try_acquire_as(owner).await?.map(Held::Guard),
            Self::Write(lock) => {
                lock.write().try_acquire_as(owner).await?.map(|guard| Held::Write(lock.clone(), guard))
            }
            Self::Semaphore(lock, leases) => lock.try_acquire_many(*leases).await?.map(Held::Leases),
        })
    }
}

/// What the holder of a lock has.
#[derive(Debug)]
pub(crate) enum Held {
    Guard(LockGuard),
    Write(InterProcessReadWriteLock, WriteGuard),
    /// At least one.
    Leases(Vec<SemaphoreLease>),
}

impl Held {
    /// The guard; of several leases the first.
    pub(crate) fn guard(&self) -> &LockGuard {
        match self {
            Self::Guard(guard) => guard,
            Self::Write(_, guard) => guard,
            Self::Leases(leases) => &leases[0],
        }
    }

    pub(crate) async fn release(self) -> Result<()> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::Write(_, guard) => guard.release().await,
            Self::Leases(leases) => SemaphoreLease::release_all(leases).await,
        }
    }

    /// The read lock beside a write lock, for the same owner.
    pub(crate) async fn read_too(&self) -> Result<Self> {
        let Self::Write(lock, guard) = self else { panic!("{self:?} is no write lock") };
        Ok(Self::Guard(lock.read().acquire_as(guard.owner()).await?))
    }

    /// A read lock instead of a write lock.
    pub(crate) async fn downgrade(self) -> Result<Self> {
        let Self::Write(_, guard) = self else { panic!("{self:?} is no write lock") };
        Ok(Self::Guard(guard.downgrade().await?))
    }
}
