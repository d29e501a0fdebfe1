//! Runs one cell.

use std::sync::Arc;
use std::time::Duration;

use curator_recipes::{Error, LossReason, Result};
use tokio::time::Instant;

use super::cells::{Cell, Requests};
use super::fault::{Fault, documented};
use super::latch;
use super::operation::{Ended, Operation};
use super::phase::{Course, Phase};
use super::scene::{Scene, until_phase_ends};
use super::stage::{BEHIND, BOUND, Stage};
use super::world::{World, network};

/// The result of a cell that was run.
#[derive(Debug)]
pub(crate) struct Finished {
    /// A label for the table.
    pub(crate) outcome: &'static str,
    /// The contender's requests in the phase, or after the cut, if there is no strike.
    pub(crate) requests: Requests,
    /// The time from the fault until all others had held the lock.
    pub(crate) took: Duration,
}

/// Runs a course, with or without a fault. Returns `None` if the request of the strike was not
/// sent.
///
/// # Panics
///
/// If the outcome is wrong.
pub(crate) async fn run(world: World, cell: Cell) -> Option<Finished> {
    let Cell { course, strike, .. } = cell;
    if course.phase.is_of_a_latch() {
        return latch::run(world, cell).await;
    }
    let mut scene = Scene::set(Stage::open(world, course.kind).await, course).await;
    arm(cell, &scene.stage);
    let mut operation = scene.begin().await;
    let is_struck = struck(
        cell,
        &scene.stage,
        until_phase_ends(
            course,
            &scene.stage,
            &mut scene.before,
            scene.nodes,
            &operation,
        ),
    )
    .await;
    if !is_struck {
        return None;
    }
    let requests = scene.stage.requests();
    let fault = strike.map(|strike| strike.fault);
    let begun = Instant::now();
    let result = within_bound(
        begun,
        "the operation has not ended",
        scene.complete_fault(fault, &mut operation),
    )
    .await;
    let outcome = within_bound(
        begun,
        "the contender has not released the lock",
        scene.check_outcome(fault, result),
    )
    .await;
    let behind = scene.behind.take();
    let has_been_free = behind.is_some();
    if let Some(mut behind) = behind {
        within_bound(
            begun,
            "the next contender has not had the lock",
            behind.finish(),
        )
        .await;
    }
    let took = begun.elapsed();
    within_bound(
        begun,
        "a node or pending work is left",
        scene.stage.check_nothing_is_left(),
    )
    .await;
    if !has_been_free {
        within_bound(begun, "the lock is not free", scene.stage.check_free()).await;
    }
    scene.stage.close(strike).await;
    Some(Finished {
        outcome,
        requests,
        took,
    })
}

/// Arms the faults of this cell.
pub(crate) fn arm(Cell { cut, strike, .. }: Cell, stage: &Stage) {
    network!(stage.world, network => network.reset_counts());
    match (cut, strike) {
        (Some(cut), _) => cut.arm(&stage.world),
        (None, Some(strike)) => strike.arm(&stage.world),
        (None, None) => {}
    }
}

/// Waits until the faults of this cell have struck, and, without a strike, until the phase is
/// complete (`until_phase_ends`). Returns false if the request of the strike was not sent.
pub(crate) async fn struck(
    Cell { cut, strike, .. }: Cell,
    stage: &Stage,
    until_phase_ends: impl Future<Output = ()>,
) -> bool {
    let struck = async {
        if let Some(cut) = cut {
            cut.struck(&stage.world, strike).await;
        }
        if let Some(strike) = strike {
            strike.struck(&stage.world).await;
        }
    };
    if strike.is_none() {
        tokio::join!(struck, until_phase_ends);
        return true;
    }
    tokio::select! {
        biased;
        () = struck => true,
        () = until_phase_ends => false,
    }
}

