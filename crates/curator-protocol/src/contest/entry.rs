//! Contends in one queue: enters the queue, and finds its node again when the answer to its create
//! was lost.

use std::collections::BTreeSet;
use std::mem;

use uuid::Uuid;

use super::plan::Plan;
use super::step::{Answer, End, Event, IMMEDIATE_ATTEMPTS, OwnNode, Pace, Request};
use crate::driver::LockInternalsDriver;
use crate::queue::Queue;

/// Our entry in one queue, from its create to ownership.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) id: Uuid,
    pub(super) session_id: i64,
    /// Whether the contest may wait for other contenders.
    pub(super) waits: bool,
    /// In a contest for leases without waiting: how many contenders ahead can take one lease each,
    /// and still leave enough for ours. `None` in all other contests.
    pub(super) spare: Option<usize>,
    pub(super) state: State,
    pub(super) own: Option<OwnNode>,
    /// How many nodes were before ours in the latest list, minus the nodes of the plan that were
    /// deleted since; 0 once the queue is owned.
    pub(super) place: usize,
    /// Whether a create was sent, and its outcome is not known.
    pub(super) may_exist: bool,
    /// Our nodes other than `own`.
    pub(super) surplus: Vec<String>,
    pub(super) watches: Watches,
    /// How many creates in a row have failed because of the directories, up to
    /// [`IMMEDIATE_ATTEMPTS`].
    without_directory: u8,
    /// The requests to send.
    pending: Vec<Request>,
    pace: Pace,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    New,
    /// Sent: the create of our node, with or without its directory, and a list.
    Joining,
    /// The create's outcome is unknown. Sent: a sync with the leader, and a list.
    Recovering,
    /// The list contains nodes that may be ours. Sent: a read of each, for its session.
    Identifying {
        queue: Queue,
    },
    /// Sent: the watches of the plan.
    PlacingWatches {
        plan: Plan,
    },
    /// Sent: the watches of the plan that is probably next, and a list.
    Looking {
        expected: Option<Plan>,
    },
    Waiting {
        plan: Plan,
    },
    /// `is_certain` is false if a read of our node was not answered: another contender may own the
    /// queue by now.
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
            spare: None,
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

    /// Takes the answers to the requests sent.
    pub(super) fn answered(
        &mut self,
        driver: &dyn LockInternalsDriver,
        answers: Vec<(Request, Answer)>,
    ) -> Outcome {
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

    /// Takes one event, while waiting or owning.
    pub(super) fn observed(&mut self, event: Event) -> Outcome {
        match mem::replace(&mut self.state, State::New) {
            State::Waiting { plan } => self.event_while_waiting(plan, event),
            State::Owned { .. } => self.event_while_owner(&event),
            _ => Err(End::protocol("an event while not waiting")),
        }
    }

    /// Our node, if it owns the queue.
    pub(super) fn owned(&self) -> Option<OwnNode> {
        if self.state == (State::Owned { is_certain: true }) {
            self.own.clone()
        } else {
            None
        }
    }

    /// Takes the requests to send now.
    pub(super) fn take_pending(&mut self) -> (Vec<Request>, Pace) {
        (mem::take(&mut self.pending), self.pace)
    }

    pub(super) fn request(
        &mut self,
        state: State,
        requests: impl Into<Vec<Request>>,
        pace: Pace,
    ) -> Outcome {
        self.state = state;
        self.pending = requests.into();
        self.pace = pace;
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
        self.request(State::Joining, [Request::Create, Request::List], Pace::Now)
    }

    /// Creates the directory together with our node. Before the second attempt, and each later one,
    /// the runner looks up which directories are missing. Contenders that begin together may create
    /// each other's directories, so the first attempts are immediate. If attempts keep failing,
    /// directories are also being deleted, so later attempts are paced.
    fn join_with_parents(&mut self) -> Outcome {
        self.may_exist = false;
        let pace = if self.without_directory < IMMEDIATE_ATTEMPTS {
            Pace::Now
        } else {
            Pace::Pause
        };
        self.without_directory = IMMEDIATE_ATTEMPTS.min(self.without_directory + 1);
        self.request(
            State::Joining,
            [Request::CreateWithParents, Request::List],
            pace,
        )
    }

    fn joined(
        &mut self,
        driver: &dyn LockInternalsDriver,
        answers: Vec<(Request, Answer)>,
    ) -> Outcome {
        let [created, listed] = exactly(answers)?;
        match created {
            Answer::Created(node) => {
                let sequence = driver.sequence(&node.name);
                self.may_exist = false;
                let own = self.own.insert(node);
                if sequence.is_none() {
                    return Err(End::protocol(format!(
                        "the server gave our node the name {:?}",
                        own.name
                    )));
                }
                self.take_listing(driver, None, listed)
            }
            Answer::NoParent => self.join_with_parents(),
            // The list may have been answered on another connection than the create, by a server
            // that lags behind.
            Answer::Unknown => self.recover(),
            other => Err(End::unexpected_answer(&Request::Create, &other)),
        }
    }
}

