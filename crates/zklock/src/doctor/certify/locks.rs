//! The checks of the locks: each is acquired, waited for and released by two sessions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use curator_recipes::client::{CreateMode, CuratorClient};
use curator_recipes::{
    Error, InterProcessLock, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphoreMutex, InterProcessSemaphoreV2, LockGuard, LossReason, OwnerId,
    SemaphoreLease, SharedCount, Wait, revoke,
};

use super::site::{Check, STEP, Site, children, within_step};
use super::verdict::{Checked, Problem, Verdict, expect};

/// The checks of locks, in the order of the output.
pub(super) fn checks<'a>() -> Vec<Check<'a>> {
    vec![
        Check::of_hold("InterProcessMutex", mutex),
        Check::of_hold("InterProcessSemaphoreMutex", semaphore_mutex),
        Check::of_hold("InterProcessReadWriteLock", read_write),
        Check::of_hold("InterProcessMultiLock", multi_lock),
        Check::of_hold("InterProcessMultiLock::of", multi_lock_of),
        Check::of_hold("InterProcessSemaphoreV2", semaphore),
        Check::of_hold(
            "InterProcessSemaphoreV2::with_shared_count",
            semaphore_with_count,
        ),
        Check::new("LockGuard::lost", lost),
        Check::new("LockGuard::transaction", guarded_transaction),
        Check::new("revoke", revocation),
    ]
}

/// The path of a node below the check's path.
fn below(path: &str, name: &str) -> String {
    format!("{path}/{name}")
}

async fn mutex(site: Site) -> Checked {
    let Site {
        first,
        second,
        path,
    } = &site;
    let one = InterProcessMutex::non_reentrant(first, path)?;
    let two = InterProcessMutex::non_reentrant(second, path)?;
    hand_over(&site, &one, &two, &Queue::of(path)).await
}

async fn semaphore_mutex(site: Site) -> Checked {
    let Site {
        first,
        second,
        path,
    } = &site;
    let one = InterProcessSemaphoreMutex::new(first, path)?;
    let two = InterProcessSemaphoreMutex::new(second, path)?;
    hand_over(&site, &one, &two, &Queue::of_semaphore(path)).await
}

async fn multi_lock(site: Site) -> Checked {
    let paths = ["a", "b"].map(|name| below(&site.path, name));
    let one = InterProcessMultiLock::non_reentrant(&site.first, &paths)?;
    let two = InterProcessMultiLock::non_reentrant(&site.second, &paths)?;
    hand_over(&site, &one, &two, &Queue::of(&paths[1])).await
}

async fn multi_lock_of(site: Site) -> Checked {
    let [one, two] = [&site.first, &site.second].map(|client| {
        let mutex = InterProcessMutex::non_reentrant(client, below(&site.path, "a"))?;
        let other = InterProcessSemaphoreMutex::new(client, below(&site.path, "b"))?;
        InterProcessMultiLock::of([
            Arc::new(mutex) as Arc<dyn InterProcessLock>,
            Arc::new(other),
        ])
    });
    hand_over(&site, &one?, &two?, &Queue::of(&below(&site.path, "a"))).await
}

/// Where the contenders of a lock wait.
struct Queue {
    directory: String,
    /// The number of nodes in it while one contender holds the lock and another waits.
    contended: usize,
}

impl Queue {
    fn of(path: &str) -> Self {
        Self {
            directory: path.to_owned(),
            contended: 2,
        }
    }

    /// The holder of a lease has left the queue.
    fn of_semaphore(path: &str) -> Self {
        Self {
            directory: below(path, "locks"),
            contended: 1,
        }
    }
}

/// The first session holds the lock, the second cannot acquire it, waits, and holds it after the
/// release, with a higher token.
async fn hand_over(
    site: &Site,
    one: &dyn InterProcessLock,
    two: &dyn InterProcessLock,
    queue: &Queue,
) -> Checked {
    let held = one.acquire_as(&OwnerId::new()).await?;
    let other = OwnerId::new();
    let tried = tried(&site.second, || two.acquire_within(&other, Wait::No)).await?;
    expect(tried.is_none(), "two sessions hold the lock")?;
    let token = held.fencing_token();
    let next_owner = OwnerId::new();
    let next = released_to(site, held, queue, two.acquire_as(&next_owner)).await?;
    expect(next.is_valid(), "the second holder is not valid")?;
    expect(
        next.fencing_token() > token,
        "the fencing token of the second holder is not higher",
    )?;
    next.release().await?;
    Ok(Verdict::Works)
}

/// How often a lock is tried.
const TRIES: usize = 3;

/// Tries, and tries again after an error that a retry can help, because the library does not retry a
/// try. Servers of ZooKeeper close the connection after the first request that they do not know,
/// which breaks this try, and perhaps the next one. The client then does without that request. The
/// check of `multiRead` reports this.
async fn tried<T, F: Future<Output = Result<T, Error>>>(
    client: &CuratorClient,
    attempt: impl Fn() -> F,
) -> Result<T, Error> {
    for _ in 1..TRIES {
        match attempt().await {
            Err(error) if error.is_retryable() => client.wait_connected(STEP).await?,
            done => return done,
        }
    }
    attempt().await
}

