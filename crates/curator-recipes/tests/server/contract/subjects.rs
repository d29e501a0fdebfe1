//! The locks that the suite is run for, all with one face.

use std::sync::Arc;
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{
    InterProcessLock, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreMutex,
    InterProcessSemaphoreV2, LockGuard, Participant, ParticipantKind, ReadLock, Result,
};

/// Which lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Mutex,
    NonReentrantMutex,
    SemaphoreMutex,
    Write,
    Read,
    /// With one lease, unless said otherwise.
    Semaphore,
    /// A multi-lock of three paths.
    Paths,
    /// A multi-lock of a mutex, a write lock and a semaphore mutex.
    Locks,
}

impl Kind {
    pub(super) fn lock(self, client: &CuratorClient, path: &str) -> Lock {
        let read_write = || InterProcessReadWriteLock::new(client, path).unwrap();
        let exclusive = |lock: Arc<dyn InterProcessLock>| Lock::Exclusive(lock);
        match self {
            Self::Mutex => exclusive(Arc::new(InterProcessMutex::new(client, path).unwrap())),
            Self::NonReentrantMutex => exclusive(Arc::new(InterProcessMutex::non_reentrant(client, path).unwrap())),
            Self::SemaphoreMutex => exclusive(Arc::new(InterProcessSemaphoreMutex::new(client, path).unwrap())),
            Self::Write => exclusive(Arc::new(read_write().write().clone())),
            Self::Read => Lock::Read(read_write().read().clone()),
            Self::Semaphore => Lock::semaphore(client, path, 1),
            Self::Paths => Self::paths(client, path, 0),
            Self::Locks => {
                let write = InterProcessReadWriteLock::new(client, member(path, 1)).unwrap().write().clone();
                let locks: [Arc<dyn InterProcessLock>; 3] = [
                    Arc::new(InterProcessMutex::new(client, member(path, 0)).unwrap()),
                    Arc::new(write),
                    Arc::new(InterProcessSemaphoreMutex::new(client, member(path, 2)).unwrap()),
                ];
                exclusive(Arc::new(InterProcessMultiLock::of(locks).unwrap()))
            }
        }
    }

    fn paths(client: &CuratorClient, path: &str, turn: usize) -> Lock {
        let paths = (0..3).map(|index| member(path, (index + turn) % 3));
        Lock::Exclusive(Arc::new(InterProcessMultiLock::new(client, paths).unwrap()))
    }

    /// One of many contenders, and whether it shares the lock. Each has its own idea of the lock, as far as it may have.
    pub(super) fn contender(self, who: usize, client: &CuratorClient, path: &str) -> (Lock, bool) {
        match self {
            // A writer before each two readers.
            Self::Read if who.is_multiple_of(3) => (self.blocker(client, path), false),
            // In any order.
            Self::Paths => (Self::paths(client, path, who), false),
            _ => (self.lock(client, path), self.is_shared()),
        }
    }

    /// The lock that keeps out everybody who wants this one.
    pub(super) fn blocker(self, client: &CuratorClient, path: &str) -> Lock {
        if self == Self::Read { Self::Write.lock(client, path) } else { self.lock(client, path) }
    }

    pub(super) fn is_shared(self) -> bool {
        self == Self::Read
    }

    pub(super) fn is_reentrant(self) -> bool {
        match self {
            Self::Mutex | Self::Write | Self::Read | Self::Paths => true,
            Self::NonReentrantMutex | Self::SemaphoreMutex | Self::Semaphore | Self::Locks => false,
        }
    }

    /// All directories that may have nodes of the lock.
    pub(super) fn dirs(self, path: &str) -> Vec<String> {
        match self {
            Self::Mutex | Self::NonReentrantMutex | Self::Write | Self::Read => vec![path.to_owned()],
            Self::SemaphoreMutex | Self::Semaphore => semaphore_dirs(path).into(),
            Self::Paths => (0..3).map(|index| member(path, index)).collect(),
            Self::Locks => {
                [member(path, 0), member(path, 1)].into_iter().chain(semaphore_dirs(&member(path, 2))).collect()
            }
        }
    }

