//! Plays the cases with any lock.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::crowd;
use super::locks::Played;
use super::session::{BenchLock, Failure, Session};
use crate::protocol::{Act, Done, Play, nanoseconds};

/// How often a task checks whether others have arrived.
const POLL: Duration = Duration::from_millis(1);
/// The number of re-entries between two readings of the clock, which would dominate the time otherwise.
const UNWATCHED: u64 = 256;

/// Plays any case but that of readers and a writer, whose locks differ in type.
pub(super) async fn play<L: BenchLock>(sessions: &[L::Session], play: &Play) -> Result<Played, Failure> {
    let first = session(sessions, 0)?;
    match play.act {
        Act::Cycle => cycle::<L>(first, play).await.map(Played::Done),
        Act::Reentry => reentry::<L>(first, play).await.map(Played::Done),
        Act::Distinct => distinct::<L>(first, play).await.map(Played::Done),
        Act::Handover | Act::Increment => handover::<L>(sessions, play).await.map(Played::Done),
        Act::Crowd | Act::Reconnect => crowd::queue::<L>(first, session(sessions, 1)?, play).await,
        Act::Readers => Err("readers and a writer have different locks".into()),
        Act::CacheLoad | Act::CacheStorm | Act::CacheReconnect | Act::Register | Act::Find => {
            Err("it is no lock".into())
        }
    }
}

pub(super) fn session<S: Session>(sessions: &[S], number: usize) -> Result<&S, Failure> {
    sessions.get(number).ok_or_else(|| format!("there is no session {number}: open more").into())
}

/// Acquires and releases once, so that all directories exist.
async fn once<L: BenchLock>(lock: &L) -> Result<(), Failure> {
    L::unlock(lock.lock().await?).await
}

/// Repeats it until the time has elapsed.
async fn repeat<L: BenchLock>(lock: &L, time: Duration) -> Result<Done, Failure> {
    let (begin, mut operations) = (Instant::now(), 0);
    loop {
        once(lock).await?;
        operations += 1;
        if begin.elapsed() >= time {
            return Ok(Done::new(operations, begin.elapsed()));
        }
    }
}

async fn cycle<L: BenchLock>(session: &L::Session, play: &Play) -> Result<Done, Failure> {
    let (lock, time) = (L::new(session, &play.path, play)?, play.time);
    let task = tokio::spawn(async move {
        once(&lock).await?;
        repeat(&lock, time).await
    });
    task.await?
}

async fn reentry<L: BenchLock>(session: &L::Session, play: &Play) -> Result<Done, Failure> {
    let (lock, time) = (L::new(session, &play.path, play)?, play.time);
    let task = tokio::spawn(async move {
        let outer = lock.lock().await?;
        let (begin, mut operations) = (Instant::now(), 0);
        while begin.elapsed() < time {
            for _ in 0..UNWATCHED {
                once(&lock).await?;
            }
            operations += UNWATCHED;
        }
        let done = Done::new(operations, begin.elapsed());
        L::unlock(outer).await?;
        Ok(done)
    });
    task.await?
}

async fn distinct<L: BenchLock>(session: &L::Session, play: &Play) -> Result<Done, Failure> {
    let (mut tasks, ready) = (JoinSet::new(), Arc::new(Barrier::new(play.tasks)));
    for task in 0..play.tasks {
        let lock = L::new(session, &format!("{}/{task}", play.path), play)?;
        let (ready, time) = (Arc::clone(&ready), play.time);
        tasks.spawn(async move {
            once(&lock).await?;
            ready.wait().await;
            repeat(&lock, time).await
        });
    }
    together(tasks).await
}

async fn handover<L: BenchLock>(sessions: &[L::Session], play: &Play) -> Result<Done, Failure> {
    session(sessions, play.sessions.saturating_sub(1))?;
    let sessions = &sessions[..play.sessions];
    let first = L::new(session(sessions, 0)?, &play.path, play)?;
    // The directories of several processes exist since the warm-up, and another cycle would take longer than there is
    // until the start.
    if play.start.is_none() {
        tokio::spawn(async move { once(&first).await }).await??;
    }
    wait_for_start(play.start).await;
    let (mut tasks, ready) = (JoinSet::new(), Arc::new(Barrier::new(sessions.len())));
    for session in sessions {
        let lock = L::new(session, &play.path, play)?;
        let (ready, time) = (Arc::clone(&ready), play.time);
        tasks.spawn(async move {
            ready.wait().await;
            let (end, mut operations) = (Instant::now() + time, 0);
            loop {
                let guard = lock.lock().await?;
                let is_over = Instant::now() >= end;
                L::unlock(guard).await?;
                if is_over {
                    return Ok(Done::new(operations, time));
                }
                operations += 1;
            }
        });
    }
    together(tasks).await
}

/// Waits for the common start of several processes. Returns at once if that has passed.
async fn wait_for_start(start: Option<u64>) {
    let at = start.map(|start| SystemTime::UNIX_EPOCH + Duration::from_millis(start));
    if let Some(left) = at.and_then(|at| at.duration_since(SystemTime::now()).ok()) {
        sleep(left).await;
    }
}

/// The sum of the operations, in the time of the slowest task.
async fn together(mut tasks: JoinSet<Result<Done, Failure>>) -> Result<Done, Failure> {
    let mut all = Done::default();
    while let Some(done) = tasks.join_next().await {
        let Done { operations, nanoseconds, .. } = done??;
        all.operations += operations;
        all.nanoseconds = all.nanoseconds.max(nanoseconds);
    }
    Ok(all)
}

/// In each round all readers wait for the writer; the time from its release until the last of them reads is measured.
/// The writer's session follows those of the readers.
pub(super) async fn readers<R, W>(sessions: &[R::Session], play: &Play) -> Result<Played, Failure>
where
    R: BenchLock,
    W: BenchLock<Session = R::Session>,
{
    let writer = W::new(session(sessions, play.sessions)?, &play.path, play)?;
    let looking = session(sessions, play.sessions)?;
    let mut all = Done::default();
    for _ in 0..play.rounds {
        let writing = writer.lock().await?;
        let mut reading = JoinSet::new();
        for session in &sessions[..play.sessions] {
            let lock = R::new(session, &play.path, play)?;
            reading.spawn(async move {
                let guard = lock.lock().await?;
                let acquired = Instant::now();
                R::unlock(guard).await?;
                Ok::<_, Failure>(acquired)
            });
        }
        while looking.children(&play.path).await? < play.sessions + 1 {
            sleep(POLL).await;
        }
        let released = Instant::now();
        W::unlock(writing).await?;
        let mut last = released;
        while let Some(acquired) = reading.join_next().await {
            last = last.max(acquired??);
        }
        all.operations += play.sessions as u64;
        all.nanoseconds += nanoseconds(last - released);
    }
    Ok(Played::Done(all))
}
