//! The acquire protocol of every lock over one queue, as a state machine without I/O.
//!
//! A [`Contest`] says what to send and what to wait for; a shell does it and reports back. So the protocol can be
//! checked against every order of events and every fault: the model in `tests/model.rs` does that with this very code.
//!
//! The idea is the lock recipe of ZooKeeper as in Curator's `LockInternals`, with three changes:
//!
//! - Requests are pipelined. ZooKeeper answers the requests of a session in order, so create and list are one flight.
//! - A waiter learns beforehand that it is next. Then the deletion of the node before it *is* ownership, and a hand-over
//!   takes one round trip, where list-again takes two.
//! - A node is found again after a lost answer only in the session that created it.

mod plan;
mod step;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::mem;

use self::plan::{Next, Plan};
pub use self::step::{Answer, ContestError, Event, OwnNode, Pace, Request, RestartReason, Step};
use super::driver::{ContenderId, LockInternalsDriver};
use super::queue::Queue;

/// One contender's way to the lock, from its create to ownership.
///
/// Belongs to one session: it must be dropped when the session is lost, and its id never be used again.
///
/// # What the shell must keep to
///
/// - The requests of a flight go out in order, on one session, and all answers come back in that order. A request whose
///   answer will not come is [`Answer::Unknown`]. Later requests of the session must not overtake it.
/// - Watches are kept by the name of their node, from an [`Answer::Node`] until their event. Several can be in force.
/// - Events wait until the contest waits. When an `AheadDeleted` is at hand, look once more whether our own node's event
///   has come meanwhile, and give that first: the server has sent them in an order that two separate watchers forget.
/// - An `AheadDeleted` is certain only if no connection can have been lost since that watch was placed.
/// - Whatever the end, the nodes of [`surplus`](Self::surplus) are to be deleted, and if the lock is not wanted any more,
///   whatever [`may_exist`](Self::may_exist).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contest {
    id: ContenderId,
    session_id: i64,
    state: State,
    own: Option<OwnNode>,
    may_exist: bool,
    surplus: Vec<String>,
    watches: Watches,
    parents_were_created: bool,
}

/// Where a contest stands. A flight is in the air in all states from `Joining` to `Looking`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    New,
    /// Create our node, and list.
    Joining,
    PreparingParents,
    /// The create's outcome is unknown: catch up with the leader, and list.
    Recovering,
    /// Nodes that may be ours were found in this queue: see whose they are.
    Identifying { queue: Queue, candidates: Vec<String> },
    /// Place the watches that the plan needs.
    PlacingWatches { plan: Plan, asked: Vec<Request> },
    /// Place the watches that the next plan will probably need, and list.
    Looking { expected: Option<Plan>, asked: Vec<Request> },
    Waiting { plan: Plan },
    Over,
}

/// The watches in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Watches {
    ahead: BTreeSet<String>,
    own: bool,
}

/// What a flight has shown of the nodes that it was to watch.
#[derive(Default)]
struct Seen {
    gone: Vec<String>,
    own: OwnSeen,
    something_unknown: bool,
}

#[derive(Default, PartialEq, Eq)]
enum OwnSeen {
    #[default]
    NotAsked,
    There,
    Gone,
}

/// The answer to [`Request::List`].
enum Listing {
    Children(Vec<String>),
    NoDirectory,
    Unknown,
}

type Outcome = Result<Step, ContestError>;

impl Contest {
    /// A contest of the contender `id` in the session `session_id`.
    #[must_use]
    pub fn new(id: ContenderId, session_id: i64) -> Self {
        Self {
            id,
            session_id,
            state: State::New,
            own: None,
            may_exist: false,
            surplus: Vec::new(),
            watches: Watches::default(),
            parents_were_created: false,
        }
    }

    /// Begins. To be called once.
    pub fn start(&mut self, _driver: &dyn LockInternalsDriver) -> Step {
        match self.state {
            State::New => self.join(),
            _ => self.conclude(Err(ContestError::protocol("started twice"))),
        }
    }

    /// Takes all the answers to the flight in the air, in the order of its requests.
    pub fn answered(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<Answer>) -> Step {
        let outcome = match mem::replace(&mut self.state, State::Over) {
            State::Joining => self.joined(driver, answers),
            State::PreparingParents => self.parents_prepared(answers),
            State::Recovering => self.recovered(driver, answers),
            State::Identifying { queue, candidates } => self.identified(driver, &queue, candidates, answers),
            State::PlacingWatches { plan, asked } => self.watches_placed(plan, asked, answers),
            State::Looking { expected, asked } => self.looked(driver, expected, asked, answers),
            State::New | State::Waiting { .. } | State::Over => Err(ContestError::protocol("answers without a flight")),
        };
        self.conclude(outcome)
    }

