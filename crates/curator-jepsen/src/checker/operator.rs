//! Finds the holds that an operator may have ended by deleting their nodes.

use std::collections::HashMap;

use super::seen::{Claim, Deletion, Hold, Run};

/// Records the holds that an operator may have ended, and the holds that have certainly lost a
/// node.
///
/// A hold's place is the number of its node in the queue; for leases the token is used. So the
/// number of a deleted node identifies its hold, with one exception: the read node of a writer
/// (after a downgrade or a re-entry) has a number that the history does not contain, and the
/// writer's token. Such a hold matches any deleted node of its session below the path of the lock.
pub(crate) fn record_struck(run: &mut Run) {
    let entries = Entries::of(run);
    let (mut struck, mut deleted) = (HashMap::new(), HashMap::new());
    for hold in struck_sessions(run) {
        for deletion in &run.deletions[&hold.session] {
            let matched = hold
                .claims
                .iter()
                .map(|claim| entries.match_deletion(hold, claim, deletion))
                .max();
            let matched = matched.unwrap_or(Match::No);
            if matched != Match::No {
                let before = struck.entry(hold.key).or_insert(deletion.before);
                *before = deletion.before.min(*before);
            }
            if matched == Match::Yes && deletion.is_confirmed {
                let after = deleted.entry(hold.key).or_insert(deletion.at);
                *after = deletion.at.min(*after);
            }
        }
    }
    (run.struck, run.deleted) = (struck, deleted);
}

/// The holds in sessions of which an operator has deleted nodes. Only these few holds are examined.
fn struck_sessions(run: &Run) -> impl Iterator<Item = &Hold> {
    run.holds
        .iter()
        .filter(|hold| run.deletions.contains_key(&hold.session))
}

/// Whether a deleted node belongs to a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    No,
    Perhaps,
    Yes,
}

/// The holds of one owner with one token: an acquire with its re-entries and downgrades.
#[derive(Debug)]
struct Entry {
    /// When the first of these holds was requested.
    asked: u64,
    is_downgraded: bool,
}

type Key<'a> = (u32, u32, &'a str, &'a str, Option<i64>);

#[derive(Debug)]
struct Entries<'a>(HashMap<Key<'a>, Entry>);

impl<'a> Entries<'a> {
    fn of(run: &'a Run) -> Self {
        let mut entries = HashMap::new();
        for hold in struck_sessions(run) {
            for claim in &hold.claims {
                let entry = entries.entry(key(hold, claim)).or_insert(Entry {
                    asked: hold.asked,
                    is_downgraded: false,
                });
                entry.asked = entry.asked.min(hold.asked);
                entry.is_downgraded |= hold.continues.is_some();
            }
        }
        Self(entries)
    }

    fn match_deletion(&self, hold: &'a Hold, claim: &'a Claim, deletion: &Deletion) -> Match {
        let is_below = deletion
            .node
            .strip_prefix(&*claim.resource)
            .is_some_and(|rest| rest.starts_with('/'));
        let Entry {
            asked,
            is_downgraded,
        } = self.0[&key(hold, claim)];
        match claim.place.or(claim.token.filter(|_| !is_downgraded)) {
            Some(number) if is_below && number == deletion.created => Match::Yes,
            // A hold that was requested after the delete has a newer node.
            None if is_below && asked <= deletion.at => Match::Perhaps,
            _ => Match::No,
        }
    }
}

fn key<'a>(hold: &'a Hold, claim: &'a Claim) -> Key<'a> {
    (
        hold.key.worker,
        hold.key.life,
        &hold.owner,
        &claim.resource,
        claim.token,
    )
}
