//! The client's side: a joint contest and the simplest shell that can drive it.

use std::collections::VecDeque;

use curator_recipes::lock::contest::{Answer, Event, Request};
use curator_recipes::lock::driver::ContenderId;

use super::apart::Machine;
use super::server::Creator;
use super::{Defect, Scenario};

/// A contender with its session and its connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) number: u8,
    /// Contests begun, sessions begun.
    pub(super) contests: u8,
    pub(super) sessions: u8,
    pub(super) connected: bool,
    /// Whether anything has happened to it.
    pub(super) touched: bool,
    pub(super) machine: Machine,
    pub(super) phase: Phase,
    /// Sent, but not yet done by the server. What is sent while there is no connection waits here for the next one.
    pub(super) wire: VecDeque<Call>,
    /// The answers to the flight in the air, so far.
    pub(super) answers: Vec<(usize, Answer)>,
    pub(super) watches: Vec<Watch>,
    /// What the watches have seen, in the order in which the server sent it.
    pub(super) events: VecDeque<Seen>,
    /// Whether this contest's nodes have ever been first in all queues at one time: then it may call itself the owner.
    pub(super) was_first: bool,
    /// For each queue, whether somebody has deleted this contest's node.
    pub(super) robbed: Vec<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// A flight of so many requests is in the air.
    Flying(usize),
    Waiting,
    /// It believes that it owns all the queues by these nodes; `rightful` if that was true at some time, or
    /// it is being told that it is not any more.
    Owning {
        nodes: Vec<(usize, String)>,
        rightful: bool,
    },
    /// It has released or was cancelled, and its janitor is at work.
    Cleaning,
    Done,
    Failed(String),
}

/// A request on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Call {
    /// Of the contest: of these of its queues, in one request.
    Contest { requests: Vec<(usize, Request)>, creator: Creator, wanted: bool },
    /// The janitor's. It sends it again until it is answered. With the directory.
    Delete(usize, String),
    /// The janitor's: find the node of this contest in this directory, and delete it.
    Sweep(usize, Creator),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    pub(super) dir: usize,
    pub(super) name: String,
    pub(super) own: bool,
    /// Whether the connection stands since it was placed.
    pub(super) certain: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    pub(super) watch: Watch,
    pub(super) deleted: bool,
}

impl Client {
    pub(super) fn new(number: u8) -> Self {
        Self {
            number,
            contests: 0,
            sessions: 1,
            connected: true,
            touched: false,
            machine: Machine::joint(contender_id(number, 0), 0, 0),
            phase: Phase::Done,
            wire: VecDeque::new(),
            answers: Vec::new(),
            watches: Vec::new(),
            events: VecDeque::new(),
            was_first: false,
            robbed: Vec::new(),
        }
    }

    pub(super) fn session(&self) -> i64 {
        i64::from(self.number) * 100 + i64::from(self.sessions)
    }

    /// What its present contest's nodes bear.
    pub(super) fn creator(&self) -> Creator {
        Creator::Contest { client: self.number, contest: self.contests }
    }

    pub(super) fn id(&self) -> ContenderId {
        contender_id(self.number, self.contests)
    }

    pub(super) fn next_contest(&mut self, scenario: &Scenario) {
        self.drop_contest();
        self.contests += 1;
        let queues = scenario.wants[usize::from(self.number)].len();
        let new = if scenario.defect == Some(Defect::ReentersAlone) { Machine::apart } else { Machine::joint };
        self.machine = new(self.id(), self.session(), queues);
        self.robbed = vec![false; queues];
        self.was_first = false;
    }

    /// What the shell had to do with the contest is over. Requests that are sent stay sent.
    pub(super) fn drop_contest(&mut self) {
        self.answers.clear();
        self.watches.clear();
        self.events.clear();
        self.disown();
    }

    pub(super) fn disown(&mut self) {
        for call in &mut self.wire {
            if let Call::Contest { wanted, .. } = call {
                *wanted = false;
            }
        }
    }

    pub(super) fn is_owner(&self) -> bool {
        matches!(self.phase, Phase::Owning { .. })
    }

    pub(super) fn fire(&mut self, dir: usize, name: &str, deleted: bool) {
        let watches = std::mem::take(&mut self.watches).into_iter();
        let (fired, kept): (Vec<_>, _) = watches.partition(|watch| watch.dir == dir && watch.name == name);
        self.watches = kept;
        self.events.extend(fired.into_iter().map(|watch| Seen { watch, deleted }));
    }

    /// Which of the events at hand the shell may give next.
    pub(super) fn deliverable(&self) -> impl Iterator<Item = usize> {
        let events = &self.events;
        (0..events.len()).filter(|&i| {
            // The first; or our own node's, which the shell looks at first; or any of those whose order is lost anyway.
            i == 0 || events[i].watch.own || events.range(..=i).all(|seen| !seen.watch.certain)
        })
    }

    /// Whether it is being told, without having to ask, that something is up with this node of its own.
    pub(super) fn is_told(&self, dir: usize, name: &str) -> bool {
        let is_it = |watch: &Watch| watch.own && watch.dir == dir && watch.name == name;
        self.events.iter().any(|seen| is_it(&seen.watch)) || self.watches.iter().any(is_it)
    }
}

impl Seen {
    pub(super) fn event(self) -> Event {
        let Watch { name, own, certain, .. } = self.watch;
        match (own, self.deleted) {
            (true, true) => Event::OwnDeleted,
            (true, false) => Event::OwnChanged,
            (false, true) => Event::AheadDeleted { name, certain },
            (false, false) => Event::AheadChanged { name },
        }
    }
}

fn contender_id(client: u8, contest: u8) -> ContenderId {
    ContenderId::from_uuid(uuid::Uuid::from_u128(u128::from(client) << 64 | u128::from(contest)))
}
