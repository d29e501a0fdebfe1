//! Checks re-entries: an acquire must be a re-entry if its owner holds the lock, and must not be
//! one otherwise. Checks that a lost hold stays lost, and counts early losses.

use std::collections::{BTreeMap, HashMap};

use super::findings::{Kind, Tally, Violation, part};
use super::run::{Hold, Run, certain};

/// Finds re-entries without an earlier hold, and new acquires by an owner that certainly held the
/// lock.
pub(crate) fn check_reentries(run: &Run, found: &mut Vec<Violation>) {
    let mut owners = HashMap::<_, Vec<&Hold>>::new();
    for hold in &run.holds {
        owners
            .entry((hold.key.worker, hold.key.life, &*hold.owner, &*hold.part))
            .or_default()
            .push(hold);
    }
    for holds in owners.values() {
        // A hold stays open as long as a later acquire may have been requested before the hold was
        // released.
        let mut asked: Vec<_> = holds.iter().map(|hold| hold.asked).collect();
        for index in (1..asked.len()).rev() {
            asked[index - 1] = asked[index - 1].min(asked[index]);
        }
        let mut open: Vec<&Hold> = Vec::new();
        for (hold, asked) in holds.iter().zip(asked) {
            open.retain(|outer| outer.releasing.is_none_or(|releasing| releasing >= asked));
            let candidates = open.iter().filter(|outer| permits_reentry(outer, hold));
            found.extend(if hold.reentry {
                reentry(hold, candidates)
            } else {
                new_acquire(run, hold, candidates)
            });
            open.push(hold);
        }
    }
}

/// Whether the owner of `outer` re-enters when it acquires `inner`. A multi-lock with other paths
/// is another lock. In a read-write lock, the owner of the write lock can re-enter either side, the
/// owner of the read lock only the read side.
fn permits_reentry(outer: &Hold, inner: &Hold) -> bool {
    outer.claims.len() == inner.claims.len()
        && outer
            .claims
            .iter()
            .zip(&inner.claims)
            .all(|(outer, inner)| outer.resource == inner.resource && outer.weight >= inner.weight)
}

/// Returns a violation unless the owner has a hold with the same tokens that was neither released
/// nor known to be lost before the re-entry was requested.
fn reentry<'a>(hold: &Hold, candidates: impl Iterator<Item = &'a &'a Hold>) -> Option<Violation> {
    let outer: Vec<_> = candidates
        .filter(|outer| {
            outer.releasing.is_none_or(|at| at >= hold.asked)
                && outer.invalid.is_none_or(|at| at >= hold.asked)
        })
        .collect();
    let Some(last) = outer.last() else {
        return Some(violation(
            hold,
            None,
            "is a re-entry, but its owner held no lock that it could re-enter",
        ));
    };
    outer
        .iter()
        .all(|outer| !tokens(outer).eq(tokens(hold)))
        .then(|| {
            violation(
                hold,
                Some(last),
                "is a re-entry, but has another token than",
            )
        })
}

fn tokens(hold: &Hold) -> impl Iterator<Item = Option<i64>> {
    hold.claims.iter().map(|claim| claim.token)
}

/// Returns a violation if the owner certainly held the lock from before the acquire was called
/// until it returned.
fn new_acquire<'a>(
    run: &Run,
    hold: &Hold,
    mut candidates: impl Iterator<Item = &'a &'a Hold>,
) -> Option<Violation> {
    let outer = candidates
        .find(|outer| {
            outer.begin() <= hold.asked
                && certain(run, outer).is_some_and(|certain| certain >= hold.begin())
        })
        .filter(|_| hold.continues.is_none())?;
    Some(violation(
        hold,
        Some(outer),
        "is not a re-entry, although its owner certainly held",
    ))
}

fn violation(hold: &Hold, outer: Option<&Hold>, what: &str) -> Violation {
    let key = hold.key;
    let outer = outer.map(|outer| outer.key);
    let name = outer.map(|outer| format!(" {outer}")).unwrap_or_default();
    Violation {
        kind: Kind::Reentry,
        part: hold.part.to_string(),
        at: hold.begin(),
        holds: std::iter::once(key).chain(outer).collect(),
        detail: format!("{key} {what}{name}"),
    }
}

/// Finds holds that were valid after they had been invalid, and counts holds that were lost before
/// the latest `valid_until()` of their guard (the *promise* of the hold, see `mod.rs`).
///
/// Skips the holds of other ZooKeeper clients (peers): their validity depends on the connection, so
/// a lost hold may become valid again, and they give no promises.
pub(crate) fn check_losses(
    run: &Run,
    parts: &mut BTreeMap<String, Tally>,
    found: &mut Vec<Violation>,
) {
    for hold in run.holds.iter().filter(|hold| part(&hold.part).is_some()) {
        if let Some(invalid) = hold.invalid.filter(|&invalid| invalid < hold.last_valid) {
            let at = hold.last_valid;
            found.push(Violation {
                kind: Kind::Revived,
                part: hold.part.to_string(),
                at,
                holds: vec![hold.key],
                detail: format!(
                    "{} was lost at {}, and valid after {}",
                    hold.key,
                    run.time(invalid),
                    run.time(at)
                ),
            });
        }
        // A loss that is reported after the owner started to release the hold does not count.
        let is_early = hold
            .invalid
            .is_some_and(|at| at < hold.until && hold.releasing.is_none_or(|end| at < end));
        if is_early && run.struck(hold.key) == u64::MAX {
            parts.entry(hold.part.to_string()).or_default().lost_early += 1;
        }
    }
}
