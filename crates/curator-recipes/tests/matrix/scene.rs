//! Sets up a contender and its neighbours for a phase, and runs the phase.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::neighbour::Neighbour;
use super::operation::{Ended, Operation, Waits};
use super::phase::{Course, Phase};
use super::run::within_bound;
use super::stage::{BEHIND, Stage};
use super::support::subjects::Held;

/// The timeout in [`Phase::TimeOut`]: long enough that the contender is queued before it, even on a
/// busy machine.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(4);

/// A contender and its neighbours, at the beginning of a phase and from then on.
pub(crate) struct Scene {
    pub(crate) course: Course,
    pub(crate) stage: Stage,
    pub(crate) before: VecDeque<Neighbour>,
    pub(crate) behind: Option<Neighbour>,
    /// The number of the lock's nodes when the phase begins.
    pub(crate) nodes: usize,
    /// The contender's acquire, while it waits.
    waiting: Option<Operation>,
    /// What the contender holds.
    pub(crate) held: Option<Arc<Held>>,
}

impl Scene {
    /// Sets up the contender and its neighbours as they are at the beginning of the phase.
    pub(crate) async fn set(stage: Stage, course: Course) -> Self {
        let Course {
            phase, position, ..
        } = course;
        let mut scene = Self {
            course,
            stage,
            before: VecDeque::new(),
            behind: None,
            nodes: 0,
            waiting: None,
            held: None,
        };
        let stage = &scene.stage;
        // If contenders are ahead, the first of them creates the directories.
        if phase != Phase::NewDirectory && position.before() == 0 {
            stage.create_directories().await;
        }
        if phase == Phase::Transaction {
            stage.create_data().await;
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
        let mut acquiring = Operation::acquire(stage, Waits::Forever);
        if !scene.before.is_empty() {
            // Waits until the contender is queued behind the contenders ahead.
            stage.until_nodes(|now| now > nodes).await;
        }
        if phase.begins_holding() {
            for neighbour in &mut scene.before {
                neighbour.finish().await;
            }
            scene.before.clear();
            match within_bound(
                Instant::now(),
                "the contender has not had the lock",
                acquiring.join(),
            )
            .await
            .unwrap()
            {
                Ended::Held(held) => scene.held = Some(Arc::new(held)),
                ended => panic!("{ended:?} without a fault"),
            }
        } else {
            stage.settle().await;
            scene.waiting = Some(acquiring);
        }
        if position.has_one_behind() {
            scene.behind = Some(stage.line_up(BEHIND).await);
        }
        // When the phase begins, no earlier request is in flight.
        stage.settle().await;
        scene
    }

    /// Begins the phase.
    pub(crate) async fn begin(&mut self) -> Operation {
        let stage = &self.stage;
        match self.course.phase {
            Phase::NewDirectory | Phase::Acquire => Operation::acquire(stage, Waits::Forever),
            Phase::Try => Operation::acquire(stage, Waits::Not),
            Phase::TimeOut => Operation::acquire(stage, Waits::For(ACQUIRE_TIMEOUT)),
            Phase::Turn => self.waiting.take().expect("the contender waits"),
            Phase::Abandon => {
                let cancelled = self
                    .waiting
                    .take()
                    .expect("the contender waits")
                    .cancel()
                    .await;
                assert!(
                    cancelled.is_none(),
                    "the acquire ended with {cancelled:?} while others were ahead of it"
                );
                self.clean_up()
            }
            Phase::Drop => {
                stage.leave();
                drop(self.held.take());
                self.clean_up()
            }
            Phase::Loss => {
                let held = self.held();
                Operation::spawn(async move { Ok(Ended::Lost(held.lost().await.reason)) })
            }
            Phase::Transaction => {
                let held = self.held();
                let path = stage.data_path();
                Operation::spawn(async move {
                    held.transaction()
                        .set_data(path, "new", None)?
                        .commit()
                        .await?;
                    Ok(Ended::Done)
                })
            }
            Phase::ReadToo => {
                let held = self.held();
                Operation::spawn(async move { held.read_too().await.map(Ended::Held) })
            }
            // The downgrade is not reported to the witness, which still records an exclusive hold:
            // the test fails if the writer behind the contender acquires the lock.
            Phase::Downgrade => {
                let held = self.take_held();
                Operation::spawn(async move { held.downgrade().await.map(Ended::Held) })
            }
            Phase::ReEntry => {
                let lock = stage.lock();
                let exit = stage.exit();
                let held = self.held();
                drop(self.held.take());
                Operation::spawn(async move {
                    // The tuple drops `exit` before `held`, even if the future is dropped. So the
                    // witness records the end of the hold before the lock is free.
                    let exit_and_held = (exit, held);
                    let again = lock.enter_again(&exit_and_held.1).await?;
                    assert!(again.is_reentry());
                    again.release().await?;
                    let (exit, held) = exit_and_held;
                    assert!(
                        held.is_valid(),
                        "the release of the second guard has released the lock"
                    );
                    drop(exit);
                    let held = Arc::into_inner(held).expect("no other task has the guard");
                    held.release().await.map(|()| Ended::Done)
                })
            }
            Phase::Release => {
                stage.leave();
                let held = self.take_held();
                Operation::spawn(async move { held.release().await.map(|()| Ended::Done) })
            }
            phase => unreachable!("{} is a phase of a leader latch", phase.name()),
        }
    }

    pub(crate) fn held(&self) -> Arc<Held> {
        self.held.clone().expect("the contender holds the lock")
    }

    fn take_held(&mut self) -> Held {
        self.held
            .take()
            .and_then(Arc::into_inner)
            .expect("the contender holds the lock, and no other task has the guard")
    }

    /// An operation that waits until the janitor has deleted the nodes of a dropped acquire or
    /// guard.
    fn clean_up(&self) -> Operation {
        let janitor = self.stage.actor.janitor().clone();
        Operation::spawn(async move {
            janitor.idle().await;
            Ok(Ended::Done)
        })
    }
}

/// Waits until the phase is complete, for contenders ahead `before` and a lock that had `nodes`
/// nodes when the phase began. A fault can prevent that.
pub(crate) async fn until_phase_ends(
    course: Course,
    stage: &Stage,
    before: &mut VecDeque<Neighbour>,
    nodes: usize,
    operation: &Operation,
) {
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
        // Without a loss, the operation would wait forever.
        Phase::Loss => {}
        _ if course.ends_waiting() => stage.until_nodes(|now| now > nodes).await,
        _ => operation.finished().await,
    }
    stage.settle().await;
}
