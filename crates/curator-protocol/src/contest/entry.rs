//! A contest in one queue: entering it, and finding our node again when the answer to its create was lost.

use std::collections::BTreeSet;
use std::mem;

use uuid::Uuid;

use super::plan::Plan;
use super::step::{Answer, End, Event, OwnNode, Pace, Request};
use crate::driver::LockInternalsDriver;
use crate::queue::Queue;

/// Our entry in one queue, from its create to ownership.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) id: Uuid,
    pub(super) session_id: i64,
    /// Whether it may wait for other contenders.
    pub(super) waits: bool,
    pub(super) state: State,
    pub(super) own: Option<OwnNode>,
    /// How many nodes were before ours in the latest list, without those of the plan that have gone since; 0 once
    /// it owns the queue.
    pub(super) place: usize,
    /// Whether our node may exist: a create was sent, and the node is not known to be gone.
    pub(super) may_exist: bool,
    /// Other nodes that are ours, apart from `own`.
    pub(super) surplus: Vec<String>,
    pub(super) watches: Watches,
    /// How often in a row, up to two, the create has found no directory.
    without_directory: u8,
    /// The requests that have to be sent.
    pending: Vec<Request>,
    pace: Pace,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    New,
    /// Creating our node, with its directory or without, and listing.
    Joining,
    /// The create's outcome is unknown: catching up with the leader, and listing.
    Recovering,
    /// Nodes that may be ours were found in this queue: reading which session they belong to.
    Identifying {
        queue: Queue,
    },
    /// Placing the watches that the plan needs.
    PlacingWatches {
        plan: Plan,
    },
    /// Placing the watches that the next plan will probably need, and listing.
    Looking {
        expected: Option<Plan>,
    },
    Waiting {
        plan: Plan,
    },
    /// `is_certain`, unless we asked whether the node still exists and got no answer: by now, someone else may own the
    /// queue.
    Owned {
        is_certain: bool,
    },
}

/// The watches in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Watches {
    pub(super) ahead: BTreeSet<String>,
    pub(super) own: bool,
}

pub(super) type Outcome = Result<(), End>;

impl Entry {
    pub(super) fn new(id: Uuid, session_id: i64) -> Self {
        Self {
            id,
            session_id,
            waits: true,
            state: State::New,
            own: None,
            place: 0,
            may_exist: false,
            surplus: Vec::new(),
            watches: Watches::default(),
            without_directory: 0,
            pending: Vec::new(),
            pace: Pace::Now,
        }
    }

    /// Takes the answers to the requests that it has sent.
    pub(super) fn answered(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<(Request, Answer)>) -> Outcome {
        match mem::replace(&mut self.state, State::New) {
            State::Joining => self.joined(driver, answers),
            State::Recovering => self.recovered(driver, answers),
            State::Identifying { queue } => self.identified(driver, queue, answers),
            State::PlacingWatches { plan } => self.watches_placed(plan, answers),
            State::Looking { expected } => self.looked(driver, expected, answers),
            State::Owned { .. } => self.own_watched(answers),
            State::New | State::Waiting { .. } => Err(End::protocol("answers without requests")),
        }
    }

    /// Takes one event, while it waits or owns.
    pub(super) fn observed(&mut self, event: Event) -> Outcome {
        match mem::replace(&mut self.state, State::New) {
            State::Waiting { plan } => self.saw(plan, event),
            State::Owned { .. } => self.saw_as_owner(&event),
            _ => Err(End::protocol("an event while not waiting")),
        }
    }

    /// Its node, if it owns its queue.
    pub(super) fn owned(&self) -> Option<OwnNode> {
        self.own.clone().filter(|_| self.state == State::Owned { is_certain: true })
    }

    /// Takes the requests that have to be sent now.
    pub(super) fn take_pending(&mut self) -> (Vec<Request>, Pace) {
        (mem::take(&mut self.pending), self.pace)
    }

    pub(super) fn ask(&mut self, state: State, requests: impl Into<Vec<Request>>, pace: Pace) -> Outcome {
        (self.state, self.pending, self.pace) = (state, requests.into(), pace);
        Ok(())
    }

    pub(super) fn restart(&mut self) -> Outcome {
        self.own = None;
        self.may_exist = false;
        Err(End::Restart)
    }
}

