//! All kinds of locks behind one interface, for suites that run for each kind.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{
    InterProcessLock, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphoreMutex, InterProcessSemaphoreV2, LockGuard, Participant, ReadLock, Result,
    SemaphoreLease, SharedCount, WriteGuard,
};

use super::{mutex, non_reentrant, read_write};

named! {
    /// The kind of lock.
    enum Kind {
        Mutex => "mutex",
        NonReentrantMutex => "non-reentrant mutex",
        SemaphoreMutex => "semaphore mutex",
        /// With one lease.
        Semaphore => "semaphore",
        /// Two of three leases.
        Leases => "semaphore, two of three leases",
        /// One lease, and the limit is stored in a node.
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
        let semaphore = |leases| InterProcessSemaphoreV2::new(client, path, leases).unwrap();
        match self {
            Self::Mutex => exclusive(Arc::new(mutex(client, path))),
            Self::NonReentrantMutex => exclusive(Arc::new(non_reentrant(client, path))),
            Self::SemaphoreMutex => exclusive(Arc::new(
                InterProcessSemaphoreMutex::new(client, path).unwrap(),
            )),
            Self::Semaphore => Lock::Semaphore(semaphore(1), 1),
            Self::Leases => Lock::Semaphore(semaphore(3), 2),
            Self::SharedLimit => {
                let limit = SharedCount::new(client, format!("{path}/limit"), 1).unwrap();
                Lock::Semaphore(
                    InterProcessSemaphoreV2::with_shared_count(client, path, limit).unwrap(),
                    1,
                )
            }
            Self::Read => Lock::Read(read_write(client, path).read().clone()),
            Self::Write => Lock::Write(read_write(client, path)),
            Self::Paths => Self::paths(client, path, 0),
            Self::Locks => {
                let [first, second, third] = members(path);
                let locks: [Arc<dyn InterProcessLock>; 3] = [
                    Arc::new(mutex(client, &first)),
                    Arc::new(read_write(client, &second).write().clone()),
                    Arc::new(InterProcessSemaphoreMutex::new(client, third).unwrap()),
                ];
                exclusive(Arc::new(InterProcessMultiLock::of(locks).unwrap()))
            }
        }
    }

    /// The multi-lock of three paths, in an order that depends on `turn`.
    pub(crate) fn paths(client: &CuratorClient, path: &str, turn: usize) -> Lock {
        let mut paths = members(path);
        paths.rotate_left(turn % 3);
        Lock::Exclusive(Arc::new(InterProcessMultiLock::new(client, paths).unwrap()))
    }

    /// A kind of lock that excludes every contender for a lock of this kind on the same path.
    pub(crate) fn blocker(self) -> Self {
        if self == Self::Read {
            Self::Write
        } else {
            self
        }
    }

    /// Whether the owner of such a lock can re-enter it.
    pub(crate) fn is_reentrant(self) -> bool {
        matches!(self, Self::Mutex | Self::Write | Self::Read | Self::Paths)
    }

    /// All directories that may contain nodes of the lock.
    pub(crate) fn dirs(self, path: &str) -> Vec<String> {
        let semaphore = |path: &str| ["locks", "leases"].map(|name| format!("{path}/{name}"));
        match self {
            Self::Mutex | Self::NonReentrantMutex | Self::Write | Self::Read => {
                vec![path.to_owned()]
            }
            Self::SemaphoreMutex | Self::Semaphore | Self::Leases | Self::SharedLimit => {
                semaphore(path).into()
            }
            Self::Paths => members(path).into(),
            Self::Locks => {
                let [first, second, third] = members(path);
                [first, second]
                    .into_iter()
                    .chain(semaphore(&third))
                    .collect()
            }
        }
    }
}

/// The paths of the locks of a multi-lock.
fn members(path: &str) -> [String; 3] {
    ["a", "b", "c"].map(|name| format!("{path}/{name}"))
}

/// A lock of any kind. Clones are the same lock.
#[derive(Debug, Clone)]
pub(crate) enum Lock {
    Exclusive(Arc<dyn InterProcessLock>),
    Read(ReadLock),
    Write(InterProcessReadWriteLock),
    /// With the number of leases to take.
    Semaphore(InterProcessSemaphoreV2, usize),
}

