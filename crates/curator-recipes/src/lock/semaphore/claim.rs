//! How the first in the queue of a semaphore comes to its leases, as a state machine without I/O.
//!
//! Only the first in the queue takes leases. So while it is the first, there can only be fewer leases than it has seen,
//! and it need not look again after it has taken some, as Curator does. It takes all its leases and gives its place up
//! in *one* transaction: either all of that is done or nothing, and if somebody has deleted its place meanwhile, nothing.

mod step;
#[cfg(test)]
mod tests;

pub use self::step::{ClaimAnswer, ClaimEvent, ClaimRequest, ClaimStep, Limit};
use super::super::contest::{OwnNode, Pace};

/// The claim of one contender that is the first in the queue, in one session.
///
/// # What the shell must keep to
///
/// As for [`Contest`](super::super::contest::Contest): the requests of a flight go out in order on one session; a request
/// whose answer will not come is [`ClaimAnswer::Unknown`]; watches are kept until their event; events wait until the claim
/// waits. If the claim is dropped, begins anew or fails, the leases that may exist and the place in the queue are deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    quantity: usize,
    /// Whether to wait for leases.
    waits: bool,
    session_id: i64,
    parents_were_created: bool,
    /// Since it waited last, if it did.
    limit_was_created: bool,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    New,
    Looking {
        known: Known,
        asked: Vec<ClaimRequest>,
    },
    CreatingLimit {
        known: Known,
    },
    Waiting {
        known: Known,
    },
    Taking {
        limit: Limit,
    },
    PreparingParents {
        limit: Limit,
    },
    ReadingPlace {
        limit: Limit,
    },
    /// It is not known whether the leases were taken.
    Recovering {
        limit: Limit,
    },
    /// These leases are ours: which transaction has created them?
    Inspecting {
        limit: Limit,
        names: Vec<String>,
    },
    Over,
}

/// What was seen, and cannot have changed to our harm without an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Known {
    leases: Option<usize>,
    limit: Option<Limit>,
}

impl Claim {
    /// A claim of `quantity` leases in the session `session_id`.
    #[must_use]
    pub fn new(session_id: i64, quantity: usize, waits: bool) -> Self {
        let (parents_were_created, limit_was_created) = (false, false);
        Self { quantity, waits, session_id, parents_were_created, limit_was_created, state: State::New }
    }

    /// Begins. `seen` is what was read after our place was seen to be the first: the leases, and the limit.
    pub fn start(&mut self, seen: (Option<usize>, Option<Limit>)) -> ClaimStep {
        let (Some(leases), Some(limit)) = seen else { return self.look(Known::default(), Pace::Now) };
        if self.suffices(leases, limit) {
            return self.take(limit);
        }
        if !self.waits {
            return self.end(ClaimStep::Refused);
        }
        // Nothing is watched yet.
        self.look(Known::default(), Pace::Now)
    }

    /// Takes all the answers to the flight in the air, in the order of its requests.
    pub fn answered(&mut self, answers: Vec<ClaimAnswer>) -> ClaimStep {
        match (std::mem::replace(&mut self.state, State::Over), &*answers) {
            (State::Looking { known, asked }, _) if asked.len() == answers.len() => self.looked(known, asked, answers),
            (State::CreatingLimit { known }, [ClaimAnswer::LimitReady]) => {
                self.limit_was_created = true;
                self.look(known, Pace::Now)
            }
            (State::CreatingLimit { known }, [ClaimAnswer::Unknown]) => self.look(known, Pace::Retry),
            (State::Taking { limit }, [_]) => self.tried(limit, answers),
            (State::PreparingParents { limit }, [ClaimAnswer::ParentsReady]) => self.take(limit),
            (State::PreparingParents { limit }, [ClaimAnswer::NoParent | ClaimAnswer::Unknown]) => {
                self.prepare_parents(limit, Pace::Retry)
            }
            (State::ReadingPlace { limit }, [ClaimAnswer::PlaceRead]) => self.take(limit),
            (State::ReadingPlace { .. }, [ClaimAnswer::PlaceGone]) => self.end(ClaimStep::Restart),
            (State::ReadingPlace { limit }, [ClaimAnswer::Unknown]) => self.read_place(limit, Pace::Retry),
            (State::Recovering { limit }, [ClaimAnswer::Synced, ClaimAnswer::OwnLeases(names)]) => {
                self.recovered(limit, names.clone())
            }
            (
                State::Recovering { limit },
                [ClaimAnswer::Synced | ClaimAnswer::Unknown, ClaimAnswer::OwnLeases(_) | ClaimAnswer::Unknown],
            ) => self.recover(limit),
            (State::Inspecting { names, .. }, [ClaimAnswer::Node { ephemeral_owner, czxid }]) => {
                if *ephemeral_owner != self.session_id {
                    return self.end(ClaimStep::Restart);
                }
                let own = |name| OwnNode { name, czxid: *czxid };
                self.end(ClaimStep::Taken(names.into_iter().map(own).collect()))
            }
            (State::Inspecting { .. }, [ClaimAnswer::Missing]) => self.end(ClaimStep::Restart),
            (State::Inspecting { limit, .. }, [ClaimAnswer::Unknown]) => self.recover(limit),
            _ => self.end(ClaimStep::Failed("the answers do not fit the requests")),
        }
    }

