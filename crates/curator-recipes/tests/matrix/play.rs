//! Plays one cell.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use curator_recipes::{Error, LossReason, Result};
use curator_test::OpCode;
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;

use super::fault::{Fault, documented};
use super::phase::{Course, Phase};
use super::stage::{BOUND, Hall, Neighbour, Stage, joined};
use super::subjects::Held;
use crate::support::soon;

/// A fault at the `nth` request of this kind in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Strike {
    pub(crate) op: OpCode,
    pub(crate) nth: u64,
    pub(crate) fault: Fault,
}

impl Strike {
    /// Whether the request may set a watch.
    fn is_a_watch(&self) -> bool {
        matches!(self.op, OpCode::GetData | OpCode::GetChildren)
    }
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Played {
    /// In a word, for the table.
    pub(crate) outcome: &'static str,
    /// What the contender sent in the phase, if there was no fault.
    pub(crate) requests: Vec<(OpCode, u64)>,
    /// How long after the fault all others had had the lock.
    pub(crate) took: Duration,
    /// Still open, as a closed session has no watches to leak.
    pub(crate) stage: Stage,
}

/// What a contender's future has come to.
#[derive(Debug)]
enum Ended {
    Held(Held),
    Done,
    Lost(LossReason),
}

/// A contender's future, as a task.
struct Operation(JoinHandle<Result<Ended>>);

impl Operation {
    fn spawn(future: impl Future<Output = Result<Ended>> + Send + 'static) -> Self {
        Self(tokio::spawn(future))
    }

    /// Acquires the lock, or asks for it; whoever gets it holds it from then on, for the witness too.
    fn acquire(stage: &Stage, waits: bool) -> Self {
        let (lock, enter) = (stage.lock(), stage.entrance());
        Self::spawn(async move {
            let held = if waits { Some(lock.acquire().await?) } else { lock.try_acquire().await? };
            let Some(held) = held else { return Ok(Ended::Done) };
            enter(&held, lock.shares());
            Ok(Ended::Held(held))
        })
    }