    /// Takes one event, while [`Step::Wait`] is in force.
    pub fn observed(&mut self, _driver: &dyn LockInternalsDriver, event: Event) -> Step {
        let outcome = match mem::replace(&mut self.state, State::Over) {
            State::Waiting { plan } => Ok(self.saw(plan, event)),
            _ => Err(ContestError::protocol("an event while nothing is waited for")),
        };
        self.conclude(outcome)
    }

    /// Our node, once its name is known, unless it is known to be gone.
    #[must_use]
    pub fn node(&self) -> Option<&OwnNode> {
        self.own.as_ref()
    }

    /// Whether our node may exist: a create was sent, and the node is not known to be gone.
    ///
    /// This is what a cancelled acquire has to clean up: the node of [`node`](Self::node), else whichever bears the id.
    #[must_use]
    pub fn may_exist(&self) -> bool {
        self.may_exist
    }

    /// Nodes that are ours beside [`node`](Self::node). Nobody needs them; the shell deletes them.
    #[must_use]
    pub fn surplus(&self) -> &[String] {
        &self.surplus
    }

    /// The contender's identity.
    #[must_use]
    pub fn id(&self) -> ContenderId {
        self.id
    }

    fn conclude(&mut self, outcome: Outcome) -> Step {
        outcome.unwrap_or_else(|error| {
            self.state = State::Over;
            Step::Failed(error)
        })
    }
}

/// Into the queue.
impl Contest {
    fn join(&mut self) -> Step {
        self.may_exist = true;
        self.state = State::Joining;
        send(vec![Request::Create, Request::List], Pace::Now)
    }

    fn joined(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<Answer>) -> Outcome {
        let [created, listed] = exactly(answers)?;
        match created {
            Answer::Created { name, czxid } => {
                let sequence = driver.sequence(&name);
                self.own = Some(OwnNode { name: name.clone(), czxid });
                if sequence.is_none() {
                    return Err(ContestError::protocol(format!("the server has called our node {name:?}")));
                }
                self.take_listing(driver, None, listed)
            }
            Answer::NoParent => Ok(self.prepare_parents()),
            // The list may come from another connection than the create, and from a server that lags behind.
            Answer::Unknown => Ok(self.recover()),
            other => Err(unfit(&Request::Create, &other)),
        }
    }

    fn prepare_parents(&mut self) -> Step {
        self.may_exist = false;
        self.state = State::PreparingParents;
        // If they go again as soon as they are made, somebody is at war with us.
        let pace = if mem::replace(&mut self.parents_were_created, true) { Pace::Retry } else { Pace::Now };
        send(vec![Request::CreateParents], pace)
    }

    fn parents_prepared(&mut self, answers: Vec<Answer>) -> Outcome {
        let [prepared] = exactly(answers)?;
        match prepared {
            Answer::ParentsReady => Ok(self.join()),
            // To do it twice does no harm.
            Answer::Unknown | Answer::NoParent => Ok(self.prepare_parents()),
            other => Err(unfit(&Request::CreateParents, &other)),
        }
    }
}

/// Finding our node again when the answer to its create was lost.
impl Contest {
    fn recover(&mut self) -> Step {
        self.state = State::Recovering;
        send(vec![Request::Sync, Request::List], Pace::Retry)
    }

    fn recovered(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<Answer>) -> Outcome {
        let [synced, listed] = exactly(answers)?;
        match (synced, Listing::of(listed)?) {
            (Answer::Synced, Listing::Children(children)) => self.identify(driver, Queue::of(children, driver)?),
            (Answer::Synced, Listing::NoDirectory) => Ok(self.prepare_parents()),
            (Answer::Synced | Answer::Unknown, _) => Ok(self.recover()),
            (other, _) => Err(unfit(&Request::Sync, &other)),
        }
    }

    fn identify(&mut self, driver: &dyn LockInternalsDriver, queue: Queue) -> Outcome {
        let prefix = driver.node_prefix(&self.id);
        let ours = queue.iter().filter(|entry| entry.name.starts_with(&prefix));
        let candidates: Vec<_> = ours.map(|entry| entry.name.clone()).collect();
        if candidates.is_empty() {
            // The leader has not applied the create, and after the sync it never will.
            return Ok(self.join());
        }
        let requests = candidates.iter().map(|name| Request::Inspect { name: name.clone() }).collect();
        self.state = State::Identifying { queue, candidates };
        Ok(send(requests, Pace::Now))
    }

