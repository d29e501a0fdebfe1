//! Finds the holds that an operator has ended.

use std::collections::HashMap;

use super::seen::{Claim, Deletion, Hold, Run};

/// Records the holds that an operator may have ended, and those that have certainly lost a node.
///
/// A hold's place is the number of its node in the queue; for leases the token is used. So the deleted node identifies
/// its hold. The read node of a downgraded writer, or beside a write node, has a number that the history does not
/// contain, and the writer's token: such a hold matches any node that its session had below the path of the lock at
/// that time.
pub(crate) fn strike(run: &mut Run) {
    let entries = Entries::of(run);
    let (mut struck, mut deleted) = (HashMap::new(), HashMap::new());
    for hold in struck_sessions(run) {
        for deletion in &run.deletions[&hold.session] {
            let matched = hold.claims.iter().map(|claim| entries.match_deletion(hold, claim, deletion)).max();
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

/// Only the holds of the affected sessions are examined, which are few.
fn struck_sessions(run: &Run) -> impl Iterator<Item = &Hold> {
    run.holds.iter().filter(|hold| run.deletions.contains_key(&hold.session))
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
    /// When the first of them was requested.
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
                let entry =
                    entries.entry(key(hold, claim)).or_insert(Entry { asked: hold.asked, is_downgraded: false });
                entry.asked = entry.asked.min(hold.asked);
                entry.is_downgraded |= hold.continues.is_some();
            }
        }
        Self(entries)
    }

    fn match_deletion(&self, hold: &'a Hold, claim: &'a Claim, deletion: &Deletion) -> Match {
        let is_below = deletion.node.strip_prefix(&*claim.resource).is_some_and(|rest| rest.starts_with('/'));
        let Entry { asked, is_downgraded } = self.0[&key(hold, claim)];
        match claim.place.or(claim.token.filter(|_| !is_downgraded)) {
            Some(number) if is_below && number == deletion.created => Match::Yes,
            // A hold that was requested later has a later node.
            None if is_below && asked <= deletion.at => Match::Perhaps,
            _ => Match::No,
        }
    }
}

fn key<'a>(hold: &'a Hold, claim: &'a Claim) -> Key<'a> {
    (hold.key.worker, hold.key.life, &hold.owner, &claim.resource, claim.token)
}
