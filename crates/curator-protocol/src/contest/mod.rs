//! The acquire protocol of every lock, as a state machine without I/O.

mod claim;
mod entry;
mod plan;
mod step;
#[cfg(test)]
mod tests;
mod wait;

use std::mem;

use uuid::Uuid;

pub use self::claim::LeaseLimit;
use self::claim::{Claim, LEASES};
use self::entry::{Entry, Outcome, Progress};
use self::step::End;
pub use self::step::{Answer, ContestError, Event, Limit, OwnNode, Pace, Request, RestartReason, Step};
use crate::driver::{LockInternalsDriver, Verdict};
use crate::queue::Queue;

/// One contender's way to a lock, from its create to ownership: to the first place in one queue, in several at once, or to
/// the leases of a semaphore.
///
/// Belongs to one session: it must be dropped when the session is lost, and its id never be used again.
///
/// # Several queues
///
/// All the nodes are created in *one* transaction. So any two such contenders stand in the same order in every queue that
/// they share, and cannot wait for each other in a circle, whatever order their queues were named in. That is why
/// nothing here ever creates the node of one queue alone: if one node is lost while the contender waits, all are given up,
/// and it begins anew. A queue that is owned while the contender waits in another has its own node watched.
///
/// # What the runner must keep to
///
/// - The requests of a pipeline go out in order, on one session, and all answers come back in that order. A request whose
///   answer will not come is [`Answer::Unknown`]. Later requests of the session must not overtake it.
/// - All the [`Request::Create`] of a pipeline are one transaction. If it fails for want of a directory, that is the answer
///   to each of them.
/// - Watches are kept by the name of their node, from an [`Answer::Node`] until their event. Several can be in force. A new
///   watch on the leases, or on their limit, takes the place of the last, whatever that has seen.
/// - All watches are on one connection, and when that breaks, none is left: [`Event::Interrupted`]. What was seen before
///   may be given first, in its order, or thrown away. What a watch on the next connection sees comes after it, or is
///   thrown away with the watch; only what it sees of an own node may come before. If the contest is won before it was
///   told, it is the owner that has to look at its nodes anew.
/// - Events wait until the contest waits. When an `AheadDeleted` is at hand, look once more whether an event of an own node
///   has come meanwhile, and give that first: the server has sent them in an order that two separate watchers forget.
///   Keep the other for later. An event that was taken from its watch and not given is a wake-up lost.
/// - Whatever the end, the nodes of [`surplus`](Self::surplus) are to be deleted; and unless it is won, so are those of
///   [`nodes`](Self::nodes), and whatever bears the id in the directories of [`unknown_nodes`](Self::unknown_nodes).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contest {
    /// One for each queue.
    entries: Vec<Entry>,
    /// What the first in the queue of a semaphore goes on with.
    claim: Option<Claim>,
    stage: Stage,
}

/// Which call is next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    New,
    InFlight(Vec<(usize, Request)>),
    Waiting,
    Over,
}

impl Contest {
    /// A contest of the contender `id` in the session `session_id`, for `queues` queues: at least one. Of none it would be
    /// the owner at once.
    #[must_use]
    pub fn new(id: Uuid, session_id: i64, queues: usize) -> Self {
        let entries = (0..queues).map(|_| Entry::new(id, session_id)).collect();
        Self { entries, claim: None, stage: Stage::New }
    }

    /// A contest for so many leases of a semaphore. Directory 0 is that of its queue, directory 1 that of its leases.
    #[must_use]
    pub fn for_leases(id: Uuid, session_id: i64, quantity: usize, limit: LeaseLimit) -> Self {
        Self { claim: Some(Claim::new(id, session_id, quantity, limit)), ..Self::new(id, session_id, 1) }
    }

    /// One that is [refused](Step::Refused) where it would have to wait for somebody.
    #[must_use]
    pub fn without_waiting(mut self) -> Self {
        self.entries.iter_mut().for_each(|entry| entry.waits = false);
        self.claim.iter_mut().for_each(|claim| claim.waits = false);
        self
    }

    /// Begins. To be called once.
    pub fn start(&mut self) -> Step {
        if self.stage != Stage::New {
            return self.misused("started twice");
        }
        self.entries.iter_mut().for_each(Entry::join);
        self.settle()
    }

