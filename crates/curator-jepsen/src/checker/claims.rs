//! Computes the times in which each hold claims its resources. `checker/mod.rs` defines the
//! *certain time* and the *promise* of a hold.

use std::collections::BTreeMap;

use super::findings::HoldKey;
use super::seen::{Claim, Hold, Run};

/// One claim of a hold, with its times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span<'a> {
    pub(crate) hold: &'a Hold,
    pub(crate) claim: &'a Claim,
    /// The start of the certain time.
    pub(crate) start: u64,
    /// The end of the certain time; not before `start`.
    pub(crate) certain: u64,
    /// The end of the promise; not before `certain`.
    pub(crate) promised: u64,
    /// The end of the certain time if operators' deletes of the hold's node did not count; not
    /// before `certain`.
    pub(crate) believed: u64,
}

/// The claims on each resource, in the order of the starts.
pub(crate) fn by_resource(run: &Run) -> BTreeMap<&str, Vec<Span<'_>>> {
    let begins = run.begins();
    let mut resources = BTreeMap::<_, Vec<_>>::new();
    for hold in &run.holds {
        let Some(certain) = certain(run, hold) else {
            continue;
        };
        let promised = certain.max(hold.until.min(given_up(run, hold)));
        let believed = certain.max(believed(hold).unwrap_or_default());
        // If this read hold continues a write hold, or was added to one, the owner has had at least
        // a reader's claim since the start of the write hold: a downgrade replaces the write node
        // by the read node atomically.
        let before = hold.continues.and_then(|continued| {
            begins.get(&HoldKey {
                hold: continued,
                ..hold.key
            })
        });
        let start = before.map_or(hold.begin(), |before| hold.begin().min(*before));
        if certain >= start {
            for claim in &hold.claims {
                let span = Span {
                    hold,
                    claim,
                    start,
                    certain,
                    promised,
                    believed,
                };
                resources.entry(&*claim.resource).or_default().push(span);
            }
        }
    }
    for spans in resources.values_mut() {
        spans.sort_by_key(|span| (span.start, span.hold.key));
    }
    resources
}

/// The end of the certain time of a hold. `None` if the hold was never found valid.
pub(crate) fn certain(run: &Run, hold: &Hold) -> Option<u64> {
    Some(believed(hold)?.min(run.struck(hold.key)))
}

/// The same as [`certain`], but ignores an operator's delete of the node.
fn believed(hold: &Hold) -> Option<u64> {
    Some(
        hold.valid?
            .min(hold.invalid.unwrap_or(u64::MAX))
            .min(hold.releasing.unwrap_or(u64::MAX)),
    )
}

/// When the owner started to release the hold, or an operator started to delete its node: the
/// earlier time.
fn given_up(run: &Run, hold: &Hold) -> u64 {
    hold.releasing.unwrap_or(u64::MAX).min(run.struck(hold.key))
}
