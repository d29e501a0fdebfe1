//! The client's side: a contest, then a claim, and the simplest shell that can drive them.

use std::collections::VecDeque;

use curator_recipes::lock::contest::{Answer, Event, JointContest, Request};
use curator_recipes::lock::driver::ContenderId;
use curator_recipes::lock::semaphore::claim::{Claim, ClaimAnswer, ClaimRequest, Limit};

use super::server::Creator;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) number: u8,
    /// Contests begun, sessions begun.
    pub(super) contests: u8,
    pub(super) sessions: u8,
    pub(super) connected: bool,
    /// Whether anything has happened to it.
    pub(super) touched: bool,
    pub(super) contest: JointContest,
    /// The leases and the limit, if they were read with the list of the last flight.
    pub(super) beside: Option<(usize, Limit)>,
    /// What it has won with, and its claim.
    pub(super) claim: Option<(String, Claim)>,
    /// Whether a take was sent.
    pub(super) took: bool,
    /// The version of its place that it has read or made.
    pub(super) place_version: u8,
    pub(super) phase: Phase,
    /// Sent, but not yet done by the server.
    pub(super) wire: VecDeque<Call>,
    pub(super) answers: Vec<Answer>,
    pub(super) claim_answers: Vec<ClaimAnswer>,
    /// On nodes in the queue, and what they have seen.
    pub(super) watches: Vec<Watch>,
    pub(super) events: VecDeque<Seen>,
    pub(super) leases: OneWatch,
    pub(super) limit: OneWatch,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// A flight of the contest is in the air, of so many requests.
    Flying(usize),
    Waiting,
    /// A flight of the claim is in the air, of so many requests.
    Claiming(usize),
    WaitingForLeases,
    Holding(Vec<String>),
    /// It has released or was cancelled, and its janitor is at work.
    Cleaning,
    Done,
    Failed(String),
}

/// A request on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Call {
    Contest {
        request: Request,
        creator: Creator,
        wanted: bool,
    },
    Claim {
        request: ClaimRequest,
        creator: Creator,
        place: String,
        /// The version that the place must have, when it is given up.
        version: u8,
        wanted: bool,
    },
    /// The janitor's. It sends them again until they are answered.
    Delete(String),
    DeleteLease(String),
    Sweep(Creator),
    SweepLeases(Creator),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    pub(super) name: String,
    pub(super) own: bool,
    /// Whether the connection stands since it was placed.
    pub(super) certain: bool,
}

/// What a watch has seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    pub(super) watch: Watch,
    /// Else the node was written.
    pub(super) deleted: bool,
}

/// The watch on the leases or on the limit. A new one takes the place of the last, whatever that has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum OneWatch {
    #[default]
    None,
    Placed,
    /// It will be told when there is a connection again.
    Missed,
    Fired,
}

impl Client {
    pub(super) fn new(number: u8) -> Self {
        Self {
            number,
            contests: 0,
            sessions: 1,
            connected: true,
            touched: false,
            contest: JointContest::new(contender_id(number, 0), 0, 1),
            beside: None,
            claim: None,
            took: false,
            place_version: 0,
            phase: Phase::Done,
            wire: VecDeque::new(),
            answers: Vec::new(),
            claim_answers: Vec::new(),
            watches: Vec::new(),
            events: VecDeque::new(),
            leases: OneWatch::None,
            limit: OneWatch::None,
        }
    }

    pub(super) fn session(&self) -> i64 {
        i64::from(self.number) * 100 + i64::from(self.sessions)
    }

    pub(super) fn creator(&self) -> Creator {
        Creator { client: self.number, contest: self.contests }
    }

    pub(super) fn next_contest(&mut self) {
        self.drop_contest();
        self.contests += 1;
        self.contest = JointContest::new(contender_id(self.number, self.contests), self.session(), 1);
    }

    /// What the shell had to do with the contest and the claim is over. Requests that are sent stay sent.
    pub(super) fn drop_contest(&mut self) {
        self.answers.clear();
        self.claim_answers.clear();
        self.watches.clear();
        self.events.clear();
        self.leases = OneWatch::None;
        self.limit = OneWatch::None;
        self.beside = None;
        self.claim = None;
        self.took = false;
        self.place_version = 0;
        self.disown();
    }

    pub(super) fn disown(&mut self) {
        for call in &mut self.wire {
            if let Call::Contest { wanted, .. } | Call::Claim { wanted, .. } = call {
                *wanted = false;
            }
        }
    }

    pub(super) fn fire(&mut self, name: &str, deleted: bool) {
        let (fired, kept): (Vec<_>, _) = std::mem::take(&mut self.watches).into_iter().partition(|w| w.name == name);
        self.watches = kept;
        self.events.extend(fired.into_iter().map(|watch| Seen { watch, deleted }));
    }

    /// Which of the events in the queue the shell may give next.
    pub(super) fn deliverable(&self) -> impl Iterator<Item = usize> {
        let events = &self.events;
        (0..events.len())
            .filter(|&i| i == 0 || events[i].watch.own || events.range(..=i).all(|seen| !seen.watch.certain))
    }
}

impl Seen {
    pub(super) fn event(self) -> Event {
        let Watch { name, own, certain } = self.watch;
        match (own, self.deleted) {
            (true, true) => Event::OwnDeleted,
            (true, false) => Event::OwnChanged,
            (false, true) => Event::AheadDeleted { name, certain },
            (false, false) => Event::AheadChanged { name },
        }
    }
}

impl OneWatch {
    pub(super) fn fire(&mut self, connected: bool) {
        if *self == Self::Placed {
            *self = if connected { Self::Fired } else { Self::Missed };
        }
    }

    pub(super) fn reconnect(&mut self) {
        if *self == Self::Missed {
            *self = Self::Fired;
        }
    }
}

pub(super) fn contender_id(client: u8, contest: u8) -> ContenderId {
    ContenderId::from_uuid(uuid::Uuid::from_u128(u128::from(client) << 64 | u128::from(contest)))
}
