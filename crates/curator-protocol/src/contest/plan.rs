//! What a contender waits for.

use super::step::End;
use crate::driver::{LockInternalsDriver, Verdict};
use crate::queue::Queue;

/// What a contender in the queue waits for, and what it will do when that has come.
///
/// ZooKeeper's recipe has everybody watch the one node before it and list the directory again when it goes. Looking one
/// or two places further ahead saves the list at the hand-over: it is done before, while somebody else holds the lock.
/// Whoever shares its blocker with many others does not look ahead
/// ([`looks_ahead`](LockInternalsDriver::looks_ahead)), and is woken once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Plan {
    /// These, one or two, are all that is before us: when the last of them has gone, the lock is ours.
    ///
    /// A later contender can never come before us, so no second look is needed. But we must know that our own node was
    /// there when they went, so it is watched too.
    Outlive { blockers: Vec<String> },
    /// We are further back. When `far`, the second node before us, goes, then `near`, the first, probably holds the
    /// lock: time to make ready, with the lock still out of reach.
    StepForward { far: String, near: String },
    /// When `near` goes, nothing is certain but that it is time to look again.
    LookAgain { near: String },
}

/// What becomes of a plan when a node has gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Next {
    /// Go on waiting, by this plan.
    Wait(Plan),
    /// The lock is ours, if our node was there at that time.
    Own,
    /// List the directory, and place the watches that this plan wants on the way: probably it is the next one.
    Look(Option<Plan>),
}

impl Plan {
    /// What the node at place `own` has to wait for; `None` if it owns the lock.
    pub(super) fn of(driver: &dyn LockInternalsDriver, queue: &Queue, own: usize) -> Result<Option<Self>, End> {
        let Some(near) = Blocker::of(driver, queue, own)? else { return Ok(None) };
        if !driver.predecessors_are_final() {
            // Whatever goes, something may have come before us, so only a look can tell. There is nothing to gain from
            // watching more than one node.
            return Ok(Some(Self::LookAgain { near: near.name }));
        }
        let Some(far) = Blocker::of(driver, &near.rest, own - 1)? else {
            return Ok(Some(Self::Outlive { blockers: vec![near.name] }));
        };
        if !driver.looks_ahead() {
            // Those before it go first, if everybody goes in turn: one event, and one look, however many there are.
            return Ok(Some(Self::LookAgain { near: near.name }));
        }
        Ok(Some(match Blocker::of(driver, &far.rest, own - 2)? {
            None => Self::Outlive { blockers: vec![far.name, near.name] },
            Some(_) => Self::StepForward { far: far.name, near: near.name },
        }))
    }

    /// The nodes before us that have to be watched.
    pub(super) fn ahead(&self) -> &[String] {
        match self {
            Self::Outlive { blockers } => blockers,
            Self::StepForward { far: one, .. } | Self::LookAgain { near: one } => std::slice::from_ref(one),
        }
    }

    /// Whether our own node has to be watched.
    pub(super) fn needs_own(&self) -> bool {
        matches!(self, Self::Outlive { .. })
    }

    /// What follows from a node's having gone.
    pub(super) fn without(self, gone: &str) -> Next {
        if !self.ahead().iter().any(|name| name == gone) {
            return Next::Wait(self);
        }
        match self {
            Self::Outlive { mut blockers } => {
                blockers.retain(|name| name != gone);
                if blockers.is_empty() { Next::Own } else { Next::Wait(Self::Outlive { blockers }) }
            }
            Self::StepForward { near, .. } => Next::Look(Some(Self::Outlive { blockers: vec![near] })),
            Self::LookAgain { .. } => Next::Look(None),
        }
    }
}

/// The nearest node that keeps another from owning the lock, and the queue without it.
struct Blocker {
    name: String,
    rest: Queue,
}

impl Blocker {
    fn of(driver: &dyn LockInternalsDriver, queue: &Queue, own: usize) -> Result<Option<Self>, End> {
        let place = match driver.verdict(queue, own) {
            Verdict::Owns => return Ok(None),
            Verdict::WaitsFor(place) => place,
        };
        match queue.get(place) {
            Some(entry) if place < own => Ok(Some(Self { name: entry.name.clone(), rest: queue.without(place) })),
            _ => Err(End::protocol(format!("the driver has place {own} wait for place {place}"))),
        }
    }
}
