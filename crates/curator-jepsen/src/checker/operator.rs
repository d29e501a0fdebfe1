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
/// Where a hold's place is known, it is known which node is meant. Otherwise it may be any that its session had below the
/// path of the lock.
fn struck(run: &Run) -> HashMap<HoldKey, u64> {
    let mut entered = HashMap::new();
    // Few sessions are struck, so few holds are looked at.
    let holds = || run.holds.iter().filter(|hold| run.deletions.contains_key(&hold.session));
    for hold in holds() {
        for claim in &hold.claims {
            let asked = entered.entry(entry(hold, claim)).or_insert(hold.asked);
            *asked = hold.asked.min(*asked);
        }
    }
    let strikes = |hold: &Hold, claim: &Claim, deletion: &Deletion| {
        let is_below = deletion.node.strip_prefix(&*claim.resource).is_some_and(|rest| rest.starts_with('/'));
        is_below
            && match claim.place {
                Some(place) => place == deletion.created,
                // One that was asked for later has a later node.
                None => entered.get(&entry(hold, claim)).is_none_or(|asked| *asked <= deletion.at),
            }
    };
    let struck = |hold: &Hold| {
        let deletions = run.deletions.get(&hold.session)?.iter();
        let deletions = deletions.filter(|deletion| hold.claims.iter().any(|claim| strikes(hold, claim, deletion)));
        deletions.map(|deletion| deletion.before).min()
    };
    holds().filter_map(|hold| Some((hold.key, struck(hold)?))).collect()
}

/// What a re-entry shares with the hold that it enters again: the first acquire is the one that counts.
fn entry<'a>(hold: &'a Hold, claim: &'a Claim) -> (u32, u32, &'a str, &'a str, Option<i64>) {
    (hold.key.worker, hold.key.life, &hold.owner, &claim.resource, claim.token)
}
