//! What each task does, again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use curator_recipes::client::CuratorClient;
use curator_recipes::{
    InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphoreMutex,
    InterProcessSemaphoreV2, LockGuard, OwnerId, Result, SemaphoreLease, WriteGuard,
};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::support::{Numbers, drop_after, until};

/// What has been done so far.
#[derive(Debug, Default)]
pub(crate) struct Done {
    acquired: AtomicU64,
    timed_out: AtomicU64,
    cancelled: AtomicU64,
    failed: AtomicU64,
}

impl Done {
    pub(crate) fn counts(&self) -> [(&'static str, u64); 4] {
        let Self { acquired, timed_out, cancelled, failed } = self;
        [("acquired", acquired), ("timed out", timed_out), ("cancelled", cancelled), ("failed", failed)]
            .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

/// A lock of one of the kinds.
#[derive(Debug, Clone)]
enum Lock {
    Mutex(InterProcessMutex),
    ReadWrite(InterProcessReadWriteLock),
    Semaphore(InterProcessSemaphoreV2),
    SemaphoreMutex(InterProcessSemaphoreMutex),
    Multi(InterProcessMultiLock),
}

/// What one holds.
enum Held {
    Guard(LockGuard),
    Write(WriteGuard),
    Leases(Vec<SemaphoreLease>),
}

/// How many locks there are, of five kinds.
const LOCKS: usize = 20;
/// The paths that each multi-lock takes two of.
const MULTI_PATHS: usize = 4;

impl Lock {
    fn new(client: &CuratorClient, number: usize, numbers: &mut Numbers) -> Self {
        let number = number % LOCKS;
        let path = format!("/soak/{number}");
        match number % 5 {
            0 => Self::Mutex(InterProcessMutex::new(client, path).unwrap()),
            1 => Self::ReadWrite(InterProcessReadWriteLock::new(client, path).unwrap()),
            2 => Self::Semaphore(InterProcessSemaphoreV2::new(client, path, 3).unwrap()),
            3 => Self::SemaphoreMutex(InterProcessSemaphoreMutex::new(client, path).unwrap()),
            _ => {
                let first = numbers.below(MULTI_PATHS);
                let second = (first + 1 + numbers.below(MULTI_PATHS - 1)) % MULTI_PATHS;
                let paths = [first, second].map(|part| format!("/soak/{number}-{part}"));
                Self::Multi(InterProcessMultiLock::new(client, paths).unwrap())
            }
        }
    }

    async fn acquire(self, owner: OwnerId, chance: usize, limit: Duration) -> Result<Option<Held>> {
        match self {
            Self::Mutex(lock) => Ok(lock.acquire_timeout_as(&owner, limit).await?.map(Held::Guard)),
            Self::ReadWrite(lock) if chance == 0 => {
                Ok(lock.write().acquire_timeout_as(&owner, limit).await?.map(Held::Write))
            }
            Self::ReadWrite(lock) => Ok(lock.read().acquire_timeout_as(&owner, limit).await?.map(Held::Guard)),
            Self::Semaphore(lock) => Ok(lock.acquire_many_timeout(1 + chance % 2, limit).await?.map(Held::Leases)),
            Self::SemaphoreMutex(lock) => Ok(lock.acquire_timeout_as(&owner, limit).await?.map(Held::Guard)),
            Self::Multi(lock) => Ok(lock.acquire_timeout_as(&owner, limit).await?.map(Held::Guard)),
        }
    }
}

impl Held {
    /// Works under the lock, in one of the ways in which one may.
    async fn work(&self, chance: usize, time: Duration) {
        match (self, chance) {
            (Self::Guard(guard), 0) => {
                let (loss, token) = (guard.loss(), guard.cancellation_token());
                tokio::select! {
                    _ = guard.lost() => {}
                    () = token.cancelled() => {}
                    () = sleep(time) => drop(loss),
                }
            }
            (Self::Guard(guard), 1) => drop(guard.run(sleep(time)).await),
            _ => sleep(time).await,
        }
    }

    async fn release(self, chance: usize) -> Result<()> {
        match self {
            Self::Guard(guard) => guard.release().await,
            Self::Write(guard) if chance == 0 => guard.downgrade().await?.release().await,
            Self::Write(guard) => guard.release().await,
            Self::Leases(leases) => SemaphoreLease::release_all(leases).await,
        }
    }
}

/// A task of the soak, until it may rest.
pub(crate) async fn task(
    client: CuratorClient,
    lock: usize,
    seed: u64,
    done: Arc<Done>,
    mut resting: watch::Receiver<bool>,
) {
    let mut numbers = Numbers(seed);
    // Some programs keep their lock, others make one each time.
    let kept = Lock::new(&client, lock, &mut numbers);
    while !*resting.borrow_and_update() {
        let lock = if numbers.below(2) == 0 { kept.clone() } else { Lock::new(&client, lock, &mut numbers) };
        once(lock, &mut numbers, &done).await;
        let pause = Duration::from_millis(numbers.below(60) as u64);
        let _over = timeout(pause, resting.changed()).await;
    }
}

/// Uses each directory once more: the server removes no container that has never had a child, and an acquire may have been
/// cancelled between the one and the other.
pub(crate) async fn use_each(client: &CuratorClient) {
    let of_multi_locks = (0..LOCKS).filter(|number| number % 5 == 4).map(|number| {
        let paths = (0..MULTI_PATHS).map(|part| format!("/soak/{number}-{part}"));
        Lock::Multi(InterProcessMultiLock::new(client, paths).unwrap())
    });
    let others = (0..LOCKS).filter(|number| number % 5 != 4);
    for lock in others.map(|number| Lock::new(client, number, &mut Numbers(0))).chain(of_multi_locks) {
        // The last faults may still strike.
        until(async || match lock.clone().acquire(OwnerId::new(), 0, Duration::from_secs(10)).await {
            Ok(Some(held)) => held.release(1).await.is_ok(),
            _ => false,
        })
        .await;
    }
}

/// Acquires once, and gives back what it has.
async fn once(lock: Lock, numbers: &mut Numbers, done: &Done) {
    let count = |count: &AtomicU64| {
        count.fetch_add(1, Ordering::Relaxed);
    };
    let limit = Duration::from_millis([0, 5, 100, 1_000, 10_000][numbers.below(5)]);
    let owner = OwnerId::new();
    let acquire = lock.clone().acquire(owner.clone(), numbers.below(3), limit);
    let acquired = match numbers.below(10) {
        // Dropped at some await.
        0 | 1 => drop_after(acquire, 1 + numbers.below(8)).await,
        // Dropped at some time.
        2 => timeout(Duration::from_millis(numbers.below(300) as u64), acquire).await.ok(),
        // Dropped in a task that is aborted.
        3 => {
            let task = tokio::spawn(acquire);
            sleep(Duration::from_millis(numbers.below(50) as u64)).await;
            task.abort();
            task.await.ok()
        }
        _ => Some(acquire.await),
    };
    let held = match acquired {
        None => return count(&done.cancelled),
        Some(Ok(None)) => return count(&done.timed_out),
        Some(Err(_)) => {
            count(&done.failed);
            return sleep(Duration::from_millis(50)).await;
        }
        Some(Ok(Some(held))) => held,
    };
    count(&done.acquired);
    // Enters again now and then, where that is possible at once.
    let again = match (&held, numbers.below(8)) {
        (Held::Guard(_), 0) => lock.acquire(owner, 1, Duration::ZERO).await.ok().flatten(),
        _ => None,
    };
    held.work(numbers.below(4), Duration::from_millis(numbers.below(15) as u64)).await;
    drop(again);
    match numbers.below(4) {
        // The janitor does the rest.
        0 => drop(held),
        1 => drop(drop_after(held.release(1), 1 + numbers.below(3)).await),
        chance => drop(held.release(chance - 2).await),
    }
}
