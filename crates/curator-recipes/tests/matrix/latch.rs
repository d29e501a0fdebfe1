//! Runs one cell of a leader latch: a course with or without a fault.

use curator_recipes::{Error, LeaderLatch, Result};
use futures_util::future::select_all;
use tokio::time::Instant;

use super::cells::Cell;
use super::fault::Fault;
use super::operation::{Ended, Operation};
use super::phase::{Course, Phase};
use super::run::{Finished, arm, struck, within_bound};
use super::stage::{ACTOR, BEHIND, Stage};
use super::terms::{Participant, Terms};
use super::world::{World, network};
use crate::support::path;

/// A participant and its neighbours, at the beginning of a phase and from then on.
struct Scene {
    course: Course,
    stage: Stage,
    terms: Terms,
    before: Vec<Participant>,
    /// The participant that the fault strikes, from its join until it leaves for good.
    actor: Option<Participant>,
    behind: Option<Participant>,
    /// The number of nodes when the phase begins.
    nodes: usize,
}

/// Runs a course, with or without a fault. Returns `None` if the request of the strike was not
/// sent.
///
/// # Panics
///
/// If the outcome is wrong.
pub(crate) async fn run(world: World, cell: Cell) -> Option<Finished> {
    let Cell { course, strike, .. } = cell;
    let mut scene = Scene::set(Stage::open(world, course.kind).await, course).await;
    arm(cell, &scene.stage);
    let mut operation = scene.begin();
    let is_struck = within_bound(
        Instant::now(),
        "the phase has not ended",
        struck(cell, &scene.stage, scene.until_phase_ends(&operation)),
    )
    .await;
    if !is_struck {
        return None;
    }
    let requests = scene.stage.requests();
    let fault = strike.map(|strike| strike.fault);
    let begun = Instant::now();
    let outcome = within_bound(
        begun,
        "the operation has not ended",
        scene.complete_fault(fault, &mut operation),
    )
    .await;
    drop(operation);
    within_bound(begun, "not every participant has led", scene.lead_in_turn()).await;
    let took = begun.elapsed();
    within_bound(
        begun,
        "a node or pending work is left",
        scene.stage.check_nothing_is_left(),
    )
    .await;
    within_bound(begun, "the path is not free", scene.stage.check_free()).await;
    scene.stage.close(strike).await;
    Some(Finished {
        outcome,
        requests,
        took,
    })
}

impl Scene {
    /// Sets up the participant and its neighbours as they are at the beginning of the phase.
    async fn set(stage: Stage, course: Course) -> Self {
        let Course {
            phase, position, ..
        } = course;
        let mut scene = Self {
            course,
            stage,
            terms: Terms::default(),
            before: Vec::new(),
            actor: None,
            behind: None,
            nodes: 0,
        };
        for nth in 0..position.before() {
            let participant = scene.line_up(nth).await;
            if nth == 0 {
                participant.leads().await;
            }
            scene.before.push(participant);
        }
        if phase != Phase::Join {
            let actor = scene.line_up(ACTOR).await;
            if phase.begins_holding() {
                for participant in std::mem::take(&mut scene.before) {
                    participant.latch.close().await.unwrap();
                }
                actor.leads().await;
            }
            scene.actor = Some(actor);
            scene.stage.settle().await;
            if position.has_one_behind() {
                scene.behind = Some(scene.line_up(BEHIND).await);
            }
        }
        // When the phase begins, no earlier request is in flight.
        scene.stage.settle().await;
        scene.nodes = scene.stage.nodes().await;
        scene
    }

    /// Starts another participant, with this number.
    fn start(&self, who: usize) -> Participant {
        let client = if who == ACTOR {
            &self.stage.actor
        } else {
            &self.stage.others
        };
        let latch = LeaderLatch::builder(client, self.stage.path())
            .unwrap()
            .id(who.to_string())
            .start();
        Participant::new(who, latch, &self.terms)
    }

    /// Starts a participant, and returns when it is queued.
    async fn line_up(&self, who: usize) -> Participant {
        let before = self.stage.nodes().await;
        let participant = self.start(who);
        self.stage.until_nodes(|nodes| nodes > before).await;
        participant
    }

    /// Begins the phase.
    fn begin(&mut self) -> Operation {
        let phase = self.course.phase;
        let latch = if phase == Phase::Join {
            let actor = self.start(ACTOR);
            self.actor.insert(actor).latch.clone()
        } else {
            self.latch().clone()
        };
        Operation::spawn(async move {
            match phase {
                Phase::Join | Phase::TakeOver => drop(latch.leadership().await?),
                Phase::Resign => latch.resign().await?,
                Phase::StandAside | Phase::StandAsideWaiting => latch.stand_aside().await?,
                Phase::Close | Phase::CloseWaiting => latch.close().await?,
                phase => unreachable!("{} is not a phase of a leader latch", phase.name()),
            }
            Ok(Ended::Done)
        })
    }

    fn latch(&self) -> &LeaderLatch {
        &self.actor.as_ref().expect("the participant exists").latch
    }

    /// Waits until the phase is complete. A fault can prevent that.
    async fn until_phase_ends(&self, operation: &Operation) {
        if self.course.ends_waiting() {
            self.stage.until_nodes(|now| now > self.nodes).await;
        } else {
            if self.course.phase == Phase::TakeOver {
                for (nth, first) in self.before.iter().enumerate() {
                    first.latch.close().await.unwrap();
                    if let Some(next) = self.before.get(nth + 1) {
                        next.latch.leadership().await.unwrap();
                        self.stage.settle().await;
                    }
                }
            }
            operation.finished().await;
        }
        if self.course.phase == Phase::Resign {
            // The participant joins again.
            self.stage.until_nodes(|now| now == self.nodes).await;
        }
        self.stage.settle().await;
    }