    /// The directories in which a contender has one node in all, whether it holds or waits.
    pub(super) fn line(self, path: &str) -> Vec<String> {
        match self {
            Self::Paths | Self::Locks => vec![member(path, 0)],
            kind => kind.dirs(path),
        }
    }

    /// How many watches a waiter has that only waits for one holder.
    pub(super) fn watches_of_a_waiter(self) -> u64 {
        match self {
            // The holder's node and its own; of the multi-lock that has come to its first lock only.
            Self::Mutex | Self::NonReentrantMutex | Self::Read | Self::Locks => 2,
            // The holder's node, and nothing follows from its end but another look.
            Self::Write => 1,
            // The list of leases.
            Self::SemaphoreMutex | Self::Semaphore => 1,
            Self::Paths => 6,
        }
    }

    /// What the nodes of a holder are shown as.
    pub(super) fn kinds(self) -> &'static [ParticipantKind] {
        match self {
            Self::Mutex | Self::NonReentrantMutex | Self::SemaphoreMutex => &[ParticipantKind::Exclusive],
            Self::Write => &[ParticipantKind::Write],
            Self::Read => &[ParticipantKind::Read],
            Self::Semaphore => &[ParticipantKind::Lease],
            Self::Paths => &[ParticipantKind::Exclusive; 3],
            Self::Locks => &[ParticipantKind::Exclusive, ParticipantKind::Write, ParticipantKind::Exclusive],
        }
    }
}

/// The path of one lock of a multi-lock.
fn member(path: &str, index: usize) -> String {
    format!("{path}/{index}")
}

fn semaphore_dirs(path: &str) -> [String; 2] {
    [format!("{path}/locks"), format!("{path}/leases")]
}

/// A lock of any kind. Clones are the same lock.
#[derive(Debug, Clone)]
pub(super) enum Lock {
    Exclusive(Arc<dyn InterProcessLock>),
    Read(ReadLock),
    Semaphore(InterProcessSemaphoreV2),
}

impl Lock {
    pub(super) fn semaphore(client: &CuratorClient, path: &str, leases: usize) -> Self {
        Self::Semaphore(InterProcessSemaphoreV2::new(client, path, leases).unwrap())
    }

    pub(super) async fn acquire(&self) -> Result<LockGuard> {
        match self {
            Self::Exclusive(lock) => lock.acquire().await,
            Self::Read(lock) => lock.acquire().await,
            Self::Semaphore(lock) => Ok(lock.acquire().await?.into()),
        }
    }

    pub(super) async fn acquire_timeout(&self, timeout: Duration) -> Result<Option<LockGuard>> {
        match self {
            Self::Exclusive(lock) => lock.acquire_timeout(timeout).await,
            Self::Read(lock) => lock.acquire_timeout(timeout).await,
            Self::Semaphore(lock) => Ok(lock.acquire_timeout(timeout).await?.map(Into::into)),
        }
    }

    pub(super) async fn try_acquire(&self) -> Result<Option<LockGuard>> {
        match self {
            Self::Exclusive(lock) => lock.try_acquire().await,
            Self::Read(lock) => lock.try_acquire().await,
            Self::Semaphore(lock) => Ok(lock.try_acquire().await?.map(Into::into)),
        }
    }

    pub(super) async fn participants(&self) -> Vec<Participant> {
        self.try_participants().await.unwrap()
    }

    pub(super) async fn try_participants(&self) -> Result<Vec<Participant>> {
        match self {
            Self::Exclusive(lock) => lock.participants().await,
            Self::Read(lock) => lock.participants().await,
            Self::Semaphore(lock) => lock.participants().await,
        }
    }
}