    /// Takes one event, while [`ClaimStep::Wait`] is in force.
    pub fn observed(&mut self, event: ClaimEvent) -> ClaimStep {
        let State::Waiting { mut known } = self.state else {
            return self.end(ClaimStep::Failed("an event while nothing is waited for"));
        };
        match event {
            ClaimEvent::LeasesChanged => known.leases = None,
            ClaimEvent::LimitChanged => known.limit = None,
        }
        self.look(known, Pace::Now)
    }

    /// How many leases there may be, as far as that is known while it waits.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        match &self.state {
            State::Waiting { known } => known.limit,
            _ => None,
        }
    }

    fn suffices(&self, leases: usize, limit: Limit) -> bool {
        leases.checked_add(self.quantity).is_some_and(|then| then <= limit.leases)
    }

    /// Asks for what is not known.
    fn look(&mut self, known: Known, pace: Pace) -> ClaimStep {
        let mut asked = Vec::new();
        if known.limit.is_none() {
            asked.push(ClaimRequest::Limit { watch: self.waits });
        }
        if known.leases.is_none() {
            asked.push(ClaimRequest::Leases { watch: self.waits });
        }
        self.state = State::Looking { known, asked: asked.clone() };
        ClaimStep::Send { requests: asked, pace }
    }

    fn looked(&mut self, mut known: Known, asked: Vec<ClaimRequest>, answers: Vec<ClaimAnswer>) -> ClaimStep {
        let mut no_limit = false;
        for (request, answer) in asked.into_iter().zip(answers) {
            match (request, answer) {
                (ClaimRequest::Leases { .. }, ClaimAnswer::Leases(leases)) => known.leases = Some(leases),
                (ClaimRequest::Limit { .. }, ClaimAnswer::Limit(limit)) => known.limit = Some(limit),
                (ClaimRequest::Limit { .. }, ClaimAnswer::NoLimit) => no_limit = true,
                (_, ClaimAnswer::Unknown) => {}
                _ => return self.end(ClaimStep::Failed("no answer to what was read")),
            }
        }
        match (known.leases, known.limit) {
            _ if no_limit => {
                // As with the parents: somebody is at war with us.
                let pace = if self.limit_was_created { Pace::Retry } else { Pace::Now };
                self.state = State::CreatingLimit { known };
                ClaimStep::Send { requests: vec![ClaimRequest::CreateLimit], pace }
            }
            (Some(leases), Some(limit)) if self.suffices(leases, limit) => self.take(limit),
            (Some(_), Some(_)) if !self.waits => self.end(ClaimStep::Refused),
            (Some(_), Some(_)) => {
                self.limit_was_created = false;
                self.state = State::Waiting { known };
                ClaimStep::Wait
            }
            _ => self.look(known, Pace::Retry),
        }
    }

    fn take(&mut self, limit: Limit) -> ClaimStep {
        self.state = State::Taking { limit };
        let requests = vec![ClaimRequest::Take { quantity: self.quantity, limit }];
        ClaimStep::Send { requests, pace: Pace::Now }
    }

    fn tried(&mut self, limit: Limit, mut answers: Vec<ClaimAnswer>) -> ClaimStep {
        match answers.pop() {
            Some(ClaimAnswer::Taken(leases)) if leases.len() == self.quantity => self.end(ClaimStep::Taken(leases)),
            Some(ClaimAnswer::LimitChanged) => self.look(Known::default(), Pace::Now),
            Some(ClaimAnswer::PlaceWritten) => self.read_place(limit, Pace::Now),
            Some(ClaimAnswer::PlaceGone) => self.end(ClaimStep::Restart),
            Some(ClaimAnswer::NoParent) => self.prepare_parents(limit, Pace::Now),
            Some(ClaimAnswer::Unknown) => self.recover(limit),
            _ => self.end(ClaimStep::Failed("no answer to the taking of leases")),
        }
    }

    fn prepare_parents(&mut self, limit: Limit, pace: Pace) -> ClaimStep {
        // If they go again as soon as they are made, somebody is at war with us.
        let pace = if std::mem::replace(&mut self.parents_were_created, true) { Pace::Retry } else { pace };
        self.state = State::PreparingParents { limit };
        ClaimStep::Send { requests: vec![ClaimRequest::CreateParents], pace }
    }

    /// The leases are the same: we are still the first.
    fn read_place(&mut self, limit: Limit, pace: Pace) -> ClaimStep {
        self.state = State::ReadingPlace { limit };
        ClaimStep::Send { requests: vec![ClaimRequest::Place], pace }
    }

    fn recover(&mut self, limit: Limit) -> ClaimStep {
        self.state = State::Recovering { limit };
        ClaimStep::Send { requests: vec![ClaimRequest::Sync, ClaimRequest::OwnLeases], pace: Pace::Retry }
    }

    fn recovered(&mut self, limit: Limit, names: Vec<String>) -> ClaimStep {
        match names.first() {
            // The leader has not applied it, and after the sync it never will. But we may be late by now.
            None => self.look(Known::default(), Pace::Now),
            Some(first) if names.len() == self.quantity => {
                let request = ClaimRequest::Inspect { name: first.clone() };
                self.state = State::Inspecting { limit, names };
                ClaimStep::Send { requests: vec![request], pace: Pace::Now }
            }
            // Somebody has deleted some of them.
            Some(_) => self.end(ClaimStep::Restart),
        }
    }

    fn end(&mut self, step: ClaimStep) -> ClaimStep {
        self.state = State::Over;
        step
    }
}
