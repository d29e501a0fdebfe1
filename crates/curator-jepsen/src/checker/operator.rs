//! Which holds an operator has ended.

use std::collections::HashMap;

use super::findings::HoldKey;
use super::seen::{Claim, Deletion, Hold, Run};

/// Takes note of the holds that an operator has ended.
pub(crate) fn strike(run: &mut Run) {
    run.struck = struck(run);
}

/// The holds a node of which an operator may have deleted, and the time before that.
///
/// A hold's place is the number of its node in the queue; that of leases is their token. So it is known which node is meant.
/// The read node of a downgraded writer has a number that nobody has written down, while its token is still the writer's: it
/// may be any that its session had at that time, below the path of the lock.
fn struck(run: &Run) -> HashMap<HoldKey, u64> {
    // Few sessions are struck, so few holds are looked at.
    let holds = || run.holds.iter().filter(|hold| run.deletions.contains_key(&hold.session));
    let mut entries = HashMap::new();
    for hold in holds() {
        for claim in &hold.claims {
            let entry = entries.entry(entry(hold, claim)).or_insert(Entry { asked: hold.asked, is_downgraded: false });
            entry.asked = entry.asked.min(hold.asked);
            entry.is_downgraded |= hold.continues.is_some();
        }
    }
    let strikes = |hold: &Hold, claim: &Claim, deletion: &Deletion| {
        let is_below = deletion.node.strip_prefix(&*claim.resource).is_some_and(|rest| rest.starts_with('/'));
        let Entry { asked, is_downgraded } = entries[&entry(hold, claim)];
        let number = claim.place.or(claim.token.filter(|_| !is_downgraded));
        // One that was asked for later has a later node.
        is_below && number.map_or(asked <= deletion.at, |number| number == deletion.created)
    };
    let struck = |hold: &Hold| {
        let deletions = run.deletions.get(&hold.session)?.iter();
        let deletions = deletions.filter(|deletion| hold.claims.iter().any(|claim| strikes(hold, claim, deletion)));
        deletions.map(|deletion| deletion.before).min()
    };
    holds().filter_map(|hold| Some((hold.key, struck(hold)?))).collect()
}

/// What the holds of one owner with one token have in common: re-entries, and downgrades.
#[derive(Debug)]
struct Entry {
    /// When the first of them was asked for.
    asked: u64,
    is_downgraded: bool,
}

fn entry<'a>(hold: &'a Hold, claim: &'a Claim) -> (u32, u32, &'a str, &'a str, Option<i64>) {
    (hold.key.worker, hold.key.life, &hold.owner, &claim.resource, claim.token)
}