/// Returns the output of a future that must be ready within [`BOUND`] of `since`.
pub(crate) async fn within_bound<T>(
    since: Instant,
    what: &str,
    future: impl Future<Output = T>,
) -> T {
    // Boxed to keep the enclosing futures small.
    let output =
        tokio::time::timeout(BOUND.saturating_sub(since.elapsed()), Box::pin(future)).await;
    output.unwrap_or_else(|_| panic!("{what} {BOUND:?} after the fault"))
}

impl Scene {
    /// Completes the fault, and waits until the operation ends. Returns `None` if the operation was
    /// dropped.
    async fn complete_fault(
        &mut self,
        fault: Option<Fault>,
        operation: &mut Operation,
    ) -> Option<Result<Ended>> {
        let Course {
            phase, position, ..
        } = self.course;
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
                network!(stage.world, network => network.release_held());
            }
            _ => {}
        }
        // The contender recovers here, while the contenders ahead hold the lock: it must not
        // acquire the lock yet.
        if self.course.ends_waiting() && !is_dropped && fault.is_some() {
            stage.recover(fault == Some(Fault::Lost)).await;
        }
        if phase.ends_without_lock() && !is_dropped {
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
            // The holder must still notice the loss that it waits for.
            let held = self.held();
            assert!(held.is_valid(), "the lock was lost without a reason");
            stage.leave();
            stage.others.delete().for_path(held.node()).await.unwrap();
        }
        Some(operation.join().await)
    }

    /// Checks the outcome, and releases what the contender holds. Returns a label of the outcome.
    async fn check_outcome(
        &mut self,
        fault: Option<Fault>,
        result: Option<Result<Ended>>,
    ) -> &'static str {
        let phase = self.course.phase;
        let stage = &self.stage;
        let outcome = match result {
            None => "dropped",
            Some(Ok(Ended::Held(held))) if stage.has_ended(&held) => {
                // The contender acquired the lock before it noticed the end of its session.
                held.lost().await;
                let released = held.release().await;
                assert!(
                    matches!(released, Err(Error::Lost(_) | Error::ReleasesFailed { .. })),
                    "{released:?}"
                );
                "lost"
            }
            Some(Ok(Ended::Held(held))) => {
                assert!(held.is_valid());
                stage.make_round_trips().await;
                assert!(held.is_valid());
                if phase != Phase::ReadToo {
                    stage.leave();
                }
                held.release().await.unwrap();
                "owner"
            }
            Some(Ok(Ended::Lost(reason))) => match (reason, fault) {
                (LossReason::SessionLost(_), Some(Fault::Expired)) => "notified",
                (LossReason::NodeDeleted, fault) if fault != Some(Fault::Expired) => "notified",
                (reason, _) => panic!("{reason}"),
            },
            Some(Ok(Ended::Done)) => match phase {
                Phase::Try if self.course.position.before() > 0 => "taken",
                Phase::TimeOut => "timed out",
                Phase::Transaction => "applied",
                Phase::ReEntry | Phase::Release | Phase::Drop | Phase::Abandon => "gone",
                phase => panic!("no lock and no error in the phase {}", phase.name()),
            },
            Some(Err(error)) => {
                documented(phase, fault, &error).unwrap_or_else(|| panic!("{error}: {error:?}"))
            }
        };
        if phase == Phase::Transaction {
            let (data, _) = stage.others.get_data(stage.data_path()).await.unwrap();
            let expected: &[&[u8]] = match outcome {
                "applied" => &[b"new"],
                "Lost" => &[b"old"],
                _ => &[b"old", b"new"],
            };
            assert!(
                expected.contains(&&*data),
                "{outcome}, and the data is {data:?}"
            );
        }
        let Some(held) = self.held.take() else {
            return outcome;
        };
        let held = Arc::into_inner(held).expect("no other task has the guard");
        if stage.has_ended(&held) {
            held.lost().await;
            // A lost lock cannot be released.
            assert!(held.release().await.is_err());
        } else if phase == Phase::Loss && outcome == "notified" {
            assert!(!held.is_valid());
            assert!(held.release().await.is_err());
        } else {
            assert!(held.is_valid(), "the lock was lost without a reason");
            stage.leave();
            held.release().await.unwrap();
        }
        outcome
    }
}
