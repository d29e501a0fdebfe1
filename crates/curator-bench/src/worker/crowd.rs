//! Plays the case of a crowd: many tasks of one session wait for a lock, or for a lock each.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::locks::Played;
use super::session::{BenchLock, Failure, Session};
use crate::protocol::{Done, Lock, Play, nanoseconds};

/// How often it checks whether all tasks wait: as often as the workers in `peers/`.
const POLL: Duration = Duration::from_millis(10);
/// The number of tasks that check or hold locks in parallel.
const LOOKING: usize = 64;

type Tasks<T> = JoinSet<Result<T, Failure>>;

/// Makes all tasks wait for the locks that `holding` holds, and checks through `holding` when they do.
pub(super) async fn queue<L: BenchLock>(
    waiting: &L::Session,
    holding: &L::Session,
    play: &Play,
) -> Result<Played, Failure> {
    let paths: Arc<[String]> = if play.each {
        (0..play.waiters).map(|number| format!("{}/{number}", play.path)).collect()
    } else {
        [play.path.clone()].into()
    };
    let held = hold(holding, &paths, play.lock).await?;
    let raw = holding.raw().await?;
    let (waiting, holding, play) = (waiting.clone(), holding.clone(), play.clone());
    let wait = async move { wait::<L, _>(&waiting, &holding, &paths, &play, Held { raw, nodes: held }).await };
    Ok(Played::Held { wait: Box::pin(wait) })
}

/// The nodes of the holder.
struct Held<R> {
    raw: R,
    nodes: Vec<String>,
}

/// Makes all tasks wait for the held locks, and checks through `holding` when they do.
async fn wait<L: BenchLock, R>(
    waiting: &L::Session,
    holding: &L::Session,
    paths: &Arc<[String]>,
    play: &Play,
    held: Held<R>,
) -> Result<Played, Failure>
where
    L::Session: Session<Raw = R>,
    R: Clone + Send + Sync + 'static,
{
    let (begin, begun) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let mut waiters = JoinSet::new();
    for path in paths.iter().cycle().take(play.waiters) {
        let (lock, begun) = (L::new(waiting, path, play)?, Arc::clone(&begun));
        waiters.spawn(async move {
            begun.fetch_add(1, Relaxed);
            L::unlock(lock.lock().await?).await
        });
    }
    while begun.load(Relaxed) < play.waiters {
        sleep(POLL).await;
    }
    let in_queue = if play.each { 1 } else { play.waiters.min(L::Session::MOST_IN_QUEUE) };
    look(holding, paths, in_queue + 1).await?;
    let nanoseconds = nanoseconds(begin.elapsed());
    let operations = play.waiters as u64;
    Ok(Played::Queued { nanoseconds, drain: Box::pin(drain::<L::Session>(held, waiters, operations)) })
}

/// Creates a node in each directory, which holds the lock while it exists: a guard for each lock would use more memory
/// than the measured client.
async fn hold<S: Session>(session: &S, paths: &Arc<[String]>, lock: Lock) -> Result<Vec<String>, Failure> {
    let name = if lock == Lock::Write { "__WRIT__" } else { "lock-" };
    let mut holders = Tasks::new();
    for first in 0..LOOKING.min(paths.len()) {
        let (session, paths) = (session.clone(), Arc::clone(paths));
        holders.spawn(async move {
            let (raw, mut nodes) = (session.raw().await?, Vec::new());
            for path in paths.iter().skip(first).step_by(LOOKING) {
                session.make_directory(path).await?;
                nodes.push(S::create(&raw, &format!("{path}/{name}")).await?);
            }
            Ok(nodes)
        });
    }
    Ok(all(holders).await?.into_iter().flatten().collect())
}

/// Waits until each path has that many nodes.
async fn look<S: Session>(session: &S, paths: &Arc<[String]>, nodes: usize) -> Result<(), Failure> {
    let mut looking = Tasks::new();
    for first in 0..LOOKING.min(paths.len()) {
        let (session, paths) = (session.clone(), Arc::clone(paths));
        looking.spawn(async move {
            for path in paths.iter().skip(first).step_by(LOOKING) {
                while session.children(path).await? < nodes {
                    sleep(POLL).await;
                }
            }
            Ok(())
        });
    }
    all(looking).await.map(drop)
}

async fn drain<S: Session>(held: Held<S::Raw>, waiters: Tasks<()>, operations: u64) -> Result<Done, Failure> {
    let begin = Instant::now();
    let mut releases = Tasks::new();
    for node in held.nodes {
        let raw = held.raw.clone();
        releases.spawn(async move { S::delete(&raw, &node).await });
    }
    all(releases).await?;
    all(waiters).await?;
    Ok(Done::new(operations, begin.elapsed()))
}

async fn all<T: 'static>(mut tasks: Tasks<T>) -> Result<Vec<T>, Failure> {
    let mut results = Vec::with_capacity(tasks.len());
    while let Some(result) = tasks.join_next().await {
        results.push(result??);
    }
    Ok(results)
}
