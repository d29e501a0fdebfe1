//! Many tasks of one session wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::locks::Played;
use super::session::{BenchLock, Failure, Session};
use crate::protocol::{Done, Play, nanoseconds};

/// How often one looks whether all have come.
const POLL: Duration = Duration::from_millis(5);
/// How many tasks look at a lock each.
const LOOKING: usize = 64;

type Tasks<T> = JoinSet<Result<T, Failure>>;

/// Lets all wait for what `holding` holds; it looks after them too.
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
    let held = hold::<L>(holding, &paths, play).await?;
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
    look(holding, &paths, in_queue + 1).await?;
    let nanoseconds = nanoseconds(begin.elapsed());
    let operations = play.waiters as u64;
    Ok(Played::Queued { nanoseconds, drain: Box::pin(drain::<L>(held, waiters, operations)) })
}

async fn hold<L: BenchLock>(session: &L::Session, paths: &[String], play: &Play) -> Result<Vec<L::Guard>, Failure> {
    let mut holders = Tasks::new();
    for path in paths {
        let lock = L::new(session, path, play)?;
        holders.spawn(async move { lock.lock().await });
    }
    all(holders).await
}

/// Waits until each path has so many nodes.
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

async fn drain<L: BenchLock>(held: Vec<L::Guard>, waiters: Tasks<()>, operations: u64) -> Result<Done, Failure> {
    let begin = Instant::now();
    let mut releases = Tasks::new();
    for guard in held {
        releases.spawn(L::unlock(guard));
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