    /// Takes all the answers to the pipeline in flight, in the order of its requests.
    pub fn answered(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<Answer>) -> Step {
        let Stage::InFlight(requests) = mem::replace(&mut self.stage, Stage::Over) else {
            return self.misused("answers to nothing that was sent");
        };
        if requests.len() != answers.len() {
            return self.misused(&format!("{} answers to {} requests", answers.len(), requests.len()));
        }
        let answers = requests.into_iter().zip(answers);
        if let Some(claim) = self.claim.as_mut().filter(|claim| claim.has_begun()) {
            let outcome = claim.answered(answers.map(|((_, request), answer)| (request, answer)).collect());
            return self.advance([(0, outcome)]);
        }
        let mut by_directory = vec![Vec::new(); self.entries.len() + usize::from(self.claim.is_some())];
        for ((directory, request), answer) in answers {
            by_directory[directory].push((request, answer));
        }
        let mut outcomes = Vec::new();
        if let Some(claim) = &mut self.claim {
            outcomes.push((0, claim.read_early(by_directory.pop().unwrap_or_default())));
        }
        for (queue, (entry, answers)) in self.entries.iter_mut().zip(by_directory).enumerate() {
            if !answers.is_empty() {
                outcomes.push((queue, entry.answered(driver, answers)));
            }
        }
        self.advance(outcomes)
    }

    /// Takes one event, while [`Step::Wait`] is in force.
    pub fn observed(&mut self, event: Event) -> Step {
        if self.stage != Stage::Waiting {
            return self.misused("an event while nothing is waited for");
        }
        if let Some(claim) = self.claim.as_mut().filter(|claim| claim.has_begun()) {
            let outcome = claim.observed(&event);
            return self.advance([(0, outcome)]);
        }
        let queue = match event {
            Event::Interrupted => {
                let outcomes = self.entries.iter_mut().map(|entry| entry.observed(Event::Interrupted));
                let outcomes: Vec<_> = outcomes.enumerate().collect();
                return self.advance(outcomes);
            }
            Event::AheadDeleted { queue, .. } | Event::AheadChanged { queue, .. } => queue,
            Event::OwnDeleted(queue) | Event::OwnChanged(queue) => queue,
            Event::LeasesChanged | Event::LimitChanged => return self.misused("an event of no queue"),
        };
        let Some(entry) = self.entries.get_mut(queue) else { return self.misused("there is no such queue") };
        let outcome = entry.observed(event);
        self.advance([(queue, outcome)])
    }

    /// Our nodes that are known and not known to be gone, each with its queue.
    pub fn nodes(&self) -> impl Iterator<Item = (usize, &OwnNode)> {
        self.entries.iter().enumerate().filter_map(|(queue, entry)| Some((queue, entry.own.as_ref()?)))
    }

    /// The directories in which nodes of ours may exist that [`nodes`](Self::nodes) does not name.
    pub fn unknown_nodes(&self) -> impl Iterator<Item = usize> {
        let is_unknown = |(_, entry): &(usize, &Entry)| entry.may_exist && entry.own.is_none();
        let queues = self.entries.iter().enumerate().filter(is_unknown).map(|(queue, _)| queue);
        queues.chain(self.claim.as_ref().filter(|claim| claim.may_exist()).map(|_| LEASES))
    }

    /// Nodes that are ours beside [`nodes`](Self::nodes), each with its queue. Nobody needs them.
    pub fn surplus(&self) -> impl Iterator<Item = (usize, &str)> {
        let entries = self.entries.iter().enumerate();
        entries.flat_map(|(queue, entry)| entry.surplus.iter().map(move |name| (queue, name.as_str())))
    }

    /// Whether it stands in a queue, and has no more to do than to wait there.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.nodes().next().is_some() && !self.claim.as_ref().is_some_and(Claim::has_begun)
    }

    /// If the contest waits in vain as long as these nodes are there, each given with its directory: the place of one that
    /// it waits for.
    #[must_use]
    pub fn blocked_by(&self, driver: &dyn LockInternalsDriver, stuck: &[(usize, &str)]) -> Option<usize> {
        if let Some(claim) = self.claim.as_ref().filter(|claim| claim.has_begun()) {
            let is_lease = |(directory, name): &(usize, &str)| *directory == LEASES && Claim::is_lease(name);
            let leases = stuck.iter().filter(|node| is_lease(node)).count();
            return stuck.iter().position(is_lease).filter(|_| claim.is_blocked_by(leases));
        }
        let blocks_us = |(directory, name): &(usize, &str)| {
            self.nodes().any(|(queue, own)| queue == *directory && blocks(driver, name, &own.name))
        };
        stuck.iter().position(blocks_us)
    }
}

