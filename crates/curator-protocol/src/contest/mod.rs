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
use self::entry::{Entry, Outcome, State};
use self::step::End;
pub use self::step::{Answer, ContestError, Event, Limit, OwnNode, Pace, Request, Standing, Step};
use crate::driver::{LockInternalsDriver, Verdict};
use crate::queue::Queue;

/// One contender's way to a lock, from its create to ownership: of the first place in one queue, of the first places in
/// several queues at once, or of the leases of a semaphore.
///
/// A contest belongs to one session: it must be dropped when the session is lost, and its id must never be used again.
///
/// # Several queues
///
/// All the nodes are created in *one* transaction. So any two such contenders stand in the same order in every queue
/// that they share, and cannot wait for each other in a circle, whatever order their queues were named in. That is why
/// nothing here ever creates the node of one queue alone: if one node is lost while the contender waits, all of them are
/// given up, and it starts over. When a queue is owned while the contender waits in another, the own node in the owned
/// queue is watched.
///
/// # Requirements for the runner
///
/// - The requests of a pipeline go out in order, on one session, and all answers come back in that order. For a request
///   whose answer will not come, the answer is [`Answer::Unknown`]. Later requests of the session must not overtake it.
/// - All the [`Request::Create`] and [`Request::CreateWithParents`] of a pipeline are one transaction. If it fails for lack
///   of a directory, that is the answer to each of them.
/// - Watches are kept by the name of their node, from an [`Answer::Node`] until their event. Several can be in force. A
///   new watch on the leases, or on their limit, replaces the previous one, whatever that has seen.
/// - All watches are on one connection, and when that breaks, none is left: [`Event::Interrupted`]. Events seen before the
///   break may be reported first, in their order, or thrown away. Events of watches on the next connection are reported
///   later, or thrown away with their watch; only those of an own node may come earlier. If the contest is won before it
///   was told of the break, the owner has to look at its nodes again.
/// - Events wait until the contest waits. Before you report an `AheadDeleted`, check once more whether an event of an
///   own node has arrived in the meantime, and report that first: the server sent them in an order that two separate
///   watchers do not preserve. Keep the other one for later. An event that was taken from its watch and not reported is
///   a lost wake-up.
/// - However the contest ends, delete the nodes of [`surplus`](Self::surplus); and unless it is won, also those of
///   [`nodes`](Self::nodes), and any node with the contest's id in the directories of
///   [`unknown_nodes`](Self::unknown_nodes).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contest {
    /// One for each queue.
    entries: Vec<Entry>,
    /// Takes over when the contender is the first in a semaphore's queue.
    claim: Option<Claim>,
    stage: Stage,
}

/// Which call is expected next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    New,
    InFlight(Vec<(usize, Request)>),
    Waiting,
    Over,
}

impl Contest {
    /// Makes a contest of the contender `id` in the session `session_id`, for `queues` queues: at least one, since a
    /// contest for none would be won at once.
    #[must_use]
    pub fn new(id: Uuid, session_id: i64, queues: usize) -> Self {
        let entries = (0..queues).map(|_| Entry::new(id, session_id)).collect();
        Self { entries, claim: None, stage: Stage::New }
    }

    /// Makes a contest for `quantity` leases of a semaphore. Directory 0 is that of its queue, directory 1 that of its
    /// leases.
    #[must_use]
    pub fn for_leases(id: Uuid, session_id: i64, quantity: usize, limit: LeaseLimit) -> Self {
        Self { claim: Some(Claim::new(id, session_id, quantity, limit)), ..Self::new(id, session_id, 1) }
    }

    /// Makes this contest end with [`Step::Refused`] where it would have to wait for others.
    #[must_use]
    pub fn without_waiting(mut self) -> Self {
        self.entries.iter_mut().for_each(|entry| entry.waits = false);
        self.claim.iter_mut().for_each(|claim| claim.waits = false);
        self
    }

    /// Starts the contest. Call this once.
    pub fn start(&mut self) -> Step {
        if self.stage != Stage::New {
            return self.misused("started twice");
        }
        let outcomes: Vec<_> = self.entries.iter_mut().map(Entry::join).enumerate().collect();
        self.advance(outcomes)
    }

    /// Takes all the answers to the pipeline in flight, in the order of its requests.
    pub fn answered(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<Answer>) -> Step {
        let Stage::InFlight(requests) = mem::replace(&mut self.stage, Stage::Over) else {
            return self.misused("answers without requests");
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
            return self.misused("an event while not waiting");
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
            Event::LeasesChanged | Event::LimitChanged => return self.misused("an event that belongs to no queue"),
        };
        let Some(entry) = self.entries.get_mut(queue) else { return self.misused("there is no such queue") };
        let outcome = entry.observed(event);
        self.advance([(queue, outcome)])
    }

    /// Our nodes that are known, and not known to be gone, each with its queue.
    pub fn nodes(&self) -> impl Iterator<Item = (usize, &OwnNode)> {
        self.entries.iter().enumerate().filter_map(|(queue, entry)| Some((queue, entry.own.as_ref()?)))
    }

