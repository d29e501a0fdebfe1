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
pub use self::step::{
    Answer, ContestError, Event, Leftover, Limit, OwnNode, Pace, Request, Standing, Step,
};
use crate::driver::{LockInternalsDriver, Verdict};
use crate::queue::Queue;

/// One contender's acquire, from the create of its node to ownership: of one queue, of several
/// queues together, or of leases of a semaphore.
///
/// A contest belongs to one session. Drop it when the session is lost, and never use its id again.
///
/// # Several queues
///
/// All nodes are created in *one* transaction. So any two such contenders have the same order in
/// every queue that they share, and cannot deadlock, in whatever order they name their queues. For
/// the same reason no node is created alone: if one is deleted while the contender waits, the
/// contender abandons all of them and starts over. While a contender owns one queue and waits in
/// another, it watches its node in the owned queue.
///
/// # Requirements for the runner
///
/// - The requests of a pipeline go out in order, on one session, and all answers are reported in
///   that order. A request whose answer is lost has the answer [`Answer::Unknown`]. Later requests
///   of the session must not overtake it.
/// - All [`Request::Create`] and [`Request::CreateWithParents`] of a pipeline are one transaction.
///   If it fails because a directory is missing, or was created meanwhile, the answer to each of
///   them is [`Answer::NoParent`]. After such an answer to `CreateWithParents`, look up again which
///   directories are missing before the next attempt.
/// - Keep each watch under the name of its node, from its [`Answer::Node`] until its event. Several
///   watches can be in force. A new watch on the leases, or on their limit, replaces the previous
///   one and its event.
/// - All watches are on one connection. When it breaks, all of them are lost, and the runner
///   reports [`Event::Interrupted`]. Events from before the break may be reported first, in their
///   order, or dropped. Events of watches on the next connection are reported after `Interrupted`,
///   or dropped with their watch; only events of the contest's own nodes may be reported earlier.
///   If the contest is won before the break is reported, the owner must read its nodes again.
/// - Queue events until the contest waits. Before reporting an `AheadDeleted`, check once more for
///   an event of the contest's own nodes, and report that first: two separate watchers do not
///   preserve the order in which the server sent them. Keep the `AheadDeleted` for later. An event
///   that is taken from its watch and not reported is a lost wake-up.
/// - Call [`sent`](Self::sent) before the first request of a pipeline is written. When the contest
///   ends, for whatever reason and even in the middle of a pipeline, delete its
///   [`leftovers`](Self::leftovers).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contest {
    /// One per queue.
    entries: Vec<Entry>,
    /// Takes over when the contender is first in the semaphore's queue.
    claim: Option<Claim>,
    stage: Stage,
}

/// Which call is expected next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    New,
    /// The requests of this pipeline have not been sent yet.
    Ready(Vec<(usize, Request)>),
    InFlight(Vec<(usize, Request)>),
    Waiting,
    Ended,
    /// Won, and the nodes belong to the caller.
    HandedOver,
}

impl Contest {
    /// A contest of the contender `id` in the session `session_id`, for `queues` queues: at least
    /// one, because a contest for none is won immediately.
    #[must_use]
    pub fn new(id: Uuid, session_id: i64, queues: usize) -> Self {
        let entries = (0..queues).map(|_| Entry::new(id, session_id)).collect();
        Self {
            entries,
            claim: None,
            stage: Stage::New,
        }
    }

    /// A contest for `quantity` leases of a semaphore. Directory 0 contains its queue, directory 1
    /// its leases.
    #[must_use]
    pub fn for_leases(id: Uuid, session_id: i64, quantity: usize, limit: LeaseLimit) -> Self {
        Self {
            claim: Some(Claim::new(id, session_id, quantity, limit)),
            ..Self::new(id, session_id, 1)
        }
    }