/// What comes next.
impl Contest {
    fn advance(&mut self, outcomes: impl IntoIterator<Item = (usize, Outcome)>) -> Step {
        let mut is_refused = false;
        for (queue, outcome) in outcomes {
            self.stage = Stage::Over;
            match outcome {
                Ok(()) => {}
                Err(End::Refused) => is_refused = true,
                Err(End::Restart(reason)) => return Step::Restart(reason),
                Err(End::Failed(error)) => return Step::Failed { queue, error },
            }
        }
        if is_refused { Step::Refused } else { self.settle() }
    }

    fn settle(&mut self) -> Step {
        let owned = self.entries.iter().map(Entry::owned).collect::<Option<Vec<_>>>();
        let (requests, pace) = match (owned, &mut self.claim) {
            (None, _) => match self.asks_of_entries() {
                Ok(asks) => asks,
                Err(reason) => return self.over(Step::Restart(reason)),
            },
            (Some(nodes), None) => return self.over(Step::Won(nodes)),
            (Some(mut nodes), Some(claim)) => {
                if let Some(Err(_refused)) = nodes.pop().map(|place| claim.begin(place)) {
                    return self.over(Step::Refused);
                }
                match claim.taken() {
                    Some(leases) => return self.over(Step::Won(leases)),
                    None => claim.take_asks(),
                }
            }
        };
        if requests.is_empty() {
            self.stage = Stage::Waiting;
            return Step::Wait;
        }
        self.stage = Stage::InFlight(requests.clone());
        Step::Send { requests, pace }
    }

    fn over(&mut self, step: Step) -> Step {
        self.stage = Stage::Over;
        step
    }

    /// A call out of turn. It is nobody's queue; the first stands for all.
    fn misused(&mut self, detail: &str) -> Step {
        let detail = detail.to_owned();
        self.over(Step::Failed { queue: 0, error: ContestError::Protocol { detail } })
    }

    /// What all the entries together have to send next, in one pipeline.
    fn asks_of_entries(&mut self) -> Result<(Vec<(usize, Request)>, Pace), RestartReason> {
        let progress: Vec<_> = self.entries.iter().map(Entry::progress).collect();
        let is_any = |wanted| progress.contains(&wanted);
        if is_any(Progress::Entering) && is_any(Progress::Queued) {
            // To create it alone would put us into the queues in an order of our own.
            return Err(RestartReason::NodeMissing);
        }
        let wants_parents = self.entries.iter().any(|entry| entry.asks_for(&Request::CreateParents));
        let (mut requests, mut pace) = (Vec::new(), Pace::Now);
        for (queue, (entry, progress)) in self.entries.iter_mut().zip(&progress).enumerate() {
            // Those that are ready to enter wait for the others.
            let holds_back = *progress == Progress::Entering
                && (is_any(Progress::Finding) || (wants_parents && !entry.asks_for(&Request::CreateParents)));
            if !holds_back {
                let (asks, its_pace) = entry.take_asks();
                if its_pace == Pace::Retry && !asks.is_empty() {
                    pace = Pace::Retry;
                }
                requests.extend(asks.into_iter().map(|request| (queue, request)));
            }
        }
        if let Some(claim) = self.claim.as_ref().filter(|_| requests.contains(&(0, Request::Create))) {
            requests.extend(claim.early_reads());
        }
        // Stable: what one queue has to send stays in its order, which is the same.
        requests.sort_by_key(|(_, request)| match request {
            Request::Create => 0,
            Request::List | Request::Limit => 2,
            _ => 1,
        });
        Ok((requests, pace))
    }
}

/// Whether `own` cannot own the lock as long as `other` is there.
///
/// A queue of the two tells, by what every driver guarantees: if the one does not own it there, it does so in no queue that
/// has both.
fn blocks(driver: &dyn LockInternalsDriver, other: &str, own: &str) -> bool {
    if other == own {
        return false;
    }
    let Ok(queue) = Queue::of([other, own], driver) else { return false };
    let Some(place) = queue.position(own) else { return false };
    queue.len() == 2 && driver.verdict(&queue, place) != Verdict::Owns
}
