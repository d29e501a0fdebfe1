//! A contest in one queue: the way in, and finding our node again when the answer to its create was lost.

use std::collections::BTreeSet;
use std::mem;

use uuid::Uuid;

use super::plan::Plan;
use super::step::{Answer, End, Event, OwnNode, Pace, Request, RestartReason};
use crate::driver::LockInternalsDriver;
use crate::queue::{Queue, SequenceOverflow};

/// Our entry in one queue, from its create to ownership.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) id: Uuid,
    pub(super) session_id: i64,
    /// Whether it may wait for anybody.
    pub(super) waits: bool,
    pub(super) state: State,
    pub(super) own: Option<OwnNode>,
    /// Whether our node may exist: a create was sent, and the node is not known to be gone.
    pub(super) may_exist: bool,
    /// Nodes that are ours beside `own`.
    pub(super) surplus: Vec<String>,
    pub(super) watches: Watches,
    parents_were_created: bool,
    /// What has to be sent.
    asks: Vec<Request>,
    pace: Pace,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    New,
    /// Create our node, and list.
    Joining,
    PreparingParents,
    /// The create's outcome is unknown: catch up with the leader, and list.
    Recovering,
    /// Nodes that may be ours were found in this queue: see whose they are.
    Identifying {
        queue: Queue,
    },
    /// Place the watches that the plan needs.
    PlacingWatches {
        plan: Plan,
    },
    /// Place the watches that the next plan will probably need, and list.
    Looking {
        expected: Option<Plan>,
    },
    Waiting {
        plan: Plan,
    },
    /// `is_certain` unless it was asked whether the node is still there, and not answered: somebody else may own the queue
    /// by now.
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

/// How far an entry has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// It has no node, and wants one.
    Entering,
    /// It looks whether it has one.
    Finding,
    /// It has one.
    Queued,
}

/// The answer to [`Request::List`].
pub(super) enum Listing {
    Children(Vec<String>),
    NoDirectory,
    Unknown,
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
            may_exist: false,
            surplus: Vec::new(),
            watches: Watches::default(),
            parents_were_created: false,
            asks: Vec::new(),
            pace: Pace::Now,
        }
    }

    /// Takes the answers to what it has sent.
    pub(super) fn answered(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<(Request, Answer)>) -> Outcome {
        match mem::replace(&mut self.state, State::New) {
            State::Joining => self.joined(driver, answers),
            State::PreparingParents => self.parents_prepared(answers),
            State::Recovering => self.recovered(driver, answers),
            State::Identifying { queue } => self.identified(driver, &queue, answers),
            State::PlacingWatches { plan } => self.watches_placed(plan, answers),
            State::Looking { expected } => self.looked(driver, expected, answers),
            State::Owned { .. } => self.looked_after(answers),
            State::New | State::Waiting { .. } => Err(End::protocol("answers to nothing that was sent")),
        }
    }

    /// Takes one event, while it waits or owns.
    pub(super) fn observed(&mut self, event: Event) -> Outcome {
        match mem::replace(&mut self.state, State::New) {
            State::Waiting { plan } => self.saw(plan, event),
            State::Owned { .. } => self.saw_as_owner(&event),
            _ => Err(End::protocol("an event while nothing is waited for")),
        }
    }

    /// Its node, if it owns its queue.
    pub(super) fn owned(&self) -> Option<OwnNode> {
        self.own.clone().filter(|_| self.state == State::Owned { is_certain: true })
    }

    pub(super) fn progress(&self) -> Progress {
        if self.asks_for(&Request::Create) || self.asks_for(&Request::CreateParents) {
            Progress::Entering
        } else if self.own.is_some() {
            Progress::Queued
        } else {
            Progress::Finding
        }
    }

    pub(super) fn asks_for(&self, wanted: &Request) -> bool {
        self.asks.contains(wanted)
    }

    /// What has to be sent now.
    pub(super) fn take_asks(&mut self) -> (Vec<Request>, Pace) {
        (mem::take(&mut self.asks), self.pace)
    }

    pub(super) fn ask(&mut self, requests: impl Into<Vec<Request>>, pace: Pace) {
        (self.asks, self.pace) = (requests.into(), pace);
    }

    pub(super) fn restart(&mut self, reason: RestartReason) -> End {
        self.own = None;
        self.may_exist = false;
        End::Restart(reason)
    }
}

/// Into the queue.
impl Entry {
    pub(super) fn join(&mut self) {
        self.may_exist = true;
        self.state = State::Joining;
        self.ask([Request::Create, Request::List], Pace::Now);
    }