    fn identified(
        &mut self,
        driver: &dyn LockInternalsDriver,
        queue: &Queue,
        candidates: Vec<String>,
        answers: Vec<Answer>,
    ) -> Outcome {
        check_count(candidates.len(), &answers)?;
        let mut ours = Vec::new();
        let mut something_unknown = false;
        for (name, answer) in candidates.into_iter().zip(answers) {
            match answer {
                // A node of another session is about to disappear, whatever its name: to adopt it would make two holders.
                Answer::Node { ephemeral_owner, czxid, is_ours } => {
                    if is_ours && ephemeral_owner == self.session_id {
                        ours.push(OwnNode { name, czxid });
                    }
                }
                Answer::Missing => {}
                Answer::Unknown => something_unknown = true,
                other => return Err(unfit(&Request::Inspect { name }, &other)),
            }
        }
        if something_unknown {
            return Ok(self.recover());
        }
        // In the order of the queue, so the first is the best.
        let mut ours = ours.into_iter();
        self.own = ours.next();
        self.surplus.extend(ours.map(|node| node.name));
        if self.own.is_none() { Ok(self.join()) } else { self.decide(driver, queue) }
    }
}

/// In the queue.
impl Contest {
    /// Decides by a list that is newer than our node.
    fn decide(&mut self, driver: &dyn LockInternalsDriver, queue: &Queue) -> Outcome {
        let Some(own) = &self.own else { return Err(ContestError::protocol("no node of ours to decide about")) };
        let Some(place) = queue.position(&own.name) else { return Ok(self.restart(RestartReason::NodeMissing)) };
        match Plan::of(driver, queue, place)? {
            None => self.own_it(),
            Some(plan) => Ok(self.follow(plan)),
        }
    }

    /// Waits, once all the watches that the plan needs are in force.
    fn follow(&mut self, plan: Plan) -> Step {
        let asked = self.missing_watches(&plan);
        if asked.is_empty() {
            self.state = State::Waiting { plan };
            return Step::Wait;
        }
        self.state = State::PlacingWatches { plan, asked: asked.clone() };
        send(asked, Pace::Now)
    }

    fn watches_placed(&mut self, mut plan: Plan, asked: Vec<Request>, answers: Vec<Answer>) -> Outcome {
        let seen = self.note_watches(asked, answers)?;
        if seen.own == OwnSeen::Gone {
            return Ok(self.restart(RestartReason::NodeMissing));
        }
        if seen.something_unknown {
            return Ok(self.look(Some(plan), Pace::Retry));
        }
        for name in seen.gone {
            plan = match plan.without(&name) {
                // Our node was seen by a later request of the same flight.
                Next::Wait(plan) if seen.own == OwnSeen::There => plan,
                Next::Own if seen.own == OwnSeen::There => return self.own_it(),
                // Our node is watched since before, and its deletion may lie unread among the events.
                Next::Wait(expected) => return Ok(self.look(Some(expected), Pace::Now)),
                Next::Own => return Ok(self.look(None, Pace::Now)),
                Next::Look(expected) => return Ok(self.look(expected, Pace::Now)),
            };
        }
        Ok(self.follow(plan))
    }

    fn saw(&mut self, plan: Plan, event: Event) -> Step {
        match event {
            Event::OwnDeleted => self.restart(RestartReason::NodeDeleted),
            Event::OwnChanged => {
                self.watches.own = false;
                self.follow(plan)
            }
            Event::AheadChanged { name } => {
                self.watches.ahead.remove(&name);
                self.follow(plan)
            }
            Event::AheadDeleted { name, certain } => {
                self.watches.ahead.remove(&name);
                self.saw_deletion(plan, &name, certain)
            }
            Event::Uncertain => {
                self.watches = Watches::default();
                self.look(Some(plan), Pace::Now)
            }
        }
    }

    fn saw_deletion(&mut self, plan: Plan, name: &str, certain: bool) -> Step {
        match plan.without(name) {
            Next::Wait(plan) if certain => self.follow(plan),
            Next::Own if certain => self.conclude_owned(),
            Next::Wait(expected) => self.look(Some(expected), Pace::Now),
            Next::Own => self.look(None, Pace::Now),
            Next::Look(expected) => self.look(expected, Pace::Now),
        }
    }

    /// Lists again. Watches come before the list in the flight, so what they miss is missing in the list as well.
    fn look(&mut self, expected: Option<Plan>, pace: Pace) -> Step {
        let asked = expected.as_ref().map_or_else(Vec::new, |plan| self.missing_watches(plan));
        let requests = asked.iter().cloned().chain([Request::List]).collect();
        self.state = State::Looking { expected, asked };
        send(requests, pace)
    }