    /// The contest ends with [`Step::Refused`] instead of waiting for other contenders.
    ///
    /// A contender for leases passes through the queue even if a lease is free for each contender.
    /// So a contest for leases is refused only once a list shows too few leases. While enough are
    /// left, it waits for the contenders ahead, each of which takes leases or leaves the queue. The
    /// runner has to bound this wait: a contender ahead may be suspended, or wait for more leases
    /// than are left.
    #[must_use]
    pub fn without_waiting(mut self) -> Self {
        match &mut self.claim {
            Some(claim) => {
                claim.waits = false;
                for entry in &mut self.entries {
                    entry.spare = Some(usize::MAX);
                }
            }
            None => {
                for entry in &mut self.entries {
                    entry.waits = false;
                }
            }
        }
        self
    }

    /// Starts the contest. Call it once.
    pub fn start(&mut self) -> Step {
        if self.stage != Stage::New {
            return self.misused("started twice");
        }
        let outcomes: Vec<_> = self
            .entries
            .iter_mut()
            .map(Entry::join)
            .enumerate()
            .collect();
        self.advance(outcomes)
    }

    /// Records that the requests of the last [`Step::Send`] are sent now. From here on,
    /// [`leftovers`](Self::leftovers) includes what they may create.
    pub fn sent(&mut self) {
        let Stage::Ready(requests) = &mut self.stage else {
            return;
        };
        let requests = mem::take(requests);
        for (directory, request) in &requests {
            match request {
                Request::Create | Request::CreateWithParents => {
                    self.entries[*directory].may_exist = true;
                }
                Request::Take { .. } => {
                    if let Some(claim) = &mut self.claim {
                        claim.may_exist = true;
                    }
                }
                _ => {}
            }
        }
        self.stage = Stage::InFlight(requests);
    }

    /// Records that the server has denied the create that is in flight in this directory, so that
    /// it has created nothing. The contest cannot continue.
    pub fn denied(&mut self, directory: usize) {
        if let Some(entry) = self.entries.get_mut(directory) {
            entry.may_exist = false;
        } else if let Some(claim) = &mut self.claim {
            claim.may_exist = false;
        }
    }