/// Finding our node again when the answer to its create was lost.
impl Entry {
    fn recover(&mut self) -> Outcome {
        self.request(
            State::Recovering,
            [Request::Sync, Request::List],
            Pace::Retry,
        )
    }

    fn recovered(
        &mut self,
        driver: &dyn LockInternalsDriver,
        answers: Vec<(Request, Answer)>,
    ) -> Outcome {
        let [synced, listed] = exactly(answers)?;
        match (synced, listed) {
            (Answer::Done, Answer::Children(children)) => {
                self.identify(driver, Queue::of(children, driver)?)
            }
            (Answer::Done, Answer::NoParent) => self.join_with_parents(),
            (
                Answer::Done | Answer::Unknown,
                Answer::Children(_) | Answer::NoParent | Answer::Unknown,
            ) => self.recover(),
            (Answer::Done | Answer::Unknown, other) => {
                Err(End::unexpected_answer(&Request::List, &other))
            }
            (other, _) => Err(End::unexpected_answer(&Request::Sync, &other)),
        }
    }

    fn identify(&mut self, driver: &dyn LockInternalsDriver, queue: Queue) -> Outcome {
        let prefix = driver.node_prefix(&self.id);
        let requests: Vec<_> = queue
            .iter()
            .filter(|entry| entry.name.starts_with(&prefix))
            .map(|entry| Request::Inspect {
                name: entry.name.clone(),
            })
            .collect();
        if requests.is_empty() {
            // The leader has not applied the create, and after the sync it cannot any more.
            self.may_exist = false;
            return self.join();
        }
        self.request(State::Identifying { queue }, requests, Pace::Now)
    }

    fn identified(
        &mut self,
        driver: &dyn LockInternalsDriver,
        queue: Queue,
        answers: Vec<(Request, Answer)>,
    ) -> Outcome {
        let mut ours = Vec::new();
        let mut has_unknown_answer = false;
        for answer in answers {
            match answer {
                // A node of another session will be deleted when that session expires. Adopting it
                // would allow two holders.
                (
                    Request::Inspect { name },
                    Answer::Node {
                        ephemeral_owner,
                        czxid,
                        ..
                    },
                ) => {
                    if ephemeral_owner == self.session_id {
                        ours.push(OwnNode { name, czxid });
                    }
                }
                (_, Answer::Missing) => {}
                (_, Answer::Unknown) => has_unknown_answer = true,
                (request, other) => return Err(End::unexpected_answer(&request, &other)),
            }
        }
        if has_unknown_answer {
            return self.recover();
        }
        self.may_exist = false;
        // In the order of the queue: the first has the best place.
        let mut ours = ours.into_iter();
        self.own = ours.next();
        self.surplus.extend(ours.map(|node| node.name));
        if self.own.is_some() {
            self.decide(driver, queue)
        } else {
            self.join()
        }
    }
}

pub(super) fn exactly<const N: usize>(answers: Vec<(Request, Answer)>) -> Result<[Answer; N], End> {
    let answers: Vec<_> = answers.into_iter().map(|(_, answer)| answer).collect();
    answers
        .try_into()
        .map_err(|_| End::protocol("wrong number of answers"))
}