    /// Where the contest waits, during [`Step::Wait`]: in the first queue that it does not own yet.
    #[must_use]
    pub fn standing(&self) -> Option<Standing<'_>> {
        self.entries.iter().enumerate().find_map(|(queue, entry)| match (&entry.state, &entry.own) {
            (State::Waiting { plan }, Some(own)) => {
                Some(Standing { queue, own: &own.name, place: entry.place, behind: plan.nearest() })
            }
            _ => None,
        })
    }

    /// The directories in which nodes of ours may exist that are not in [`nodes`](Self::nodes).
    pub fn unknown_nodes(&self) -> impl Iterator<Item = usize> {
        let is_unknown = |(_, entry): &(usize, &Entry)| entry.may_exist && entry.own.is_none();
        let queues = self.entries.iter().enumerate().filter(is_unknown).map(|(queue, _)| queue);
        queues.chain(self.claim.as_ref().filter(|claim| claim.may_exist()).map(|_| LEASES))
    }

    /// Other nodes of ours, apart from [`nodes`](Self::nodes), each with its queue. They are of no use.
    pub fn surplus(&self) -> impl Iterator<Item = (usize, &str)> {
        let entries = self.entries.iter().enumerate();
        entries.flat_map(|(queue, entry)| entry.surplus.iter().map(move |name| (queue, name.as_str())))
    }

    /// Whether it stands in a queue, and has nothing left to do there but wait.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.nodes().next().is_some() && !self.claim.as_ref().is_some_and(Claim::has_begun)
    }

    /// If the contest waits in vain as long as these nodes exist, or would if it was started now, each given with its
    /// directory: the index of one that it waits for.
    #[must_use]
    pub fn blocked_by(&self, driver: &dyn LockInternalsDriver, stuck: &[(usize, &str)]) -> Option<usize> {
        let is_new = self.stage == Stage::New;
        if let Some(claim) = self.claim.as_ref().filter(|claim| is_new || claim.has_begun()) {
            let is_lease = |(directory, name): &(usize, &str)| *directory == LEASES && Claim::is_lease(name);
            let leases = stuck.iter().filter(|node| is_lease(node)).count();
            let blocking = stuck.iter().position(is_lease).filter(|_| claim.is_blocked_by(leases));
            if blocking.is_some() || !is_new {
                return blocking;
            }
        }
        let blocks_us = |(directory, name): &(usize, &str)| match self.entries.get(*directory) {
            Some(Entry { own: Some(own), .. }) => blocks(driver, name, &own.name),
            // Its place is after all others.
            Some(Entry { id, .. }) if is_new => {
                blocks(driver, name, &format!("{}{:010}", driver.node_prefix(id), i32::MAX - 1))
            }
            _ => false,
        };
        stuck.iter().position(blocks_us)
    }
}

/// Choosing the next step.
impl Contest {
    fn advance(&mut self, outcomes: impl IntoIterator<Item = (usize, Outcome)>) -> Step {
        let mut is_refused = false;
        for (queue, outcome) in outcomes {
            self.stage = Stage::Over;
            match outcome {
                Ok(()) => {}
                Err(End::Refused) => is_refused = true,
                Err(End::Restart) => return Step::Restart,
                Err(End::Failed(error)) => return Step::Failed { queue, error },
            }
        }
        if is_refused { Step::Refused } else { self.settle() }
    }

    fn settle(&mut self) -> Step {
        let owned = self.entries.iter().map(Entry::owned).collect::<Option<Vec<_>>>();
        let (requests, pace) = match (owned, &mut self.claim) {
            (None, _) => match self.pending_of_entries() {
                Some(pending) => pending,
                None => return self.over(Step::Restart),
            },
            (Some(nodes), None) => return self.over(Step::Won(nodes)),
            (Some(mut nodes), Some(claim)) => {
                if let Some(Err(_refused)) = nodes.pop().map(|place| claim.begin(place)) {
                    return self.over(Step::Refused);
                }
                match claim.taken() {
                    Some(leases) => return self.over(Step::Won(leases)),
                    None => claim.take_pending(),
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

    /// A call out of turn. It concerns no queue in particular; the first stands for all.
    fn misused(&mut self, detail: &str) -> Step {
        let detail = detail.to_owned();
        self.over(Step::Failed { queue: 0, error: ContestError::Protocol { detail } })
    }

    /// The requests of all entries that have to be sent next, in one pipeline. `None` if one of several nodes is gone.
    fn pending_of_entries(&mut self) -> Option<(Vec<(usize, Request)>, Pace)> {
        let enters = |entry: &Entry| entry.state == State::Joining;
        let finds = |entry: &Entry| matches!(entry.state, State::Recovering | State::Identifying { .. });
        if self.entries.iter().any(enters) && self.entries.iter().any(|entry| entry.own.is_some()) {
            // Creating it alone would give us different places in the queues.
            return None;
        }
        let is_finding = self.entries.iter().any(finds);
        let (mut requests, mut pace) = (Vec::new(), Pace::Now);
        for (queue, entry) in self.entries.iter_mut().enumerate() {
            // Entries that are ready to enter wait for those that look for their node.
            if !(is_finding && enters(entry)) {
                let (pending, its_pace) = entry.take_pending();
                if its_pace == Pace::Retry && !pending.is_empty() {
                    pace = Pace::Retry;
                }
                requests.extend(pending.into_iter().map(|request| (queue, request)));
            }
        }
        if let Some(claim) = self.claim.as_ref().filter(|_| requests.iter().any(|(_, request)| request.is_create())) {
            requests.extend(claim.early_reads());
        }
        // Stable: within each class the requests keep their order. `Contender::send` relies on the classes.
        requests.sort_by_key(|(_, request)| match request {
            Request::Create | Request::CreateWithParents => 0,
            Request::List | Request::Limit => 2,
            _ => 1,
        });
        Some((requests, pace))
    }
}

/// Whether `own` cannot own the lock as long as `other` exists.
///
/// A queue of just these two is enough to tell, by the guarantees of every driver: if `own` does not own the lock there,
/// it does not own it in any queue that contains both.
fn blocks(driver: &dyn LockInternalsDriver, other: &str, own: &str) -> bool {
    if other == own {
        return false;
    }
    let Ok(queue) = Queue::of([other, own], driver) else { return false };
    let Some(place) = queue.position(own) else { return false };
    queue.len() == 2 && driver.verdict(&queue, place) != Verdict::Owns
}