    /// Takes all answers to the pipeline in flight, in the order of its requests.
    pub fn answered(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<Answer>) -> Step {
        let Stage::InFlight(requests) = mem::replace(&mut self.stage, Stage::Ended) else {
            return self.misused("answers without requests");
        };
        if requests.len() != answers.len() {
            return self.misused(&format!(
                "{} answers to {} requests",
                answers.len(),
                requests.len()
            ));
        }
        let answers = requests.into_iter().zip(answers);
        if let Some(claim) = self.claim.as_mut().filter(|claim| claim.has_begun()) {
            let outcome = claim.answered(
                answers
                    .map(|((_, request), answer)| (request, answer))
                    .collect(),
            );
            return self.advance([(0, outcome)]);
        }
        let mut by_directory =
            vec![Vec::new(); self.entries.len() + usize::from(self.claim.is_some())];
        for ((directory, request), answer) in answers {
            by_directory[directory].push((request, answer));
        }
        let mut outcomes = Vec::new();
        if let Some(claim) = &mut self.claim {
            outcomes.push((0, claim.read_early(by_directory.pop().unwrap_or_default())));
            match claim.spare() {
                Ok(spare) => {
                    for entry in &mut self.entries {
                        entry.spare = spare;
                    }
                }
                Err(refused) => outcomes.push((0, Err(refused))),
            }
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
                let outcomes: Vec<_> = self
                    .entries
                    .iter_mut()
                    .map(|entry| entry.observed(Event::Interrupted))
                    .enumerate()
                    .collect();
                return self.advance(outcomes);
            }
            Event::AheadDeleted { queue, .. } | Event::AheadChanged { queue, .. } => queue,
            Event::OwnDeleted(queue) | Event::OwnChanged(queue) => queue,
            Event::LeasesChanged | Event::LimitChanged => {
                return self.misused("an event that belongs to no queue");
            }
        };
        let Some(entry) = self.entries.get_mut(queue) else {
            return self.misused("there is no such queue");
        };
        let outcome = entry.observed(event);
        self.advance([(queue, outcome)])
    }

    /// Our nodes in the queues, each with its queue: all whose names are known, except nodes that
    /// are known to be deleted.
    pub fn nodes(&self) -> impl Iterator<Item = (usize, &OwnNode)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(queue, entry)| Some((queue, entry.own.as_ref()?)))
    }

    /// Where the contest waits, during [`Step::Wait`]: in the first queue that it does not own yet.
    #[must_use]
    pub fn standing(&self) -> Option<Standing<'_>> {
        self.entries.iter().enumerate().find_map(|(queue, entry)| {
            match (&entry.state, &entry.own) {
                (State::Waiting { plan }, Some(own)) => Some(Standing {
                    queue,
                    own: &own.name,
                    place: entry.place,
                    behind: plan.nearest(),
                }),
                _ => None,
            }
        })
    }

    /// What the contest leaves behind if it ends now: its nodes, and the directories where it
    /// may have others. After [`hand_over`](Self::hand_over), without the nodes that it has won.
    pub fn leftovers(&self) -> impl Iterator<Item = Leftover<'_>> {
        let mut leftovers = Vec::new();
        if self.stage != Stage::HandedOver {
            for (directory, node) in self.nodes() {
                let name = &node.name;
                leftovers.push(Leftover::Node { directory, name });
            }
            for lease in self.claim.iter().filter_map(Claim::taken).flatten() {
                leftovers.push(Leftover::Node {
                    directory: LEASES,
                    name: &lease.name,
                });
            }
        }
        for (directory, entry) in self.entries.iter().enumerate() {
            for name in &entry.surplus {
                leftovers.push(Leftover::Node { directory, name });
            }
        }
        for (directory, entry) in self.entries.iter().enumerate() {
            if entry.may_exist {
                leftovers.push(Leftover::Unknown { directory });
            }
        }
        if self.claim.as_ref().is_some_and(|claim| claim.may_exist) {
            leftovers.push(Leftover::Unknown { directory: LEASES });
        }
        leftovers.into_iter()
    }

    /// Records that the won nodes now belong to the caller, which has to delete them.
    pub fn hand_over(&mut self) {
        self.stage = Stage::HandedOver;
    }

    /// Whether the contest has a node in a queue, and is not taking leases yet.
    #[must_use]
    pub fn is_queued(&self) -> bool {
        self.nodes().next().is_some() && !self.claim.as_ref().is_some_and(Claim::has_begun)
    }

    /// The index in `stuck` of a node that blocks the contest: as long as all nodes in `stuck`
    /// exist, the contest cannot be won. Each node is given with its directory. A contest that has
    /// not been started is treated as if it were started now.
    #[must_use]
    pub fn blocked_by(
        &self,
        driver: &dyn LockInternalsDriver,
        stuck: &[(usize, &str)],
    ) -> Option<usize> {
        let is_new = self.stage == Stage::New;
        if let Some(claim) = self
            .claim
            .as_ref()
            .filter(|claim| is_new || claim.has_begun())
        {
            let is_lease =
                |(directory, name): &(usize, &str)| *directory == LEASES && Claim::is_lease(name);
            let leases = stuck.iter().filter(|node| is_lease(node)).count();
            let blocking = if claim.is_blocked_by(leases) {
                stuck.iter().position(is_lease)
            } else {
                None
            };
            if blocking.is_some() || !is_new {
                return blocking;
            }
        }
        stuck.iter().position(|(directory, name): &(usize, &str)| {
            match self.entries.get(*directory) {
                Some(Entry { own: Some(own), .. }) => blocks(driver, name, &own.name),
                // A new node comes after all others.
                Some(Entry { id, .. }) if is_new => blocks(
                    driver,
                    name,
                    &format!("{}{:010}", driver.node_prefix(id), i32::MAX - 1),
                ),
                _ => false,
            }
        })
    }
}

