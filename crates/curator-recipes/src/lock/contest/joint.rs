//! Several queues at once: entered together, and owned together.

mod lane;
#[cfg(test)]
mod tests;

use self::lane::{Broken, Lane, Progress};
use super::step::{Answer, ContestError, Event, OwnNode, Pace, Request, RestartReason};
use crate::lock::driver::{ContenderId, LockInternalsDriver};

/// One contender's way to several locks at once. With one queue it is a [`Contest`](super::Contest) and nothing more.
///
/// All the nodes are created in *one* transaction. So any two such contenders stand in the same order in every queue that
/// they share, and cannot wait for each other in a circle, whatever order their queues were named in. That is why
/// nothing here ever creates the node of one queue alone: if one node is lost while the contender waits, all are given up,
/// and it begins anew.
///
/// A queue that is owned while the contender waits in another has its own node watched.
///
/// # What the shell must keep to
///
/// What [`Contest`](super::Contest) says, for each queue; and:
///
/// - All the [`Request::Create`] of a flight are one transaction. If it fails for want of a directory, that is the answer
///   to each of them.
/// - If the contest begins anew, the nodes of *all* queues that may exist are to be deleted, as after a cancel.
/// - Own nodes of all queues come before nodes ahead when events are given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JointContest {
    lanes: Vec<Lane>,
    stage: Stage,
}

/// Which call is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    New,
    Flying,
    Waiting,
    Over,
}

/// What the shell does next. As [`Step`](super::Step), with the number of the queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "the contest does not go on by itself"]
pub enum JointStep {
    /// Send one flight; then give all the answers at once.
    Send {
        /// The requests, each with its queue; those of one queue in the order in which the server must see them.
        requests: Vec<(usize, Request)>,
        /// Whether to ask the retry policy first.
        pace: Pace,
    },
    /// Wait for an event of one of the watches.
    Wait,
    /// All the locks are ours: the nodes, in the order of the queues.
    Owned(Vec<OwnNode>),
    /// A node of ours is gone: begin a new contest with a new id, if the retry policy allows it.
    Restart(RestartReason),
    /// It cannot go on.
    Failed {
        /// The queue that it cannot go on in.
        queue: usize,
        /// Why.
        error: ContestError,
    },
}

impl JointContest {
    /// A contest of the contender `id` in the session `session_id`, for `queues` queues: at least one. Of none it would be
    /// the owner at once.
    #[must_use]
    pub fn new(id: ContenderId, session_id: i64, queues: usize) -> Self {
        Self { lanes: (0..queues).map(|_| Lane::new(id, session_id)).collect(), stage: Stage::New }
    }

    /// Begins. To be called once.
    pub fn start(&mut self, driver: &dyn LockInternalsDriver) -> JointStep {
        if self.stage != Stage::New {
            return self.misused("started twice");
        }
        self.advance(|lane| lane.start(driver))
    }

    /// Takes all the answers to the flight in the air, in the order of its requests.
    pub fn answered(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<(usize, Answer)>) -> JointStep {
        if self.stage != Stage::Flying {
            return self.misused("answers without a flight");
        }
        let mut by_lane = vec![Vec::new(); self.lanes.len()];
        for (queue, answer) in answers {
            match by_lane.get_mut(queue) {
                Some(answers) => answers.push(answer),
                None => return self.broken(queue, "there is no such queue"),
            }
        }
        let mut by_lane = by_lane.into_iter();
        self.advance(|lane| lane.answered(driver, by_lane.next().unwrap_or_default()))
    }

    /// Takes one event of one queue, while [`JointStep::Wait`] is in force.
    pub fn observed(&mut self, driver: &dyn LockInternalsDriver, queue: usize, event: Event) -> JointStep {
        if self.stage != Stage::Waiting {
            return self.misused("an event while nothing is waited for");
        }
        if queue >= self.lanes.len() {
            return self.broken(queue, "there is no such queue");
        }
        let (mut index, mut event) = (0, Some(event));
        self.advance(|lane| {
            let is_meant = index == queue;
            index += 1;
            match event.take_if(|_| is_meant) {
                Some(event) => lane.observed(driver, event),
                None => Ok(()),
            }
        })
    }

