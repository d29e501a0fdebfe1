//! Runs the crowd cases: many tasks of one session wait for one lock, or each for a separate lock.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{BenchLock, Failure, Session, Step};
use crate::protocol::{Done, Lock, Reply, Workload, nanoseconds};

/// The interval between checks that all tasks wait. The workers in `peers/` use the same interval.
const POLL: Duration = Duration::from_millis(10);
/// The number of tasks that check the queues, or create the holder's nodes, in parallel.
const PARALLEL: usize = 64;

type Tasks<T> = JoinSet<Result<T, Failure>>;

/// Acquires all locks in the session `holding`. In the next step, tasks of the session `waiting`
/// wait for the locks.
pub(super) async fn queue<L: BenchLock>(
    waiting: &L::Session,
    holding: &L::Session,
    workload: &Workload,
) -> Result<Step, Failure> {
    let paths: Arc<[String]> = if workload.each {
        (0..workload.waiters)
            .map(|number| format!("{}/{number}", workload.path))
            .collect()
    } else {
        [workload.path.clone()].into()
    };
    let held = hold(holding, &paths, workload.lock).await?;
    let raw = holding.raw().await?;
    let waiting = waiting.clone();
    let holding = holding.clone();
    let workload = workload.clone();
    let wait = async move {
        wait::<L, _>(
            &waiting,
            &holding,
            &paths,
            &workload,
            Held { raw, nodes: held },
        )
        .await
    };
    Ok(Step::then(Reply::Held, wait))
}

/// The nodes of the holder, and the handle that deletes them.
struct Held<R> {
    raw: R,
    nodes: Vec<String>,
}

/// Makes all tasks wait for the held locks, and returns when `holding` sees their nodes in the
/// queues.
async fn wait<L: BenchLock, R>(
    waiting: &L::Session,
    holding: &L::Session,
    paths: &Arc<[String]>,
    workload: &Workload,
    held: Held<R>,
) -> Result<Step, Failure>
where
    L::Session: Session<Raw = R>,
    R: Clone + Send + Sync + 'static,
{
    let begin = Instant::now();
    let begun = Arc::new(AtomicUsize::new(0));
    let mut waiters = JoinSet::new();
    for path in paths.iter().cycle().take(workload.waiters) {
        let lock = L::new(waiting, path, workload)?;
        let begun = Arc::clone(&begun);
        waiters.spawn(async move {
            begun.fetch_add(1, Relaxed);
            L::unlock(lock.lock().await?).await
        });
    }
    while begun.load(Relaxed) < workload.waiters {
        sleep(POLL).await;
    }
    let in_queue = if workload.each {
        1
    } else {
        workload.waiters.min(L::Session::MOST_IN_QUEUE)
    };
    wait_for_children(holding, paths, in_queue + 1).await?;
    let nanoseconds = nanoseconds(begin.elapsed());
    let operations = workload.waiters as u64;
    Ok(Step::then(
        Reply::Queued { nanoseconds },
        drain::<L::Session>(held, waiters, operations),
    ))
}

/// Creates a node in each directory; this node holds the lock while it exists. A guard for each
/// lock would use more memory than the measured client.
async fn hold<S: Session>(
    session: &S,
    paths: &Arc<[String]>,
    lock: Lock,
) -> Result<Vec<String>, Failure> {
    let name = if lock == Lock::Write {
        "__WRIT__"
    } else {
        "lock-"
    };
    let mut holders = Tasks::new();
    for first in 0..PARALLEL.min(paths.len()) {
        let session = session.clone();
        let paths = Arc::clone(paths);
        holders.spawn(async move {
            let raw = session.raw().await?;
            let mut nodes = Vec::new();
            for path in paths.iter().skip(first).step_by(PARALLEL) {
                session.make_directory(path).await?;
                nodes.push(S::create(&raw, &format!("{path}/{name}")).await?);
            }
            Ok(nodes)
        });
    }
    Ok(all(holders).await?.into_iter().flatten().collect())
}

/// Waits until each path has at least this many children.
async fn wait_for_children<S: Session>(
    session: &S,
    paths: &Arc<[String]>,
    nodes: usize,
) -> Result<(), Failure> {
    let mut checks = Tasks::new();
    for first in 0..PARALLEL.min(paths.len()) {
        let session = session.clone();
        let paths = Arc::clone(paths);
        checks.spawn(async move {
            for path in paths.iter().skip(first).step_by(PARALLEL) {
                while session.children(path).await? < nodes {
                    sleep(POLL).await;
                }
            }
            Ok(())
        });
    }
    all(checks).await.map(drop)
}

/// Releases the held locks, and waits until each waiter has acquired and released its lock.
async fn drain<S: Session>(
    held: Held<S::Raw>,
    waiters: Tasks<()>,
    operations: u64,
) -> Result<Step, Failure> {
    let begin = Instant::now();
    let mut releases = Tasks::new();
    for node in held.nodes {
        let raw = held.raw.clone();
        releases.spawn(async move { S::delete(&raw, &node).await });
    }
    all(releases).await?;
    all(waiters).await?;
    Ok(Step::done(Done::new(operations, begin.elapsed())))
}

async fn all<T: 'static>(mut tasks: Tasks<T>) -> Result<Vec<T>, Failure> {
    let mut results = Vec::with_capacity(tasks.len());
    while let Some(result) = tasks.join_next().await {
        results.push(result??);
    }
    Ok(results)
}
