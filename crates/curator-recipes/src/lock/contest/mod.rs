//! The acquire protocol of every lock over one queue, as a state machine without I/O.
//!
//! A [`Contest`] says what to send and what to wait for; a shell does it and reports back. So the protocol can be
//! checked against every order of events and every fault: the model in `tests/model` does that with this very code.
//!
//! The idea is the lock recipe of ZooKeeper as in Curator's `LockInternals`, with three changes:
//!
//! - Requests are pipelined. ZooKeeper answers the requests of a session in order, so create and list are one flight.
//! - A waiter learns beforehand that it is next. Then the deletion of the node before it *is* ownership, and a hand-over
//!   takes one round trip, where list-again takes two. Only readers behind several writers do not look ahead, since all
//!   of them would be woken; and a writer lists again, since a write lock before it may become a read lock.
//! - A node is found again after a lost answer only in the session that created it.

mod enqueue;
mod joint;
mod plan;
mod step;
#[cfg(test)]
mod tests;
mod wait;

use std::collections::BTreeSet;
use std::mem;

pub use self::joint::{JointContest, JointStep};
use self::plan::Plan;
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
///   Keep the other for later. An event that was taken from its watch and not given is a wake-up lost.
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
    Identifying {
        queue: Queue,
        candidates: Vec<String>,
    },
    /// Place the watches that the plan needs.
    PlacingWatches {
        plan: Plan,
        asked: Vec<Request>,
    },
    /// Place the watches that the next plan will probably need, and list.
    Looking {
        expected: Option<Plan>,
        asked: Vec<Request>,
    },
    Waiting {
        plan: Plan,
    },
    Over,
}

/// The watches in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Watches {
    ahead: BTreeSet<String>,
    own: bool,
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

    /// Whether a watch on our own node is in force.
    fn watches_own(&self) -> bool {
        self.watches.own
    }

    fn conclude(&mut self, outcome: Outcome) -> Step {
        outcome.unwrap_or_else(|error| {
            self.state = State::Over;
            Step::Failed(error)
        })
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
