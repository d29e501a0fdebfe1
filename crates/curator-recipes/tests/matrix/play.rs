//! Plays one cell.

use std::sync::Arc;
use std::time::{Duration, Instant};

use curator_recipes::{Error, LossReason, Result};

use super::cells::{Cell, Requests};
use super::fault::{Fault, Strike, documented};
use super::latch;
use super::operation::{Ended, Operation};
use super::phase::{Course, Phase};
use super::scene::{Scene, to_the_end};
use super::stage::{BEHIND, BOUND, Hall, Stage};

/// What came of it.
#[derive(Debug)]
pub(crate) struct Played {
    /// In a word, for the table.
    pub(crate) outcome: &'static str,
    /// What the contender sent in the phase, or after the cut, if nothing more was struck.
    pub(crate) requests: Requests,
    /// How long after the fault all others had had the lock.
    pub(crate) took: Duration,
    /// Still open, as a closed session has no watches to leak.
    pub(crate) stage: Stage,
}

/// How long a request may come after everything else.
const PATIENCE: Duration = Duration::from_millis(500);

/// Plays a course, with a fault or without one. `None` if a request that is to be struck was not sent.
///
/// # Panics
///
/// When anything comes of it that should not.
pub(crate) async fn play(hall: &Arc<Hall>, cell: Cell) -> Option<Played> {
    let Cell { course, cut, strike } = cell;
    if course.phase.is_of_a_latch() {
        return latch::play(hall, cell).await;
    }
    let mut scene = Scene::set(Stage::open(hall, course.kind, cut, strike).await, course).await;
    arm(cell, &scene.stage);
    let mut operation = scene.begin().await;
    let (stage, others) = (&scene.stage, (&mut scene.before, scene.nodes));
    if !struck(cell, stage, to_the_end(course, stage, others, &operation)).await {
        return None;
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
    free_watches(strike, &scene.stage);
    Some(Played { outcome, requests, took, stage: scene.stage })
}

/// The faults of this cell strike from now on.
pub(crate) fn arm(Cell { cut, strike, .. }: Cell, stage: &Stage) {
    stage.proxy.reset_counts();
    match (cut, strike) {
        (Some(cut), _) => cut.arm(&stage.proxy),
        (None, Some(strike)) => strike.arm(&stage.proxy),
        (None, None) => {}
    }
}

/// Waits until the faults of this cell have struck; if the last is a cut or there is none, `to_the_end` of the phase. Whether they
/// have: a request that is to be struck may not be sent up to the end.
pub(crate) async fn struck(
    Cell { cut, strike, .. }: Cell,
    stage: &Stage,
    to_the_end: impl Future<Output = ()>,
) -> bool {
    let struck = async {
        if let Some(cut) = cut {
            cut.struck(&stage.proxy, strike).await;
        }
        if let Some(strike) = strike {
            strike.struck(&stage.proxy).await;
        }
    };
    if strike.is_none() {
        tokio::join!(struck, to_the_end);
        return true;
    }
    let without_it = async {
        to_the_end.await;
        tokio::time::sleep(PATIENCE).await;
    };
    tokio::select! {
        biased;
        () = struck => true,
        () = without_it => false,
    }
}

/// TCP loses no single answer. If one is lost all the same, the client crate may wait with the removal of a watch on that path for
/// ever, that is, as long as the connection ("after they are freed" in docs/upstream.md).
pub(crate) fn free_watches(strike: Option<Strike>, stage: &Stage) {
    if strike.is_some_and(Strike::loses_a_watch) {
        stage.proxy.cut();
    }
}

/// The output of a future that must be ready when the time since then is over.
pub(crate) async fn in_time<T>(since: Instant, what: &str, future: impl Future<Output = T>) -> T {
    // Boxed, as others are put around it.
    let output = tokio::time::timeout(BOUND.saturating_sub(since.elapsed()), Box::pin(future)).await;
    output.unwrap_or_else(|_| panic!("{what} {BOUND:?} after the fault"))
}

impl Scene {
    /// What follows at once from the fault, up to the end of what it has struck; `None` if that was dropped.
    async fn suffer(&mut self, fault: Option<Fault>, operation: &mut Operation) -> Option<Result<Ended>> {
        let Course { phase, position, .. } = self.course;
        let stage = &self.stage;
        if self.behind.is_none() && position.has_one_behind() {
            self.behind = Some(stage.begin(BEHIND));
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
        if phase.gives_up() && !is_dropped {
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
            assert!(held.is_valid(), "lost, for no reason");
            stage.leave();
            stage.others.delete().for_path(held.node()).await.unwrap();
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
                held.lost().await;
                let released = held.release().await;
                assert!(matches!(released, Err(Error::Lost(_) | Error::ReleasesFailed { .. })), "{released:?}");
                "lost"
            }
            Some(Ok(Ended::Held(held))) => {
                assert!(held.is_valid());
                stage.look().await;
                assert!(held.is_valid());
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
                Phase::TimeOut => "timed out",
                Phase::Transaction => "applied",
                Phase::ReEntry | Phase::Release | Phase::Drop | Phase::Abandon => "gone",
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
            held.lost().await;
            // What is lost cannot be released.
            assert!(held.release().await.is_err());
        } else if phase == Phase::Loss && outcome == "told" {
            assert!(!held.is_valid());
            assert!(held.release().await.is_err());
        } else {
            assert!(held.is_valid(), "lost, for no reason");
            stage.leave();
            held.release().await.unwrap();
        }
        outcome
    }
}