    fn looked(
        &mut self,
        driver: &dyn LockInternalsDriver,
        expected: Option<Plan>,
        asked: Vec<Request>,
        mut answers: Vec<Answer>,
    ) -> Outcome {
        check_count(asked.len() + 1, &answers)?;
        let Some(listed) = answers.pop() else { return Err(ContestError::protocol("no answers")) };
        let seen = self.note_watches(asked, answers)?;
        if seen.own == OwnSeen::Gone {
            return Ok(self.restart(RestartReason::NodeMissing));
        }
        if seen.something_unknown {
            return Ok(self.look(expected, Pace::Retry));
        }
        self.take_listing(driver, expected, listed)
    }

    /// Decides by the answer to a list that was sent after our create was answered or before it in the same flight.
    fn take_listing(&mut self, driver: &dyn LockInternalsDriver, expected: Option<Plan>, listed: Answer) -> Outcome {
        match Listing::of(listed)? {
            Listing::Children(children) => self.decide(driver, &Queue::of(children, driver)?),
            Listing::NoDirectory => Ok(self.restart(RestartReason::NodeMissing)),
            Listing::Unknown => Ok(self.look(expected, Pace::Retry)),
        }
    }
}

/// The watches.
impl Contest {
    /// Those ahead first: when the answer for our own node comes, the others' are already certain.
    fn missing_watches(&self, plan: &Plan) -> Vec<Request> {
        let ahead = plan.ahead().iter().filter(|name| !self.watches.ahead.contains(*name));
        let ahead = ahead.map(|name| Request::WatchAhead { name: name.clone() });
        let own = self.own.iter().filter(|_| plan.needs_own() && !self.watches.own);
        let own = own.map(|node| Request::WatchOwn { name: node.name.clone() });
        ahead.chain(own).collect()
    }

    fn note_watches(&mut self, asked: Vec<Request>, answers: Vec<Answer>) -> Result<Seen, ContestError> {
        check_count(asked.len(), &answers)?;
        let mut seen = Seen::default();
        for (request, answer) in asked.into_iter().zip(answers) {
            match (request, answer) {
                (_, Answer::Unknown) => seen.something_unknown = true,
                (Request::WatchAhead { name }, Answer::Node { .. }) => {
                    self.watches.ahead.insert(name);
                }
                (Request::WatchAhead { name }, Answer::Missing) => seen.gone.push(name),
                // The number can come again when the whole directory was deleted and made anew; the transaction cannot.
                (Request::WatchOwn { .. }, Answer::Node { czxid, .. }) if self.is_own(czxid) => {
                    self.watches.own = true;
                    seen.own = OwnSeen::There;
                }
                (Request::WatchOwn { .. }, Answer::Node { .. } | Answer::Missing) => seen.own = OwnSeen::Gone,
                (request, answer) => return Err(unfit(&request, &answer)),
            }
        }
        Ok(seen)
    }

    fn is_own(&self, czxid: i64) -> bool {
        self.own.as_ref().is_some_and(|own| own.czxid == czxid)
    }
}

/// The ends.
impl Contest {
    fn own_it(&mut self) -> Outcome {
        self.own.clone().map(Step::Owned).ok_or_else(|| ContestError::protocol("no node of ours to own the lock with"))
    }

    fn conclude_owned(&mut self) -> Step {
        let outcome = self.own_it();
        self.conclude(outcome)
    }

    fn restart(&mut self, reason: RestartReason) -> Step {
        self.own = None;
        self.may_exist = false;
        self.state = State::Over;
        Step::Restart(reason)
    }
}

impl Listing {
    fn of(answer: Answer) -> Result<Self, ContestError> {
        match answer {
            Answer::Children(children) => Ok(Self::Children(children)),
            Answer::NoParent => Ok(Self::NoDirectory),
            Answer::Unknown => Ok(Self::Unknown),
            other => Err(unfit(&Request::List, &other)),
        }
    }
}

fn send(requests: Vec<Request>, pace: Pace) -> Step {
    Step::Send { requests, pace }
}

fn exactly<const N: usize>(answers: Vec<Answer>) -> Result<[Answer; N], ContestError> {
    check_count(N, &answers)?;
    answers.try_into().map_err(|_| ContestError::protocol("wrong number of answers"))
}

fn check_count(expected: usize, answers: &[Answer]) -> Result<(), ContestError> {
    if answers.len() == expected {
        return Ok(());
    }
    Err(ContestError::protocol(format!("{} answers to {expected} requests", answers.len())))
}

fn unfit(request: &Request, answer: &Answer) -> ContestError {
    ContestError::protocol(format!("{answer:?} is no answer to {request:?}"))
}
