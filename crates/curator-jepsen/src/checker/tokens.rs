//! Checks that each token belongs to one acquire.

use std::collections::HashMap;

use super::findings::{HoldKey, Kind, Violation};
use super::seen::{Claim, Hold, Run};

/// Finds acquires with the same token, and holds that continue a write hold with another token than
/// the writer's.
pub(crate) fn check(run: &Run, found: &mut Vec<Violation>) {
    let mut first = HashMap::<(&str, i64), HoldKey>::new();
    let holds: HashMap<_, _> = run
        .holds
        .iter()
        .filter(|hold| !hold.claims.is_empty())
        .map(|hold| (hold.key, hold))
        .collect();
    for hold in &run.holds {
        for (claim, token) in hold
            .claims
            .iter()
            .filter_map(|claim| Some((claim, claim.token?)))
        {
            if hold.is_new_acquire() {
                let other = *first.entry((&claim.resource, token)).or_insert(hold.key);
                if other != hold.key {
                    found.push(violation(
                        hold,
                        other,
                        &format!("the token {token} at {}, the same as", claim.resource),
                    ));
                }
            } else if let Some(old) = hold.continues.and_then(|id| {
                holds.get(&HoldKey {
                    hold: id,
                    ..hold.key
                })
            }) && let Some(before) = token_of(old, claim)
                && before != token
            {
                found.push(violation(
                    hold,
                    old.key,
                    &format!("the token {token} instead of {before}, the token of"),
                ));
            }
        }
    }
}

fn token_of(hold: &Hold, claim: &Claim) -> Option<i64> {
    hold.claims
        .iter()
        .find(|other| other.resource == claim.resource)?
        .token
}

fn violation(hold: &Hold, other: HoldKey, what: &str) -> Violation {
    let (key, at, part) = (hold.key, hold.begin(), hold.part.to_string());
    Violation {
        kind: Kind::Token,
        part,
        at,
        holds: vec![key, other],
        detail: format!("{key} has {what} {other}"),
    }
}
