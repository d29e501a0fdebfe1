//! The client's side: a contest and the simplest shell that can drive it.

use std::collections::VecDeque;

use curator_recipes::lock::contest::{Answer, Contest, ContestError, Event, Request};
use curator_recipes::lock::driver::ContenderId;

/// A contender with its session and its connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contender {
    pub number: u8,
    /// Contests begun, sessions begun.
    pub contests: u8,
    pub sessions: u8,
    pub connected: bool,
    /// Whether anything has happened to it. See `World::actions`.
    pub touched: bool,
    pub contest: Contest,
    pub phase: Phase,
    /// Sent, but not yet done by the server. What is sent while there is no connection waits here for the next one.
    pub wire: VecDeque<Call>,
    /// The answers to the flight in the air, so far.
    pub answers: Vec<Answer>,
    pub watches: Vec<Watch>,
    /// What the watches have seen, in the order in which the server sent it.
    pub events: VecDeque<Seen>,
    /// Whether this contest's node has ever been the first in the queue: then it may call itself the owner.
    pub was_first: bool,
    /// Whether somebody has deleted this contest's node.
    pub robbed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// A flight of so many requests is in the air.
    Flying(usize),
    Waiting,
    /// It believes that it owns the lock; `rightful` if that was true at some time.
    Owning { node: String, rightful: bool },
    /// It has released or was cancelled, and its janitor is at work.
    Cleaning,
    Done,
    Failed(ContestError),
}

/// A request on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// Of the flight in the air.
    Wanted(Request),
    /// Of a contest that does not listen any more; of the creates, under which name and by whom.
    Unwanted(Request),
    /// The janitor's. It sends it again until it is answered.
    Delete(String),
    /// The janitor's: find the node whose name begins like this, and delete it. In fact these are several requests; but
    /// only the session itself could create such a node, and it does not.
    Sweep(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watch {
    pub name: String,
    pub own: bool,
    /// Whether the connection stands since it was placed.
    pub certain: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    pub watch: Watch,
    pub deleted: bool,
}

impl Contender {
    pub fn new(number: u8) -> Self {
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

    pub fn session(&self) -> i64 {
        i64::from(self.number) * 100 + i64::from(self.sessions)
    }

    pub fn next_contest(&mut self) {
        self.contests += 1;
        self.contest = Contest::new(contender_id(self.number, self.contests), self.session());
        self.drop_contest();
        self.was_first = false;
        self.robbed = false;
    }

    /// What the shell had to do with the contest is over. Requests that are sent stay sent.
    pub fn drop_contest(&mut self) {
        self.answers.clear();
        self.watches.clear();
        self.events.clear();
        for call in &mut self.wire {
            call.disown();
        }
    }

    pub fn believes(&self) -> bool {
        matches!(self.phase, Phase::Owning { .. })
    }

    /// Which of the events at hand the shell may give next.
    pub fn deliverable(&self) -> impl Iterator<Item = usize> {
        let events = &self.events;
        (0..events.len()).filter(|&i| {
            // The first; or our own node's, which the shell looks at first; or any of those whose order is lost anyway.
            i == 0 || (events[i].watch.own && events[i].deleted) || events.range(..=i).all(|seen| !seen.watch.certain)
        })
    }
}

impl Call {
    pub fn disown(&mut self) {
        if let Self::Wanted(request) = self {
            *self = Self::Unwanted(request.clone());
        }
    }
}

impl Seen {
    pub fn event(self) -> Event {
        let Watch { name, own, certain } = self.watch;
        match (own, self.deleted) {
            (true, true) => Event::OwnDeleted,
            (true, false) => Event::OwnChanged,
            (false, true) => Event::AheadDeleted { name, certain },
            (false, false) => Event::AheadChanged { name },
        }
    }
}

fn contender_id(contender: u8, contest: u8) -> ContenderId {
    ContenderId::from_uuid(uuid::Uuid::from_u128(u128::from(contender) << 64 | u128::from(contest)))
}
