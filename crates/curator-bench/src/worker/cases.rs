//! Runs the lock cases, with any type of lock.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{BenchLock, Failure, Session, Step, crowd};
use crate::protocol::{Done, Operation, Workload, nanoseconds};

/// The interval between checks that all readers are in the queue.
const POLL: Duration = Duration::from_millis(1);
/// The number of re-entries between two readings of the clock. Reading it after each would dominate
/// the measured time.
const REENTRIES_PER_READING: u64 = 256;

/// Runs any operation on locks except [`readers`], which needs two types of locks.
pub(super) async fn run<L: BenchLock>(
    sessions: &[L::Session],
    workload: &Workload,
) -> Result<Step, Failure> {
    let first = session(sessions, 0)?;
    match workload.operation {
        Operation::Cycle => cycle::<L>(first, workload).await.map(Step::done),
        Operation::Reentry => reentry::<L>(first, workload).await.map(Step::done),
        Operation::Distinct => distinct::<L>(first, workload).await.map(Step::done),
        Operation::Handover | Operation::Increment => {
            handover::<L>(sessions, workload).await.map(Step::done)
        }
        Operation::Crowd | Operation::Reconnect => {
            crowd::queue::<L>(first, session(sessions, 1)?, workload).await
        }
        Operation::Readers => Err("readers and a writer need two types of locks".into()),
        Operation::CacheLoad
        | Operation::CacheStorm
        | Operation::CacheReconnect
        | Operation::Register
        | Operation::Find
        | Operation::Shards => Err("the operation is not for locks".into()),
    }
}

pub(super) fn session<S: Session>(sessions: &[S], number: usize) -> Result<&S, Failure> {
    sessions
        .get(number)
        .ok_or_else(|| format!("session {number} is not open").into())
}

/// Acquires and releases the lock once.
async fn once<L: BenchLock>(lock: &L) -> Result<(), Failure> {
    L::unlock(lock.lock().await?).await
}

/// Repeats the cycle until the time has elapsed.
async fn repeat<L: BenchLock>(lock: &L, time: Duration) -> Result<Done, Failure> {
    let begin = Instant::now();
    let mut operations = 0;
    loop {
        once(lock).await?;
        operations += 1;
        if begin.elapsed() >= time {
            return Ok(Done::new(operations, begin.elapsed()));
        }
    }
}

async fn cycle<L: BenchLock>(session: &L::Session, workload: &Workload) -> Result<Done, Failure> {
    let lock = L::new(session, &workload.path, workload)?;
    let time = workload.time;
    tokio::spawn(async move {
        once(&lock).await?;
        repeat(&lock, time).await
    })
    .await?
}

async fn reentry<L: BenchLock>(session: &L::Session, workload: &Workload) -> Result<Done, Failure> {
    let lock = L::new(session, &workload.path, workload)?;
    let time = workload.time;
    tokio::spawn(async move {
        let outer = lock.lock().await?;
        let begin = Instant::now();
        let mut operations = 0;
        while begin.elapsed() < time {
            for _ in 0..REENTRIES_PER_READING {
                once(&lock).await?;
            }
            operations += REENTRIES_PER_READING;
        }
        let done = Done::new(operations, begin.elapsed());
        L::unlock(outer).await?;
        Ok(done)
    })
    .await?
}

async fn distinct<L: BenchLock>(
    session: &L::Session,
    workload: &Workload,
) -> Result<Done, Failure> {
    let mut tasks = JoinSet::new();
    let ready = Arc::new(Barrier::new(workload.tasks));
    for task in 0..workload.tasks {
        let lock = L::new(session, &format!("{}/{task}", workload.path), workload)?;
        let ready = Arc::clone(&ready);
        let time = workload.time;
        tasks.spawn(async move {
            once(&lock).await?;
            ready.wait().await;
            repeat(&lock, time).await
        });
    }
    total(tasks).await
}

async fn handover<L: BenchLock>(
    sessions: &[L::Session],
    workload: &Workload,
) -> Result<Done, Failure> {
    session(sessions, workload.sessions.saturating_sub(1))?;
    let sessions = &sessions[..workload.sessions];
    let first = L::new(session(sessions, 0)?, &workload.path, workload)?;
    // A first cycle creates the directories. With several processes, the warm-up has created them,
    // and a first cycle could last beyond the common start.
    if workload.start.is_none() {
        tokio::spawn(async move { once(&first).await }).await??;
    }
    wait_for_start(workload.start).await;
    let mut tasks = JoinSet::new();
    let ready = Arc::new(Barrier::new(sessions.len()));
    for session in sessions {
        let lock = L::new(session, &workload.path, workload)?;
        let ready = Arc::clone(&ready);
        let time = workload.time;
        tasks.spawn(async move {
            ready.wait().await;
            let end = Instant::now() + time;
            let mut operations = 0;
            loop {
                let guard = lock.lock().await?;
                let has_ended = Instant::now() >= end;
                L::unlock(guard).await?;
                if has_ended {
                    return Ok(Done::new(operations, time));
                }
                operations += 1;
            }
        });
    }
    total(tasks).await
}

/// Waits for the common start of several processes. Returns immediately if it has passed.
async fn wait_for_start(start: Option<u64>) {
    let at = start.map(|start| SystemTime::UNIX_EPOCH + Duration::from_millis(start));
    if let Some(left) = at.and_then(|at| at.duration_since(SystemTime::now()).ok()) {
        sleep(left).await;
    }
}

/// Waits for all tasks. Returns the sum of their operations, and the time of the slowest task.
async fn total(mut tasks: JoinSet<Result<Done, Failure>>) -> Result<Done, Failure> {
    let mut all = Done::default();
    while let Some(done) = tasks.join_next().await {
        let Done {
            operations,
            nanoseconds,
            ..
        } = done??;
        all.operations += operations;
        all.nanoseconds = all.nanoseconds.max(nanoseconds);
    }
    Ok(all)
}

/// In each round all readers wait for the writer. Measures the time from the writer's release until
/// the last reader has acquired the lock. The writer's session is the first one after the readers'
/// sessions.
pub(super) async fn readers<R, W>(
    sessions: &[R::Session],
    workload: &Workload,
) -> Result<Step, Failure>
where
    R: BenchLock,
    W: BenchLock<Session = R::Session>,
{
    let writer = W::new(
        session(sessions, workload.sessions)?,
        &workload.path,
        workload,
    )?;
    let checking = session(sessions, workload.sessions)?;
    let mut all = Done::default();
    for _ in 0..workload.rounds {
        let writing = writer.lock().await?;
        let mut reading = JoinSet::new();
        for session in &sessions[..workload.sessions] {
            let lock = R::new(session, &workload.path, workload)?;
            reading.spawn(async move {
                let guard = lock.lock().await?;
                let acquired = Instant::now();
                R::unlock(guard).await?;
                Ok::<_, Failure>(acquired)
            });
        }
        while checking.children(&workload.path).await? < workload.sessions + 1 {
            sleep(POLL).await;
        }
        let released = Instant::now();
        W::unlock(writing).await?;
        let mut last = released;
        while let Some(acquired) = reading.join_next().await {
            last = last.max(acquired??);
        }
        all.operations += workload.sessions as u64;
        all.nanoseconds += nanoseconds(last - released);
    }
    Ok(Step::done(all))
}