/// Entering the queue.
impl Entry {
    pub(super) fn join(&mut self) -> Outcome {
        self.may_exist = true;
        self.ask(State::Joining, [Request::Create, Request::List], Pace::Now)
    }

    /// Creates the directory together with our node. The second time, the runner has seen which directories are missing; if
    /// they are others again, someone keeps creating and deleting them.
    fn join_with_parents(&mut self) -> Outcome {
        self.may_exist = true;
        let pace = if self.without_directory < 2 { Pace::Now } else { Pace::Retry };
        self.without_directory = 2.min(self.without_directory + 1);
        self.ask(State::Joining, [Request::CreateWithParents, Request::List], pace)
    }

    fn joined(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<(Request, Answer)>) -> Outcome {
        let [created, listed] = exactly(answers)?;
        match created {
            Answer::Created(node) => {
                let sequence = driver.sequence(&node.name);
                let own = self.own.insert(node);
                if sequence.is_none() {
                    return Err(End::protocol(format!("the server named our node {:?}", own.name)));
                }
                self.take_listing(driver, None, listed)
            }
            Answer::NoParent => self.join_with_parents(),
            // The list may come over another connection than the create's, and from a server that lags behind.
            Answer::Unknown => self.recover(),
            other => Err(End::unfit(&Request::Create, &other)),
        }
    }
}

/// Finding our node again when the answer to its create was lost.
impl Entry {
    fn recover(&mut self) -> Outcome {
        self.ask(State::Recovering, [Request::Sync, Request::List], Pace::Retry)
    }

    fn recovered(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<(Request, Answer)>) -> Outcome {
        let [synced, listed] = exactly(answers)?;
        match (synced, listed) {
            (Answer::Done, Answer::Children(children)) => self.identify(driver, Queue::of(children, driver)?),
            (Answer::Done, Answer::NoParent) => self.join_with_parents(),
            (Answer::Done | Answer::Unknown, Answer::Children(_) | Answer::NoParent | Answer::Unknown) => {
                self.recover()
            }
            (Answer::Done | Answer::Unknown, other) => Err(End::unfit(&Request::List, &other)),
            (other, _) => Err(End::unfit(&Request::Sync, &other)),
        }
    }

    fn identify(&mut self, driver: &dyn LockInternalsDriver, queue: Queue) -> Outcome {
        let prefix = driver.node_prefix(&self.id);
        let candidates = queue.iter().filter(|entry| entry.name.starts_with(&prefix));
        let requests: Vec<_> = candidates.map(|entry| Request::Inspect { name: entry.name.clone() }).collect();
        if requests.is_empty() {
            // The leader has not applied the create, and after the sync it never will.
            return self.join();
        }
        self.ask(State::Identifying { queue }, requests, Pace::Now)
    }

    fn identified(
        &mut self,
        driver: &dyn LockInternalsDriver,
        queue: Queue,
        answers: Vec<(Request, Answer)>,
    ) -> Outcome {
        let mut ours = Vec::new();
        let mut something_unknown = false;
        for answer in answers {
            match answer {
                // A node of another session is about to disappear, whatever its name: adopting it would make two
                // holders.
                (Request::Inspect { name }, Answer::Node { ephemeral_owner, czxid, .. }) => {
                    if ephemeral_owner == self.session_id {
                        ours.push(OwnNode { name, czxid });
                    }
                }
                (_, Answer::Missing) => {}
                (_, Answer::Unknown) => something_unknown = true,
                (request, other) => return Err(End::unfit(&request, &other)),
            }
        }
        if something_unknown {
            return self.recover();
        }
        // In the order of the queue, so the first one is the best.
        let mut ours = ours.into_iter();
        self.own = ours.next();
        self.surplus.extend(ours.map(|node| node.name));
        if self.own.is_some() { self.decide(driver, queue) } else { self.join() }
    }
}

pub(super) fn exactly<const N: usize>(answers: Vec<(Request, Answer)>) -> Result<[Answer; N], End> {
    let answers: Vec<_> = answers.into_iter().map(|(_, answer)| answer).collect();
    answers.try_into().map_err(|_| End::protocol("wrong number of answers"))
}