    fn joined(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<(Request, Answer)>) -> Outcome {
        let [created, listed] = exactly(answers)?;
        match created {
            Answer::Created(node) => {
                let sequence = driver.sequence(&node.name);
                let own = self.own.insert(node);
                if sequence.is_none() {
                    return Err(End::protocol(format!("the server has called our node {:?}", own.name)));
                }
                self.take_listing(driver, None, listed)
            }
            Answer::NoParent => {
                self.prepare_parents();
                Ok(())
            }
            Answer::NameTaken => {
                self.may_exist = false;
                Err(self.number_came_again(driver, listed)?)
            }
            // The list may come from another connection than the create, and from a server that lags behind.
            Answer::Unknown => {
                self.recover();
                Ok(())
            }
            other => Err(End::unfit(&Request::Create, &other)),
        }
    }

    /// Names without an id differ by their numbers only. The server has given one that it had given before, or that
    /// somebody has put there by hand. The list tells which; if it does not, at least ours is known.
    fn number_came_again(&self, driver: &dyn LockInternalsDriver, listed: Answer) -> Result<End, End> {
        if let Listing::Children(children) = Listing::of(listed)? {
            Queue::of(children, driver)?;
        }
        Ok(SequenceOverflow { name: driver.node_prefix(&self.id) }.into())
    }

    fn prepare_parents(&mut self) {
        self.may_exist = false;
        self.state = State::PreparingParents;
        // If they go again as soon as they are made, someone keeps deleting them.
        let pace = if mem::replace(&mut self.parents_were_created, true) { Pace::Retry } else { Pace::Now };
        self.ask([Request::CreateParents], pace);
    }

    fn parents_prepared(&mut self, answers: Vec<(Request, Answer)>) -> Outcome {
        let [prepared] = exactly(answers)?;
        match prepared {
            Answer::Done => self.join(),
            // To do it twice does no harm.
            Answer::Unknown | Answer::NoParent => self.prepare_parents(),
            other => return Err(End::unfit(&Request::CreateParents, &other)),
        }
        Ok(())
    }
}

/// Finding our node again when the answer to its create was lost.
impl Entry {
    fn recover(&mut self) {
        self.state = State::Recovering;
        self.ask([Request::Sync, Request::List], Pace::Retry);
    }

    fn recovered(&mut self, driver: &dyn LockInternalsDriver, answers: Vec<(Request, Answer)>) -> Outcome {
        let [synced, listed] = exactly(answers)?;
        match (synced, Listing::of(listed)?) {
            (Answer::Done, Listing::Children(children)) => self.identify(driver, Queue::of(children, driver)?),
            (Answer::Done, Listing::NoDirectory) => self.prepare_parents(),
            (Answer::Done | Answer::Unknown, _) => self.recover(),
            (other, _) => return Err(End::unfit(&Request::Sync, &other)),
        }
        Ok(())
    }

    fn identify(&mut self, driver: &dyn LockInternalsDriver, queue: Queue) {
        let prefix = driver.node_prefix(&self.id);
        let candidates = queue.iter().filter(|entry| entry.name.starts_with(&prefix));
        let requests: Vec<_> = candidates.map(|entry| Request::Inspect { name: entry.name.clone() }).collect();
        if requests.is_empty() {
            // The leader has not applied the create, and after the sync it never will.
            return self.join();
        }
        self.state = State::Identifying { queue };
        self.ask(requests, Pace::Now);
    }

    fn identified(
        &mut self,
        driver: &dyn LockInternalsDriver,
        queue: &Queue,
        answers: Vec<(Request, Answer)>,
    ) -> Outcome {
        let mut ours = Vec::new();
        let mut something_unknown = false;
        for answer in answers {
            match answer {
                // A node of another session is about to disappear, whatever its name: to adopt it would make two holders.
                (Request::Inspect { name }, Answer::Node { ephemeral_owner, czxid, is_ours, .. }) => {
                    if is_ours && ephemeral_owner == self.session_id {
                        ours.push(OwnNode { name, czxid });
                    }
                }
                (_, Answer::Missing) => {}
                (_, Answer::Unknown) => something_unknown = true,
                (request, other) => return Err(End::unfit(&request, &other)),
            }
        }
        if something_unknown {
            self.recover();
            return Ok(());
        }
        // In the order of the queue, so the first is the best.
        let mut ours = ours.into_iter();
        self.own = ours.next();
        self.surplus.extend(ours.map(|node| node.name));
        if self.own.is_some() {
            return self.decide(driver, queue);
        }
        self.join();
        Ok(())
    }
}

impl Listing {
    pub(super) fn of(answer: Answer) -> Result<Self, End> {
        match answer {
            Answer::Children(children) => Ok(Self::Children(children)),
            Answer::NoParent => Ok(Self::NoDirectory),
            Answer::Unknown => Ok(Self::Unknown),
            other => Err(End::unfit(&Request::List, &other)),
        }
    }
}

pub(super) fn exactly<const N: usize>(answers: Vec<(Request, Answer)>) -> Result<[Answer; N], End> {
    let answers: Vec<_> = answers.into_iter().map(|(_, answer)| answer).collect();
    answers.try_into().map_err(|_| End::protocol("wrong number of answers"))
}