    /// Completes the fault, and waits until the operation ends and has taken effect. Returns the
    /// outcome.
    async fn complete_fault(
        &mut self,
        fault: Option<Fault>,
        operation: &mut Operation,
    ) -> &'static str {
        let Course {
            phase, position, ..
        } = self.course;
        if self.behind.is_none() && position.has_one_behind() {
            self.behind = Some(self.start(BEHIND));
        }
        let is_dropped = fault == Some(Fault::Dropped);
        match fault {
            Some(Fault::Expired) => self.end_session().await,
            Some(Fault::Dropped) => {
                operation.cancel().await;
                if matches!(phase, Phase::Join | Phase::TakeOver) {
                    self.actor = None;
                }
                network!(self.stage.world, network => network.release_held());
            }
            _ => {}
        }
        if self.course.ends_waiting() && !is_dropped && fault.is_some() {
            self.stage.recover(fault == Some(Fault::Lost)).await;
            assert!(
                !self.latch().has_leadership(),
                "the participant leads before the participants ahead of it"
            );
        }
        let outcome = match phase {
            Phase::Join | Phase::TakeOver => {
                if is_dropped {
                    "dropped"
                } else {
                    "leads"
                }
            }
            // The latch still carries out the command.
            _ if is_dropped => "done, and not waited for",
            _ => self.check_outcome(operation.join().await).await,
        };
        match phase {
            Phase::StandAside | Phase::StandAsideWaiting => {
                self.until_left().await;
                assert!(!self.latch().has_leadership());
                self.latch().stand_by();
            }
            Phase::Close | Phase::CloseWaiting => {
                self.until_left().await;
                let again = self.latch().leadership().await;
                assert!(
                    matches!(again, Err(Error::RecipeClosed { .. })),
                    "{again:?}"
                );
                self.actor = None;
            }
            _ => {}
        }
        self.terms.check();
        outcome
    }

    /// Ends the session of the participant on the server. The terms of that session no longer
    /// count, even before the participant notices the end.
    async fn end_session(&self) {
        self.terms.end(ACTOR, i64::MAX);
        self.stage.end_session_unnoticed().await;
        let written = path("after-the-end");
        self.stage
            .others
            .create()
            .for_path(&written, "")
            .await
            .unwrap();
        let stat = self
            .stage
            .others
            .check_exists(&written)
            .await
            .unwrap()
            .unwrap();
        self.terms.end(ACTOR, stat.czxid);
        network!(self.stage.world, network => network.release_held());
    }

    /// Checks that a command that has returned was carried out.
    async fn check_outcome(&self, result: Result<Ended>) -> &'static str {
        let phase = self.course.phase;
        match result {
            Ok(Ended::Done) => {}
            // `close` has timed out: the delete continues in the background.
            Err(Error::ReleasePending { .. })
                if matches!(phase, Phase::Close | Phase::CloseWaiting) =>
            {
                return "pending";
            }
            result => panic!("{result:?}"),
        }
        if phase == Phase::Resign {
            "joins again"
        } else {
            // The node is gone when the command returns.
            assert_eq!(self.stage.nodes().await, self.nodes - 1);
            "gone"
        }
    }

    /// Waits until the participant's node is deleted.
    async fn until_left(&self) {
        self.stage.until_nodes(|now| now == self.nodes - 1).await;
    }

    /// Lets all participants lead one after another, and leave for good.
    async fn lead_in_turn(&mut self) {
        let all = std::mem::take(&mut self.before)
            .into_iter()
            .chain(self.actor.take())
            .chain(self.behind.take());
        let mut all: Vec<_> = all.collect();
        let mut last = None;
        while !all.is_empty() {
            let (term, first, _) = select_all(
                all.iter()
                    .map(|participant| Box::pin(participant.latch.leadership())),
            )
            .await;
            let is_leaving = self.course.phase == Phase::TakeOver && all[first].who != ACTOR;
            let term = match term {
                Ok(term) => term,
                // This participant was leaving when the fault struck.
                Err(Error::RecipeClosed { .. }) if is_leaving => {
                    all.remove(first);
                    continue;
                }
                Err(error) => panic!("participant {}: {error}", all[first].who),
            };
            if self.terms.has_ended(all[first].who, &term) {
                term.lost().await;
                continue;
            }
            self.terms.check();
            let token = term.fencing_token();
            assert!(last < Some(token), "{token} after {last:?}");
            last = Some(token);
            let leader = all.remove(first);
            self.stage.make_round_trips().await;
            assert!(
                leader.latch.has_leadership(),
                "the term was lost without a reason"
            );
            // A participant whose session was ended on the server leads until it notices the end.
            let mut others = all
                .iter()
                .filter(|other| !self.terms.has_ended_session(other.who));
            assert!(
                !others.any(|other| other.latch.has_leadership()) || !term.is_valid(),
                "two leaders"
            );
            leader.latch.close().await.unwrap();
            assert!(!term.is_valid());
            assert!(
                self.stage
                    .others
                    .check_exists(term.node())
                    .await
                    .unwrap()
                    .is_none(),
                "the node of a closed latch is left"
            );
        }
        self.terms.check();
    }
}
