//! The client's side: a contest and the simplest shell that can drive it.

use std::collections::{BTreeSet, VecDeque};

use curator_recipes::lock::contest::{Answer, Contest, ContestError, Event, Request};
use curator_recipes::lock::driver::{
    ContenderId, LockInternalsDriver, ParticipantKind, WriteLockInternalsDriver, downgraded_read_name,
};

use super::server::Creator;

/// A contender with its session and its connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Contender {
    pub(crate) number: u8,
    /// Contests begun, sessions begun.
    pub(crate) contests: u8,
    pub(crate) sessions: u8,
    pub(crate) connected: bool,
    /// Whether anything has happened to it. See `World::actions`.
    pub(crate) touched: bool,
    pub(crate) contest: Contest,
    pub(crate) phase: Phase,
    /// Sent, but not yet done by the server. What is sent while there is no connection waits here for the next one.
    pub(crate) wire: VecDeque<Call>,
    /// The answers to the flight in the air, so far.
    pub(crate) answers: Vec<Answer>,
    pub(crate) watches: Vec<Watch>,
    /// What the watches have seen, in the order in which the server sent it.
    pub(crate) events: VecDeque<Seen>,
    /// Whether this contest's node has ever been the first in the queue, or a reader behind readers only: then it may call
    /// itself the owner.
    pub(crate) was_first: bool,
    /// Whether somebody has deleted this contest's node.
    pub(crate) robbed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// A flight of so many requests is in the air.
    Flying(usize),
    Waiting,
    /// It believes that it owns the lock; `rightful` if that was true at some time.
    ///
    /// It has one node, or two: the write lock's and then the read lock's.
    Owning {
        nodes: Vec<String>,
        rightful: bool,
    },
    /// It has released or was cancelled, and its janitor is at work.
    Cleaning,
    Done,
    Failed(ContestError),
}

/// A request on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    /// Of the flight in the air.
    Wanted(Request),
    /// Of a contest that does not listen any more.
    Unwanted(Request),
    /// The janitor's. It sends it again until it is answered.
    Delete(String),
    /// The janitor's: find the node of this contest, and delete it. In fact these are several requests; but only the
    /// session itself could create such a node meanwhile, and it does not.
    Sweep(Creator),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Watch {
    pub(crate) name: String,
    pub(crate) own: bool,
    /// Whether the connection stands since it was placed.
    pub(crate) certain: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    pub(crate) watch: Watch,
    pub(crate) deleted: bool,
}

impl Contender {
    pub(crate) fn new(number: u8) -> Self {
        Self {
            number,
            contests: 0,
            sessions: 1,
            connected: true,
            touched: false,
            contest: Contest::new(contender_id(number, 0), 0),
            phase: Phase::Done,
            wire: VecDeque::new(),
            answers: Vec::new(),
            watches: Vec::new(),
            events: VecDeque::new(),
            was_first: false,
            robbed: false,
        }
    }

    pub(crate) fn session(&self) -> i64 {
        i64::from(self.number) * 100 + i64::from(self.sessions)
    }

    /// What its present contest's nodes bear.
    pub(crate) fn creator(&self) -> Creator {
        Creator::Contest { contender: self.number, contest: self.contests }
    }

    pub(crate) fn next_contest(&mut self) {
        self.contests += 1;
        self.contest = Contest::new(contender_id(self.number, self.contests), self.session());
        self.drop_contest();
        self.was_first = false;
        self.robbed = false;
    }

    /// What the shell had to do with the contest is over. Requests that are sent stay sent.
    pub(crate) fn drop_contest(&mut self) {
        self.answers.clear();
        self.watches.clear();
        self.events.clear();
        for call in &mut self.wire {
            call.disown();
        }
    }

    pub(crate) fn believes(&self) -> bool {
        matches!(self.phase, Phase::Owning { .. })
    }

    /// Whether it owns as a reader only, and so may own together with other readers.
    pub(crate) fn shares(&self) -> bool {
        self.believes() && self.owned_nodes().iter().all(|name| kind(name) == ParticipantKind::Read)
    }

    /// What it owns the lock by.
    pub(crate) fn owned_nodes(&self) -> &[String] {
        match &self.phase {
            Phase::Owning { nodes, .. } => nodes,
            _ => &[],
        }
    }

    /// The name of the read node beside a write node. Of one contender it comes before the write node in the order of
    /// names, of the next behind it.
    pub(crate) fn downgraded_name(&self, sequence: i32) -> String {
        let contest = if self.number.is_multiple_of(2) { 0 } else { u8::MAX };
        downgraded_read_name(&contender_id(self.number, contest), sequence)
    }

    pub(crate) fn fire(&mut self, name: &str, deleted: bool) {
        let watches = std::mem::take(&mut self.watches).into_iter();
        let (fired, kept): (Vec<_>, _) = watches.partition(|watch| watch.name == name);
        self.watches = kept;
        self.events.extend(fired.into_iter().map(|watch| Seen { watch, deleted }));
    }

    pub(crate) fn watches_each_node_once(&self) -> bool {
        let names: BTreeSet<_> = self.watches.iter().map(|watch| &watch.name).collect();
        names.len() == self.watches.len()
    }

    pub(crate) fn watches_node(&self, name: &str) -> bool {
        self.watches.iter().any(|watch| watch.name == name)
    }

    /// Which of the events at hand the shell may give next.
    pub(crate) fn deliverable(&self) -> impl Iterator<Item = usize> {
        let events = &self.events;
        (0..events.len()).filter(|&i| {
            // The first; or our own node's, which the shell looks at first; or any of those whose order is lost anyway.
            i == 0 || events[i].watch.own || events.range(..=i).all(|seen| !seen.watch.certain)
        })
    }
}

impl Call {
    pub(crate) fn disown(&mut self) {
        if let Self::Wanted(request) = self {
            *self = Self::Unwanted(request.clone());
        }
    }
}

impl Seen {
    pub(crate) fn event(self) -> Event {
        let Watch { name, own, certain } = self.watch;
        match (own, self.deleted) {
            (true, true) => Event::OwnDeleted,
            (true, false) => Event::OwnChanged,
            (false, true) => Event::AheadDeleted { name, certain },
            (false, false) => Event::AheadChanged { name },
        }
    }
}

pub(crate) fn kind(name: &str) -> ParticipantKind {
    WriteLockInternalsDriver.kind(name)
}

fn contender_id(contender: u8, contest: u8) -> ContenderId {
    ContenderId::from_uuid(uuid::Uuid::from_u128(u128::from(contender) << 64 | u128::from(contest)))
}