impl Lock {
    /// Whether several holders can share the lock.
    pub(crate) fn shares(&self) -> bool {
        matches!(self, Self::Read(_))
    }

    pub(crate) async fn acquire(&self) -> Result<Held> {
        Ok(match self {
            Self::Exclusive(lock) => Held::Guard(lock.acquire().await?),
            Self::Read(lock) => Held::Guard(lock.acquire().await?),
            Self::Write(lock) => Held::Write(lock.clone(), lock.write().acquire().await?),
            Self::Semaphore(lock, 1) => Held::Guard(lock.acquire().await?.into()),
            Self::Semaphore(lock, leases) => Held::Leases(lock.acquire_many(*leases).await?),
        })
    }

    pub(crate) async fn acquire_timeout(&self, limit: Duration) -> Result<Option<Held>> {
        Ok(match self {
            Self::Exclusive(lock) => lock.acquire_timeout(limit).await?.map(Held::Guard),
            Self::Read(lock) => lock.acquire_timeout(limit).await?.map(Held::Guard),
            Self::Write(lock) => lock
                .write()
                .acquire_timeout(limit)
                .await?
                .map(|guard| Held::Write(lock.clone(), guard)),
            Self::Semaphore(lock, 1) => lock
                .acquire_timeout(limit)
                .await?
                .map(|lease| Held::Guard(lease.into())),
            Self::Semaphore(lock, leases) => lock
                .acquire_many_timeout(*leases, limit)
                .await?
                .map(Held::Leases),
        })
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<Held>> {
        Ok(match self {
            Self::Exclusive(lock) => lock.try_acquire().await?.map(Held::Guard),
            Self::Read(lock) => lock.try_acquire().await?.map(Held::Guard),
            Self::Write(lock) => lock
                .write()
                .try_acquire()
                .await?
                .map(|guard| Held::Write(lock.clone(), guard)),
            Self::Semaphore(lock, 1) => lock
                .try_acquire()
                .await?
                .map(|lease| Held::Guard(lease.into())),
            Self::Semaphore(lock, leases) => {
                lock.try_acquire_many(*leases).await?.map(Held::Leases)
            }
        })
    }

    /// Re-enters the lock as the owner of `held`.
    pub(crate) async fn enter_again(&self, held: &Held) -> Result<Held> {
        let owner = held.owner();
        Ok(match self {
            Self::Exclusive(lock) => Held::Guard(lock.acquire_as(owner).await?),
            Self::Read(lock) => Held::Guard(lock.acquire_as(owner).await?),
            Self::Write(lock) => Held::Write(lock.clone(), lock.write().acquire_as(owner).await?),
            Self::Semaphore(..) => panic!("leases have no owner"),
        })
    }

    pub(crate) async fn participants(&self) -> Result<Vec<Participant>> {
        match self {
            Self::Exclusive(lock) => lock.participants().await,
            Self::Read(lock) => lock.participants().await,
            Self::Write(lock) => lock.write().participants().await,
            Self::Semaphore(lock, _) => lock.participants().await,
        }
    }
}

/// What an acquire of a lock returns.
#[derive(Debug)]
pub(crate) enum Held {
    Guard(LockGuard),
    Write(InterProcessReadWriteLock, WriteGuard),
    /// At least one.
    Leases(Vec<SemaphoreLease>),
}

impl Held {
    pub(crate) async fn release(self) -> Result<()> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::Write(_, guard) => guard.release().await,
            Self::Leases(leases) => SemaphoreLease::release_all(leases).await,
        }
    }

    /// Acquires the read lock in addition to the write lock, for the same owner.
    pub(crate) async fn read_too(&self) -> Result<Self> {
        let Self::Write(lock, guard) = self else {
            panic!("{self:?} is not a write lock")
        };
        Ok(Self::Guard(lock.read().acquire_as(guard.owner()).await?))
    }

    /// Downgrades a write lock to a read lock.
    pub(crate) async fn downgrade(self) -> Result<Self> {
        let Self::Write(_, guard) = self else {
            panic!("{self:?} is not a write lock")
        };
        Ok(Self::Guard(guard.downgrade().await?))
    }
}

/// Dereferences to the guard, or to the first of several leases.
impl Deref for Held {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        match self {
            Self::Guard(guard) => guard,
            Self::Write(_, guard) => guard,
            Self::Leases(leases) => &leases[0],
        }
    }
}