/// Releases a guard when the next contender waits in the queue. Returns the contender's guard.
async fn released_to<G>(
    site: &Site,
    held: LockGuard,
    queue: &Queue,
    next: impl Future<Output = Result<G, Error>>,
) -> Result<G, Problem> {
    let is_released = AtomicBool::new(false);
    let releasing = async {
        children(&site.first, &queue.directory, queue.contended).await?;
        expect(held.is_valid(), "the first holder has lost the lock")?;
        is_released.store(true, Ordering::SeqCst);
        held.release().await.map_err(Problem::from)
    };
    let acquiring = async {
        let next = next.await?;
        expect(
            is_released.load(Ordering::SeqCst),
            "two sessions hold the lock",
        )?;
        Ok::<_, Problem>(next)
    };
    // Boxed, because it is large, and the callers' futures contain it.
    let handed_over = Box::pin(async { tokio::try_join!(releasing, acquiring) });
    let ((), next) =
        within_step("the waiter holds the lock after the release", handed_over).await??;
    Ok(next)
}

/// Two sessions read at the same time; a writer excludes readers, and continues as one.
async fn read_write(site: Site) -> Checked {
    let one = InterProcessReadWriteLock::non_reentrant(&site.first, &site.path)?;
    let two = InterProcessReadWriteLock::non_reentrant(&site.second, &site.path)?;
    let reading = one.read().acquire().await?;
    let together = two.read().try_acquire().await?;
    let together = together.ok_or_else(|| Problem::fault("a reader excludes another"))?;
    together.release().await?;
    expect(
        two.write().try_acquire().await?.is_none(),
        "a writer and a reader hold the lock",
    )?;
    let token = reading.fencing_token();
    let queue = Queue::of(&site.path);
    let writing = released_to(&site, reading, &queue, Box::pin(two.write().acquire())).await?;
    expect(
        writing.fencing_token() > token,
        "the fencing token of the writer is not higher",
    )?;
    expect(
        one.read().try_acquire().await?.is_none(),
        "a reader and a writer hold the lock",
    )?;
    let downgraded = writing.downgrade().await?;
    let again = one.read().try_acquire().await?;
    let again = again.ok_or_else(|| Problem::fault("a downgraded writer excludes a reader"))?;
    again.release().await?;
    downgraded.release().await?;
    Ok(Verdict::Works)
}

async fn semaphore(site: Site) -> Checked {
    let Site {
        first,
        second,
        path,
    } = &site;
    let one = InterProcessSemaphoreV2::new(first, path, 2)?;
    let two = InterProcessSemaphoreV2::new(second, path, 2)?;
    let mut leases = one.acquire_many(2).await?;
    expect(
        tried(second, || two.try_acquire()).await?.is_none(),
        "more leases are held than there are",
    )?;
    let queue = Queue::of_semaphore(path);
    let released = leases.pop();
    let released = released.ok_or_else(|| Problem::fault("no lease instead of two"))?;
    let next = released_to(&site, released.into(), &queue, Box::pin(two.acquire())).await?;
    leases.push(next);
    SemaphoreLease::release_all(leases).await?;
    Ok(Verdict::Works)
}

/// A waiter gets a lease when the number of leases is raised.
async fn semaphore_with_count(site: Site) -> Checked {
    let number = below(&site.path, "number");
    let semaphore = below(&site.path, "semaphore");
    let [one, two] = [&site.first, &site.second].map(|client| {
        let count = SharedCount::new(client, &number, 1)?;
        InterProcessSemaphoreV2::with_shared_count(client, &semaphore, count)
    });
    let (one, two) = (one?, two?);
    let held = one.acquire().await?;
    let raising = async {
        children(&site.first, &below(&semaphore, "locks"), 1).await?;
        let count = SharedCount::new(&site.first, &number, 1)?;
        count.set(2).await.map_err(Problem::from)
    };
    let acquiring = async { two.acquire().await.map_err(Problem::from) };
    let raised = Box::pin(async { tokio::try_join!(raising, acquiring) });
    let ((), next) = within_step("the waiter gets the lease that was added", raised).await??;
    SemaphoreLease::release_all([held, next]).await?;
    Ok(Verdict::Works)
}

/// A holder is notified that its node was deleted.
async fn lost(site: Site) -> Checked {
    let mutex = InterProcessMutex::non_reentrant(&site.first, &site.path)?;
    let held = mutex.acquire().await?;
    let deleting = site.second.delete();
    let deleted = async { tokio::join!(held.lost(), deleting.for_path(held.node())) };
    let (lost, deleted) = within_step("the holder is notified of the loss", deleted).await?;
    deleted?;
    expect(
        lost.reason == LossReason::NodeDeleted && !held.is_valid(),
        "a holder without a node is valid",
    )?;
    Ok(Verdict::Works)
}

/// A guarded transaction is applied while the lock is held, and not after its loss.
async fn guarded_transaction(site: Site) -> Checked {
    let data = below(&site.path, "data");
    let mutex = InterProcessMutex::non_reentrant(&site.first, below(&site.path, "lock"))?;
    let held = mutex.acquire().await?;
    held.transaction()
        .create(&data, "1", CreateMode::Persistent)?
        .commit()
        .await?;
    site.second.delete().for_path(held.node()).await?;
    let late = held.transaction().set_data(&data, "2", None)?;
    match late.commit().await {
        Err(Error::Lost(_)) => {}
        Err(error) => return Err(error.into()),
        Ok(_) => return Err(Problem::fault("a late transaction was applied")),
    }
    expect(
        site.second.get_data(&data).await?.0 == b"1",
        "a part of a late transaction was applied",
    )?;
    Ok(Verdict::Works)
}

async fn revocation(site: Site) -> Checked {
    let mutex = InterProcessMutex::non_reentrant(&site.first, &site.path)?;
    let held = mutex.acquire().await?;
    let requested = async {
        let requesting = async {
            revoke(&site.second, held.node())
                .await
                .map_err(Problem::from)
        };
        let notified = async { held.revocation_requested().await.map_err(Problem::from) };
        tokio::try_join!(requesting, notified)
    };
    within_step("the holder is notified of the request", requested).await??;
    held.release().await?;
    Ok(Verdict::Works)
}
