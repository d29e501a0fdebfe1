//! Checks tokens and places: a later hold has a greater token, and a later place in the queue; and
//! each token belongs to one acquire.

use std::collections::HashMap;

use super::findings::{HoldKey, Kind, Violation};
use super::run::{Claim, Hold, Run, Span};

/// Finds holds that follow a hold with a greater token, or with a later place. At least one of the
/// two must be exclusive.
pub(crate) fn check_order(
    run: &Run,
    resource: &str,
    spans: &[Span<'_>],
    found: &mut Vec<Violation>,
) {
    let mut report = |kind, what: &str, number: fn(&Span<'_>) -> Option<i64>| {
        for (later, earlier) in inversions(spans, number) {
            let [new, old] = [later, earlier].map(|span| number(span).unwrap_or_default());
            let key = later.hold.key;
            let other = earlier.hold.key;
            found.push(Violation {
                kind,
                part: later.hold.part.to_string(),
                at: later.start,
                holds: vec![key, other],
                detail: format!(
                    "{key} has the {what} {new} at {resource}, after {other} with {old}, which ended after {}",
                    run.time(earlier.certain)
                ),
            });
        }
    };
    report(Kind::Token, "token", |span| span.claim.token);
    report(Kind::Fifo, "place", |span| span.claim.place);
}

/// Pairs of a hold, and a hold with a greater number that certainly ended before it. At least one
/// of the two is exclusive.
fn inversions<'a>(
    spans: &'a [Span<'a>],
    number: fn(&Span<'_>) -> Option<i64>,
) -> Vec<(&'a Span<'a>, &'a Span<'a>)> {
    let mut moments: Vec<_> = spans
        .iter()
        .filter_map(|span| number(span).map(|number| (number, span)))
        .flat_map(|(number, span)| {
            [
                (span.start, false, number, span),
                (span.certain, true, number, span),
            ]
        })
        .collect();
    // At equal times, starts are sorted before ends: a span that starts when another ends does not
    // certainly follow it.
    moments.sort_by_key(|(at, is_end, number, span)| (*at, *is_end, *number, span.hold.key));
    let mut greatest: Option<(i64, &Span<'_>)> = None;
    let mut greatest_exclusive: Option<(i64, &Span<'_>)> = None;
    let mut inversions = Vec::new();
    let raise = |greatest: &mut Option<(i64, &'a Span<'a>)>, number, span| {
        if greatest.is_none_or(|(greatest, _)| greatest < number) {
            *greatest = Some((number, span));
        }
    };
    for (_, is_end, number, span) in moments {
        let is_exclusive = span.claim.is_exclusive();
        if is_end {
            raise(&mut greatest, number, span);
            if is_exclusive {
                raise(&mut greatest_exclusive, number, span);
            }
        } else if let Some((before, earlier)) = if is_exclusive {
            greatest
        } else {
            greatest_exclusive
        } && before > number
        {
            inversions.push((span, earlier));
        }
    }
    inversions
}

/// Finds acquires with the same token, and holds that continue a write hold with a token other than
/// the writer's.
pub(crate) fn check_uniqueness(run: &Run, found: &mut Vec<Violation>) {
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
    Violation {
        kind: Kind::Token,
        part: hold.part.to_string(),
        at: hold.begin(),
        holds: vec![hold.key, other],
        detail: format!("{} has {what} {other}", hold.key),
    }
}