    async fn finished(&self) {
        while !self.0.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn join(&mut self) -> Result<Ended> {
        joined((&mut self.0).await)
    }

    /// Drops the future. What it has come to, if it was too late for that.
    async fn cancel(&mut self) -> Option<Result<Ended>> {
        self.0.abort();
        match (&mut self.0).await {
            Err(error) if error.is_cancelled() => None,
            result => Some(joined(result)),
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Plays a course with a fault, or without one. `None` if the request of the fault was not sent.
///
/// # Panics
///
/// When anything comes of it that should not.
pub(crate) async fn play(hall: &Arc<Hall>, course: Course, strike: Option<Strike>) -> Option<Played> {
    let mut scene = Scene::set(Stage::open(hall, course.kind, strike.is_some()).await, course).await;
    scene.stage.proxy.reset_counts();
    if let Some(Strike { op, nth, fault }) = strike {
        fault.arm(&scene.stage.proxy, op, nth);
    }
    let mut operation = scene.begin().await;
    match strike {
        None => to_the_end(course, &scene.stage, (&mut scene.before, scene.nodes), &operation).await,
        Some(Strike { op, nth, fault }) => {
            let proxy = &scene.stage.proxy;
            let struck = async {
                proxy.wait_for_faults().await.unwrap();
                if fault.holds_the_reply() {
                    proxy.wait_for_reply(op, nth).await.unwrap();
                }
            };
            let (stage, others) = (&scene.stage, (&mut scene.before, scene.nodes));
            tokio::select! {
                biased;
                () = struck => {}
                () = to_the_end(course, stage, others, &operation) => return None,
            }
        }
    }
    let requests = scene.stage.requests();
    let fault = strike.map(|strike| strike.fault);
    let struck = Instant::now();
    let result = in_time(struck, "what was struck has not ended", scene.suffer(fault, &mut operation)).await;
    let outcome = in_time(struck, "the contender cannot give back what it has", scene.judge(fault, result)).await;
    if let Some(mut behind) = scene.behind.take() {
        in_time(struck, "the next contender has not had the lock", behind.finish()).await;
    }
    let took = struck.elapsed();
    in_time(struck, "a node, or work, is left", scene.stage.free()).await;
    if strike.is_some_and(|strike| strike.fault == Fault::Lost && strike.is_a_watch()) {
        // TCP loses no single answer. If one is lost all the same, the client crate may wait with the removal of a watch on
        // that path for ever, that is, as long as the connection ("after they are freed" in docs/upstream.md).
        scene.stage.proxy.cut();
    }
    Some(Played { outcome, requests, took, stage: scene.stage })
}

/// The output of a future that must be ready when the time since then is over.
async fn in_time<T>(since: Instant, what: &str, future: impl Future<Output = T>) -> T {
    // Boxed, as others are put around it.
    let output = tokio::time::timeout(BOUND.saturating_sub(since.elapsed()), Box::pin(future)).await;
    output.unwrap_or_else(|_| panic!("{what} {BOUND:?} after the fault"))
}

/// A contender and its neighbours, at the beginning of a phase and from then on.
struct Scene {
    course: Course,
    stage: Stage,
    before: VecDeque<Neighbour>,
    behind: Option<Neighbour>,
    /// How many nodes the lock has when the phase begins.
    nodes: usize,
    /// The contender's acquire, if it waits.
    waiting: Option<Operation>,
    /// What the contender holds.
    held: Option<Arc<Held>>,
}

impl Scene {
    async fn set(stage: Stage, course: Course) -> Self {
        let Course { phase, position, .. } = course;
        let mut scene =
            Self { course, stage, before: VecDeque::new(), behind: None, nodes: 0, waiting: None, held: None };
        let stage = &scene.stage;
        if phase != Phase::NewDirectory {
            stage.make_directories().await;
        }
        for nth in 0..position.before() {
            let mut neighbour = stage.line_up(nth).await;
            if nth == 0 {
                neighbour.entered().await;
            }
            scene.before.push_back(neighbour);
        }
        let nodes = stage.nodes().await;
        scene.nodes = nodes;
        if !(phase.begins_waiting() || phase.begins_holding()) {
            return scene;
        }
        let mut acquiring = Operation::acquire(stage, true);
        if !scene.before.is_empty() {
            // It stands behind them.
            stage.until_nodes(|now| now > nodes).await;
        }
        if phase.begins_holding() {
            for neighbour in &mut scene.before {
                neighbour.finish().await;
            }
            scene.before.clear();
            match soon(acquiring.join()).await.unwrap() {
                Ended::Held(held) => scene.held = Some(Arc::new(held)),
                ended => panic!("{ended:?} without a fault"),
            }
        } else {
            stage.settle().await;
            scene.waiting = Some(acquiring);
        }
        if position.has_one_behind() {
            scene.behind = Some(stage.line_up_behind().await);
        }
        // What belongs to the time before is over.
        stage.settle().await;
        scene
    }

    /// The phase begins.
    async fn begin(&mut self) -> Operation {
        let stage = &self.stage;
        match self.course.phase {
            Phase::NewDirectory | Phase::Acquire => Operation::acquire(stage, true),
            Phase::Try => Operation::acquire(stage, false),
            Phase::Turn => self.waiting.take().expect("it waits"),
            Phase::Abandon => {
                let cancelled = self.waiting.take().expect("it waits").cancel().await;
                assert!(cancelled.is_none(), "{cancelled:?} while others were before it");
                self.cleaning()
            }
            Phase::Drop => {
                stage.leave();
                drop(self.held.take());
                self.cleaning()
            }
            Phase::Loss => {
                let held = self.held();
                Operation::spawn(async move { Ok(Ended::Lost(held.guard().lost().await.reason)) })
            }
            Phase::Transaction => {
                let (held, path) = (self.held(), stage.data_path());
                Operation::spawn(async move {
                    held.guard().transaction().set_data(path, "new", None)?.commit().await?;
                    Ok(Ended::Done)
                })
            }
            Phase::ReadToo => {
                let held = self.held();
                Operation::spawn(async move { held.read_too().await.map(Ended::Held) })
            }
            // The witness sees it alone still: nobody else but readers may come.
            Phase::Downgrade => {
                let held = self.give();
                Operation::spawn(async move { held.downgrade().await.map(Ended::Held) })
            }
            Phase::Release => {
                stage.leave();
                let held = self.give();
                Operation::spawn(async move { held.release().await.map(|()| Ended::Done) })
            }
        }
    }

    fn held(&self) -> Arc<Held> {
        self.held.clone().expect("it holds")
    }

    fn give(&mut self) -> Held {
        self.held.take().and_then(Arc::into_inner).expect("it holds, and nobody else has it")
    }

    /// Waits for the work of a drop.
    fn cleaning(&self) -> Operation {
        let janitor = self.stage.actor.janitor().clone();
        Operation::spawn(async move {
            janitor.idle().await;
            Ok(Ended::Done)
        })
    }

    /// What follows at once from the fault, up to the end of what it has struck; `None` if that was dropped.
    async fn suffer(&mut self, fault: Option<Fault>, operation: &mut Operation) -> Option<Result<Ended>> {
        let Course { phase, position, .. } = self.course;
        let stage = &self.stage;
        if self.behind.is_none() && position.has_one_behind() {
            self.behind = Some(stage.begin_behind());
        }
        let mut ended = None;
        let is_dropped = fault == Some(Fault::Dropped);
        match fault {
            Some(Fault::Expired) => stage.end_session().await,
            Some(Fault::Dropped) => {
                if phase == Phase::Downgrade {
                    stage.leave();
                }
                ended = operation.cancel().await;
                stage.proxy.release_held();
            }
            _ => {}
        }
        // Nobody should own the lock before those leave that are before it.
        if self.course.ends_waiting() && !is_dropped && fault.is_some() {
            stage.recover(fault == Some(Fault::Lost)).await;
        }
        if phase == Phase::Try && !is_dropped {
            operation.finished().await;
        }
        for neighbour in &mut self.before {
            neighbour.finish().await;
        }
        self.before.clear();
        if is_dropped {
            return ended;
        }
        if phase == Phase::Loss && fault != Some(Fault::Expired) {
            // It still hears of what it waits for.
            let held = self.held();
            assert!(held.guard().is_valid(), "lost, for no reason");
            stage.leave();
            stage.others.delete().for_path(held.guard().node()).await.unwrap();
        }
        Some(operation.join().await)
    }

    /// Whether this is how it should end. Then the contender gives back what it has.
    async fn judge(&mut self, fault: Option<Fault>, result: Option<Result<Ended>>) -> &'static str {
        let (phase, stage) = (self.course.phase, &self.stage);
        let outcome = match result {
            None => "dropped",
            Some(Ok(Ended::Held(held))) if stage.has_ended(&held) => {
                // It was acquired, and the news of the end came later.
                held.guard().lost().await;
                let released = held.release().await;
                assert!(matches!(released, Err(Error::Lost(_) | Error::ReleasesFailed { .. })), "{released:?}");
                "lost"
            }
            Some(Ok(Ended::Held(held))) => {
                assert!(held.guard().is_valid());
                stage.look().await;
                assert!(held.guard().is_valid());
                if phase != Phase::ReadToo {
                    stage.leave();
                }
                held.release().await.unwrap();
                "owner"
            }
            Some(Ok(Ended::Lost(reason))) => match (reason, fault) {
                (LossReason::SessionLost(_), Some(Fault::Expired)) => "told",
                (LossReason::NodeDeleted, fault) if fault != Some(Fault::Expired) => "told",
                (reason, _) => panic!("{reason}"),
            },
            Some(Ok(Ended::Done)) => match phase {
                Phase::Try if self.course.position.before() > 0 => "taken",
                Phase::Transaction => "applied",
                Phase::Release | Phase::Drop | Phase::Abandon => "gone",
                phase => panic!("nothing came of it: {}", phase.name()),
            },
            Some(Err(error)) => documented(phase, fault, &error).unwrap_or_else(|| panic!("{error}: {error:?}")),
        };
        if phase == Phase::Transaction {
            let (data, _) = stage.others.get_data(stage.data_path()).await.unwrap();
            let expected: &[&[u8]] = match outcome {
                "applied" => &[b"new"],
                "Lost" => &[b"old"],
                _ => &[b"old", b"new"],
            };
            assert!(expected.contains(&&*data), "{outcome}, and the data is {data:?}");
        }
        let Some(held) = self.held.take() else { return outcome };
        let held = Arc::into_inner(held).expect("nobody else has it");
        if stage.has_ended(&held) {
            held.guard().lost().await;
            // What is lost cannot be released.
            assert!(held.release().await.is_err());
        } else if phase == Phase::Loss && outcome == "told" {
            assert!(!held.guard().is_valid());
            assert!(held.release().await.is_err());
        } else {
            assert!(held.guard().is_valid(), "lost, for no reason");
            stage.leave();
            held.release().await.unwrap();
        }
        outcome
    }
}

/// Waits until all is done that happens in the phase without a fault.
// Boxed, as the compiler cannot tell that it is `Send` otherwise.
fn to_the_end<'a>(
    course: Course,
    stage: &'a Stage,
    (before, nodes): (&'a mut VecDeque<Neighbour>, usize),
    operation: &'a Operation,
) -> BoxFuture<'a, ()> {
    Box::pin(async move {
        match course.phase {
            Phase::Turn => {
                while let Some(first) = before.front_mut() {
                    first.finish().await;
                    before.pop_front();
                    if let Some(next) = before.front_mut() {
                        next.entered().await;
                        stage.settle().await;
                    }
                }
                operation.finished().await;
            }
            // It would wait as long as all goes well.
            Phase::Loss => {}
            _ if course.ends_waiting() => stage.until_nodes(|now| now > nodes).await,
            _ => operation.finished().await,
        }
        stage.settle().await;
    })
}