    /// Our nodes that are known and not known to be gone, each with its queue.
    pub fn nodes(&self) -> impl Iterator<Item = (usize, &OwnNode)> {
        self.lanes.iter().enumerate().filter_map(|(queue, lane)| Some((queue, lane.contest().node()?)))
    }

    /// Whether nodes of ours may exist that [`nodes`](Self::nodes) does not name.
    #[must_use]
    pub fn may_have_unknown_nodes(&self) -> bool {
        self.lanes.iter().any(|lane| lane.contest().may_exist() && lane.contest().node().is_none())
    }

    /// Nodes that are ours beside [`nodes`](Self::nodes), each with its queue. Nobody needs them; the shell deletes them.
    pub fn surplus(&self) -> impl Iterator<Item = (usize, &str)> {
        let lanes = self.lanes.iter().enumerate();
        lanes.flat_map(|(queue, lane)| lane.contest().surplus().iter().map(move |name| (queue, name.as_str())))
    }

    fn advance(&mut self, each: impl FnMut(&mut Lane) -> Result<(), Broken>) -> JointStep {
        let step = self.next_step(each);
        self.stage = match step {
            JointStep::Send { .. } => Stage::Flying,
            JointStep::Wait => Stage::Waiting,
            JointStep::Owned(_) | JointStep::Restart(_) | JointStep::Failed { .. } => Stage::Over,
        };
        step
    }

    fn next_step(&mut self, mut each: impl FnMut(&mut Lane) -> Result<(), Broken>) -> JointStep {
        for (queue, lane) in self.lanes.iter_mut().enumerate() {
            match each(lane) {
                Ok(()) => {}
                Err(Broken::Restart(reason)) => return JointStep::Restart(reason),
                Err(Broken::Failed(error)) => return JointStep::Failed { queue, error },
            }
        }
        self.settle()
    }

    /// A call out of turn. It is nobody's queue; the first stands for all.
    fn misused(&mut self, detail: &str) -> JointStep {
        self.broken(0, detail)
    }

    fn broken(&mut self, queue: usize, detail: &str) -> JointStep {
        self.stage = Stage::Over;
        JointStep::Failed { queue, error: ContestError::protocol(detail) }
    }

    /// What all lanes together have to do next.
    fn settle(&mut self) -> JointStep {
        if let Some(nodes) = self.lanes.iter().map(Lane::owned).collect() {
            return JointStep::Owned(nodes);
        }
        let progress = self.lanes.iter().map(Lane::progress).collect::<Vec<_>>();
        let is_any = |wanted| progress.contains(&wanted);
        if is_any(Progress::Entering) && is_any(Progress::Queued) {
            // To create it alone would put us into the queues in an order of our own.
            return JointStep::Restart(RestartReason::NodeMissing);
        }
        let wants_parents = self.lanes.iter().any(|lane| lane.asks_for(&Request::CreateParents));
        let (mut sent, mut sent_pace) = (Vec::new(), Pace::Now);
        for (queue, (lane, progress)) in self.lanes.iter_mut().zip(&progress).enumerate() {
            // Those that are ready to enter wait for the others.
            let holds_back = *progress == Progress::Entering
                && (is_any(Progress::Finding) || (wants_parents && !lane.asks_for(&Request::CreateParents)));
            if !holds_back && let Some((requests, pace)) = lane.send() {
                sent.extend(requests.into_iter().map(|request| (queue, request)));
                if pace == Pace::Retry {
                    sent_pace = pace;
                }
            }
        }
        if sent.is_empty() { JointStep::Wait } else { JointStep::Send { requests: sent, pace: sent_pace } }
    }
}
