//! The plan of a waiting contender.

use super::step::End;
use crate::driver::{LockInternalsDriver, Verdict};
use crate::queue::Queue;

/// Which nodes a waiting contender watches, and what it does when one is deleted.
///
/// In ZooKeeper's recipe, a contender watches the node before it, and lists the directory again
/// when that node is deleted. Watching one or two nodes further ahead moves this list from the
/// hand-over to an earlier time, while another contender holds the lock. A contender that shares
/// its blocker with many others does not look ahead
/// ([`looks_ahead`](LockInternalsDriver::looks_ahead)), and is woken once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Plan {
    /// Only these one or two nodes block us: when the last of them is deleted, the lock is ours.
    ///
    /// A later contender cannot get ahead of us, so no further list is needed. But our own node
    /// must have existed when they were deleted, so it is watched too.
    Outlive { blockers: Vec<String> },
    /// More nodes block us. When `far`, the second nearest, is deleted, `near`, the nearest,
    /// probably holds the lock. The directory is listed then, for the next plan.
    StepForward { far: String, near: String },
    /// When `near` is deleted, the directory has to be listed again.
    LookAgain { near: String },
}

/// What follows when a node of the plan is deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Next {
    /// Keep waiting, with this plan.
    Wait(Plan),
    /// The lock is ours, provided that our node existed at that time.
    Own,
    /// List the directory, and in the same pipeline place the watches of this plan, which is
    /// probably the next.
    Look(Option<Plan>),
}

impl Plan {
    /// The plan of the node at place `own`; `None` if it owns the lock.
    pub(super) fn for_node(
        driver: &dyn LockInternalsDriver,
        mut queue: Queue,
        own: usize,
    ) -> Result<Option<Self>, End> {
        let Some(near) = take_blocker(driver, &mut queue, own)? else {
            return Ok(None);
        };
        if !driver.predecessors_are_final() {
            // After any deletion, another node may have appeared before us, so only a list
            // decides. Watching a second node saves nothing.
            return Ok(Some(Self::LookAgain { near }));
        }
        let Some(far) = take_blocker(driver, &mut queue, own - 1)? else {
            return Ok(Some(Self::Outlive {
                blockers: vec![near],
            }));
        };
        if !driver.looks_ahead() {
            // Usually, nodes further ahead are deleted earlier. Then the waiter needs one event and
            // one list, however many nodes are before it.
            return Ok(Some(Self::LookAgain { near }));
        }
        Ok(Some(match take_blocker(driver, &mut queue, own - 2)? {
            None => Self::Outlive {
                blockers: vec![far, near],
            },
            Some(_) => Self::StepForward { far, near },
        }))
    }

    /// The plan of a contender that may wait only while enough leases are left for it. Each node
    /// ahead either takes at least one lease or leaves the queue. `spare` of them can take one
    /// each. When the next node is deleted, probably too few leases are left, and the contest is
    /// refused without waiting for the nodes in between. So the contender watches the node at place
    /// `spare`, or the nearest blocker if that comes first.
    pub(super) fn while_leases_are_left(
        driver: &dyn LockInternalsDriver,
        queue: &Queue,
        own: usize,
        spare: usize,
    ) -> Option<Self> {
        let Verdict::WaitsFor(nearest) = driver.verdict(queue, own) else {
            return None;
        };
        let near = queue.get(nearest.min(spare))?.name.clone();
        Some(Self::LookAgain { near })
    }

    /// The nodes before us that must be watched.
    pub(super) fn ahead(&self) -> &[String] {
        match self {
            Self::Outlive { blockers } => blockers,
            Self::StepForward { far: one, .. } | Self::LookAgain { near: one } => {
                std::slice::from_ref(one)
            }
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
    pub(super) fn after_deletion(self, gone: &str) -> Next {
        if !self.ahead().iter().any(|name| name == gone) {
            return Next::Wait(self);
        }
        match self {
            Self::Outlive { mut blockers } => {
                blockers.retain(|name| name != gone);
                if blockers.is_empty() {
                    Next::Own
                } else {
                    Next::Wait(Self::Outlive { blockers })
                }
            }
            Self::StepForward { near, .. } => Next::Look(Some(Self::Outlive {
                blockers: vec![near],
            })),
            Self::LookAgain { .. } => Next::Look(None),
        }
    }
}

/// Removes the nearest node that blocks the node at place `own`, and returns its name; `None` if no
/// node blocks it.
fn take_blocker(
    driver: &dyn LockInternalsDriver,
    queue: &mut Queue,
    own: usize,
) -> Result<Option<String>, End> {
    let place = match driver.verdict(queue, own) {
        Verdict::Owns => return Ok(None),
        Verdict::WaitsFor(place) => place,
    };
    if place >= own || place >= queue.len() {
        return Err(End::protocol(format!(
            "the driver lets place {own} wait for place {place}"
        )));
    }
    Ok(Some(queue.entries.remove(place).name))
}