/// Choosing the next step.
impl Contest {
    fn advance(&mut self, outcomes: impl IntoIterator<Item = (usize, Outcome)>) -> Step {
        let mut is_refused = false;
        for (queue, outcome) in outcomes {
            self.stage = Stage::Ended;
            match outcome {
                Ok(()) => {}
                Err(End::Refused) => is_refused = true,
                Err(End::Restart) => return Step::Restart,
                Err(End::Failed(error)) => return Step::Failed { queue, error },
            }
        }
        if is_refused {
            Step::Refused
        } else {
            self.settle()
        }
    }

    fn settle(&mut self) -> Step {
        let owned = self
            .entries
            .iter()
            .map(Entry::owned)
            .collect::<Option<Vec<_>>>();
        let (requests, pace) = match (owned, &mut self.claim) {
            (None, _) => match self.pending_of_entries() {
                Some(pending) => pending,
                None => return self.end(Step::Restart),
            },
            (Some(nodes), None) => return self.end(Step::Won(nodes)),
            (Some(mut nodes), Some(claim)) => {
                if let Some(place) = nodes.pop()
                    && claim.begin(place).is_err()
                {
                    return self.end(Step::Refused);
                }
                match claim.taken() {
                    Some(leases) => {
                        let leases = leases.to_vec();
                        // The take has deleted our place.
                        for entry in &mut self.entries {
                            entry.own = None;
                        }
                        return self.end(Step::Won(leases));
                    }
                    None => claim.take_pending(),
                }
            }
        };
        if requests.is_empty() {
            self.stage = Stage::Waiting;
            return Step::Wait;
        }
        self.stage = Stage::Ready(requests.clone());
        Step::Send { requests, pace }
    }

    fn end(&mut self, step: Step) -> Step {
        self.stage = Stage::Ended;
        step
    }

    /// Ends the contest after a call out of turn. The call concerns no particular queue; the error
    /// names the first.
    fn misused(&mut self, detail: &str) -> Step {
        let detail = detail.to_owned();
        self.end(Step::Failed {
            queue: 0,
            error: ContestError::Protocol { detail },
        })
    }

    /// The next requests of all entries, as one pipeline. `None` if some nodes exist, but others
    /// would have to be created.
    fn pending_of_entries(&mut self) -> Option<(Vec<(usize, Request)>, Pace)> {
        let enters = |entry: &Entry| entry.state == State::Joining;
        if self.entries.iter().any(enters) && self.entries.iter().any(|entry| entry.own.is_some()) {
            // A node created alone would have a different place than the others.
            return None;
        }
        let is_finding = self.entries.iter().any(|entry: &Entry| {
            matches!(entry.state, State::Recovering | State::Identifying { .. })
        });
        let mut requests = Vec::new();
        let mut pace = Pace::Now;
        for (queue, entry) in self.entries.iter_mut().enumerate() {
            // No node is created while another entry looks for its node.
            if !(is_finding && enters(entry)) {
                let (pending, its_pace) = entry.take_pending();
                if !pending.is_empty() {
                    pace = pace.max(its_pace);
                }
                requests.extend(pending.into_iter().map(|request| (queue, request)));
            }
        }
        if let Some(claim) = &self.claim {
            // A claim that does not wait reads the leases and the limit with every list.
            let needs_early_reads = requests.iter().any(|(_, request)| {
                request.is_create() || !claim.waits && *request == Request::List
            });
            if needs_early_reads {
                requests.extend(claim.early_reads());
            }
        }
        // A stable sort: within each class the requests keep their order. `Runner::send` in
        // `curator-recipes` relies on the classes.
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
/// The verdict in a queue of these two nodes decides this. Every driver guarantees: if `own` does
/// not own the lock there, it does not own the lock in any queue that contains both.
fn blocks(driver: &dyn LockInternalsDriver, other: &str, own: &str) -> bool {
    if other == own {
        return false;
    }
    let Ok(queue) = Queue::of([other, own], driver) else {
        return false;
    };
    let Some(place) = queue.position(own) else {
        return false;
    };
    queue.len() == 2 && driver.verdict(&queue, place) != Verdict::Owns
}
