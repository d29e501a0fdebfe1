//! Computes for how long each hold claims its resources.

use std::collections::BTreeMap;

use super::findings::HoldKey;
use super::seen::{Claim, Hold, Run};

/// One claim of a hold, with its times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span<'a> {
    pub(crate) hold: &'a Hold,
    pub(crate) claim: &'a Claim,
    /// When the certain time begins.
    pub(crate) start: u64,
    /// When the certain time ends; not before `start`.
    pub(crate) certain: u64,
    /// When the promise ends; not before `certain`.
    pub(crate) promised: u64,
    /// When the certain time would end if operators' deletes of its node did not count; not before `certain`.
    pub(crate) believed: u64,
}

/// The claims on each resource, in the order of their start.
pub(crate) fn by_resource(run: &Run) -> BTreeMap<&str, Vec<Span<'_>>> {
    let begins = run.begins();
    let mut resources = BTreeMap::<_, Vec<_>>::new();
    for hold in &run.holds {
        let Some(certain) = certain(run, hold) else { continue };
        let promised = certain.max(hold.until.min(given_up(run, hold)));
        let believed = certain.max(believed(hold).unwrap_or_default());
        // The read node replaced the write node atomically, so the owner has held at least as a reader since the
        // writer's start.
        let before = hold.continues.and_then(|continued| begins.get(&HoldKey { hold: continued, ..hold.key }));
        let start = before.map_or(hold.begin(), |before| hold.begin().min(*before));
        if certain >= start {
            for claim in &hold.claims {
                let span = Span { hold, claim, start, certain, promised, believed };
                resources.entry(&*claim.resource).or_default().push(span);
            }
        }
    }
    for spans in resources.values_mut() {
        spans.sort_by_key(|span| (span.start, span.hold.key));
    }
    resources
}

/// When the certain time of a hold ends. `None` if the hold was never found valid.
pub(crate) fn certain(run: &Run, hold: &Hold) -> Option<u64> {
    Some(believed(hold)?.min(run.struck(hold.key)))
}

/// As [`certain`], but ignores an operator's delete of the node.
fn believed(hold: &Hold) -> Option<u64> {
    Some(hold.valid?.min(hold.invalid.unwrap_or(u64::MAX)).min(hold.releasing.unwrap_or(u64::MAX)))
}

/// When the owner began to release the hold, or an operator began to delete its node, whichever is earlier.
fn given_up(run: &Run, hold: &Hold) -> u64 {
    hold.releasing.unwrap_or(u64::MAX).min(run.struck(hold.key))
}
