//! The work that each task repeats.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use curator_recipes::Result;
use curator_recipes::client::CuratorClient;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::support::subjects::{Held, Kind, Lock};
use super::support::{Numbers, drop_after, until};

/// The results so far.
#[derive(Debug, Default)]
pub(crate) struct Done {
    acquired: AtomicU64,
    timed_out: AtomicU64,
    cancelled: AtomicU64,
    failed: AtomicU64,
}

impl Done {
    pub(crate) fn counts(&self) -> [(&'static str, u64); 4] {
        let Self {
            acquired,
            timed_out,
            cancelled,
            failed,
        } = self;
        [
            ("acquired", acquired),
            ("timed out", timed_out),
            ("cancelled", cancelled),
            ("failed", failed),
        ]
        .map(|(name, count)| (name, count.load(Ordering::Relaxed)))
    }
}

const LOCKS: usize = 20;
/// The kinds of the locks; [`lock`] adds the read lock. `SharedLimit` is not used, because the node
/// of its limit stays.
const KINDS: [Kind; 6] = [
    Kind::Mutex,
    Kind::Write,
    Kind::Leases,
    Kind::SemaphoreMutex,
    Kind::Paths,
    Kind::Locks,
];

/// The lock with this number, and its kind. If `reads` is true, a write lock is replaced by the
/// read lock on the same path.
fn lock(client: &CuratorClient, number: usize, reads: bool) -> (Kind, Lock) {
    let number = number % LOCKS;
    let kind = match KINDS[number % KINDS.len()] {
        Kind::Write if reads => Kind::Read,
        kind => kind,
    };
    (kind, kind.lock(client, &format!("/soak/{number}")))
}

/// Works while the lock is held, in one of several ways.
async fn work(held: &Held, chance: usize, time: Duration) {
    match chance {
        0 => {
            let loss = held.loss();
            let token = held.cancellation_token();
            tokio::select! {
                _ = held.lost() => {}
                () = token.cancelled() => {}
                () = sleep(time) => drop(loss),
            }
        }
        1 => drop(held.run(sleep(time)).await),
        _ => sleep(time).await,
    }
}

async fn release(held: Held, downgrades: bool) -> Result<()> {
    match held {
        Held::Write(..) if downgrades => held.downgrade().await?.release().await,
        held => held.release().await,
    }
}

/// A task of the soak: uses locks until `resting` is true.
pub(crate) async fn task(
    client: CuratorClient,
    number: usize,
    seed: u64,
    done: Arc<Done>,
    mut resting: watch::Receiver<bool>,
) {
    let mut numbers = Numbers(seed);
    // Some programs keep their lock object, others create one per use.
    let kept = lock(&client, number, numbers.below(3) > 0);
    while !*resting.borrow_and_update() {
        let reads = numbers.below(3) > 0;
        let (kind, lock) = if numbers.below(2) == 0 {
            kept.clone()
        } else {
            lock(&client, number, reads)
        };
        once(kind, lock, &mut numbers, &done).await;
        let pause = Duration::from_millis(numbers.below(60) as u64);
        // A change of `resting` ends the pause early.
        let _ = timeout(pause, resting.changed()).await;
    }
}

/// Uses each directory once more: the server never removes a container that has had no child, and
/// an acquire may have been cancelled between creating the directory and the node.
pub(crate) async fn use_each(client: &CuratorClient) {
    for number in 0..LOCKS {
        let (_, lock) = lock(client, number, false);
        // The last faults may still be in effect.
        until(
            async || match lock.acquire_timeout(Duration::from_secs(10)).await {
                Ok(Some(held)) => held.release().await.is_ok(),
                _ => false,
            },
        )
        .await;
    }
}

/// Acquires once, and releases the lock if it was acquired.
async fn once(kind: Kind, lock: Lock, numbers: &mut Numbers, done: &Done) {
    let count = |counter: &AtomicU64| {
        counter.fetch_add(1, Ordering::Relaxed);
    };
    let limit = Duration::from_millis([0, 5, 100, 1_000, 10_000][numbers.below(5)]);
    let acquire = {
        let lock = lock.clone();
        async move { lock.acquire_timeout(limit).await }
    };
    let acquired = match numbers.below(10) {
        // Dropped at some await point.
        0 | 1 => drop_after(acquire, 1 + numbers.below(8)).await,
        // Dropped after some time.
        2 => timeout(Duration::from_millis(numbers.below(300) as u64), acquire)
            .await
            .ok(),
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
    // Re-enters some of the time. If the lock was lost meanwhile, the acquire waits like any other.
    let again = if kind.is_reentrant() && numbers.below(8) == 0 {
        lock.enter_again(&held).await.ok()
    } else {
        None
    };
    work(
        &held,
        numbers.below(4),
        Duration::from_millis(numbers.below(15) as u64),
    )
    .await;
    drop(again);
    let downgrades = numbers.below(2) == 0;
    match numbers.below(4) {
        // The janitor releases the lock.
        0 => drop(held),
        1 => drop(drop_after(release(held, downgrades), 1 + numbers.below(3)).await),
        _ => drop(release(held, downgrades).await),
    }
}
