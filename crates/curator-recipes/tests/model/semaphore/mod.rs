//! The semaphore, searched through: the queue, and the claim of its first.
//!
//! What is searched is the contest and the claim that ship. Around them stand a server with a queue, leases and a limit,
//! and for each contender a session as in the model of one queue.

mod answers;
mod client;
mod faults;
mod server;
mod steps;
pub(crate) mod world;

use std::fmt;

use super::scenario::Faults;

/// One bounded world to search through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    /// How many leases each contender wants. Those that are alike stand together.
    quantities: &'static [usize],
    limit: usize,
    /// What the limit is changed to at some time, if at all. Without, it is fixed and has no version.
    changed_to: Option<usize>,
    faults: Faults,
    pub(crate) defect: Option<Defect>,
}

/// What is wrong on purpose. The search must find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// The place in the queue is given up after the take, and not in its transaction.
    GivesThePlaceUpLater,
    /// The take does not check that the limit is still the same.
    TrustsTheLimit,
    /// The watch on the leases never fires.
    LosesLeaseEvents,
    /// A take that was not answered counts as not done; the place is given up after the take.
    TakesAgainBlindly,
    /// The take does not check that nobody has written to the place since it was made or read.
    TakesUnread,
    /// A claim that begins anew leaves the leases that it may have taken.
    LeavesLeases,
}

impl Scenario {
    pub(crate) fn of(quantities: &'static [usize], limit: usize) -> Self {
        Self { quantities, limit, changed_to: None, faults: Faults::NONE, defect: None }
    }

    pub(crate) fn changed_to(self, limit: usize) -> Self {
        Self { changed_to: Some(limit), ..self }
    }

    pub(crate) fn with(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    pub(crate) fn spoilt_by(self, defect: Defect) -> Self {
        Self { defect: Some(defect), ..self }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quantities, limit, changed_to, .. } = self;
        write!(f, "{quantities:?} of {limit} leases")?;
        changed_to.map_or(Ok(()), |then| write!(f, ", then {then}"))
    }
}
