//! What a contender waits for.

use super::step::End;
use crate::driver::{LockInternalsDriver, Verdict};
use crate::queue::Queue;

/// What a contender in the queue waits for, and what it does when that has happened.
///
/// In ZooKeeper's recipe, every contender watches the one node before it, and lists the directory again when that node
/// is deleted. Looking one or two places further ahead saves the list at the hand-over: it is done earlier, while
/// someone else holds the lock. A contender that shares its blocker with many others does not look ahead
/// ([`looks_ahead`](LockInternalsDriver::looks_ahead)), and is woken once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Plan {
    /// These one or two nodes are all that is before us: when the last of them is gone, the lock is ours.
    ///
    /// A later contender can never get before us, so no second look is needed. But we must know that our own node
    /// existed when they went away, so it is watched too.
    Outlive { blockers: Vec<String> },
    /// We are further back. When `far`, the second node before us, is gone, then `near`, the first, probably holds the
    /// lock: time to get ready, although the lock is still out of reach.
    StepForward { far: String, near: String },
    /// When `near` is gone, nothing is certain except that it is time to look again.
    LookAgain { near: String },
}

/// What follows for a plan when a node is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Next {
    /// Keep waiting, by this plan.
    Wait(Plan),
    /// The lock is ours, provided that our node existed at that time.
    Own,
    /// List the directory, and place the watches for this plan along with it: it is probably the next one.
    Look(Option<Plan>),
}

impl Plan {
    /// The plan of the node at place `own`; `None` if it owns the lock.
    pub(super) fn of(driver: &dyn LockInternalsDriver, mut queue: Queue, own: usize) -> Result<Option<Self>, End> {
        let Some(near) = take_blocker(driver, &mut queue, own)? else { return Ok(None) };
        if !driver.predecessors_are_final() {
            // Whichever node goes away, another may have come before us, so only a look can tell. There is nothing to
            // gain from watching more than one node.
            return Ok(Some(Self::LookAgain { near }));
        }
        let Some(far) = take_blocker(driver, &mut queue, own - 1)? else {
            return Ok(Some(Self::Outlive { blockers: vec![near] }));
        };
        if !driver.looks_ahead() {
            // If the others leave in turn, those before it leave first: one event, and one look, however many there are.
            return Ok(Some(Self::LookAgain { near }));
        }
        Ok(Some(match take_blocker(driver, &mut queue, own - 2)? {
            None => Self::Outlive { blockers: vec![far, near] },
            Some(_) => Self::StepForward { far, near },
        }))
    }

    /// The nodes before us that must be watched.
    pub(super) fn ahead(&self) -> &[String] {
        match self {
            Self::Outlive { blockers } => blockers,
            Self::StepForward { far: one, .. } | Self::LookAgain { near: one } => std::slice::from_ref(one),
        }
    }

    /// The nearest node that blocks ours.
    pub(super) fn nearest(&self) -> &str {
        match self {
            Self::Outlive { blockers } => blockers.last().map_or("", String::as_str),
            Self::StepForward { near, .. } | Self::LookAgain { near } => near,
        }
    }

    /// Whether our own node must be watched.
    pub(super) fn needs_own(&self) -> bool {
        matches!(self, Self::Outlive { .. })
    }

    /// What follows when the node `gone` is deleted.
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

/// Takes the nearest node that blocks another from owning the lock out of the queue.
fn take_blocker(driver: &dyn LockInternalsDriver, queue: &mut Queue, own: usize) -> Result<Option<String>, End> {
    let place = match driver.verdict(queue, own) {
        Verdict::Owns => return Ok(None),
        Verdict::WaitsFor(place) => place,
    };
    if place >= own || place >= queue.len() {
        return Err(End::protocol(format!("the driver has place {own} wait for place {place}")));
    }
    Ok(Some(queue.entries.remove(place).name))
}
