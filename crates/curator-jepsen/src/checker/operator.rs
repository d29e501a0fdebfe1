//! Finds the holds that an operator may have ended by deleting their nodes, and checks that their
//! guards notice the delete.

use std::collections::HashMap;

use super::findings::{HoldKey, Kind, Violation, variant};
use super::run::{Claim, Deletion, Hold, Period, Run};
use crate::work::Variant;

/// Records the *struck* holds, which an operator may have ended, and the holds that have certainly
/// lost a node.
///
/// A hold's place is the number of its node in the queue; for leases the token is used. So the
/// number of a deleted node identifies its hold, with one exception: the read node of a writer
/// (after a downgrade or a re-entry) has a number that the history does not contain, and the
/// writer's token. Such a hold matches any deleted node of its session below the path of the lock.
pub(crate) fn record_struck(run: &mut Run) {
    let entries = Entries::of(run);
    let mut struck = HashMap::new();
    let mut deleted = HashMap::new();
    for hold in struck_sessions(run) {
        for deletion in &run.deletions[&hold.session] {
            let matched = hold
                .claims
                .iter()
                .map(|claim| entries.match_deletion(hold, claim, deletion))
                .max()
                .unwrap_or(Match::No);
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
    run.struck = struck;
    run.deleted = deleted;
}

/// The holds in sessions that have lost nodes to an operator. Only these few holds are examined.
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

/// How long a guard may take to notice a delete, in session timeouts without disturbances.
///
/// The session of a valid guard has the server's reply to a `sync` that was sent less than one
/// session timeout ago. If the node was deleted before the `sync` was sent, the server applied the
/// delete before it replied, and, if there was a watch, sent the notification before the reply over
/// the same connection. Without a watch, because the connection is new, the guard sets one as soon
/// as it is connected; a failed attempt takes less than a session timeout, and the pause after it
/// at most a second. The second session timeout covers the attempt and the pause.
const NOTICE_TIMEOUTS: u64 = 2;

/// Finds guards of the guarded variant that were valid long after an operator had certainly deleted
/// one of their nodes. The other variants ignore their guards, so their nodes need not be watched.
///
/// Time does not count while the process was stopped, or another nemesis was active: both delay
/// notifications.
pub(crate) fn check_notice(run: &Run, found: &mut Vec<Violation>) {
    // The last check of each guard before a write: the guard was valid at that time, too.
    let mut checks = HashMap::<HoldKey, u64>::new();
    for write in run
        .writes
        .values()
        .flatten()
        .filter(|write| run.deleted.contains_key(&write.key))
    {
        let last = checks.entry(write.key).or_default();
        *last = write.checked.max(*last);
    }
    for hold in run
        .holds
        .iter()
        .filter(|hold| variant(&hold.part) == Variant::Guarded)
    {
        let Some((&deleted, timeout)) = run
            .deleted
            .get(&hold.key)
            .zip(run.timeouts.get(&hold.session))
        else {
            continue;
        };
        let valid = hold
            .last_valid
            .max(checks.get(&hold.key).copied().unwrap_or_default());
        let disturbances = run
            .stops
            .get(&(hold.key.worker, hold.key.life))
            .into_iter()
            .flatten()
            .chain(&run.disturbances);
        let undisturbed = undisturbed(deleted, valid, disturbances);
        if undisturbed > timeout.saturating_mul(NOTICE_TIMEOUTS) {
            found.push(Violation {
                kind: Kind::UnnoticedDelete,
                part: hold.part.to_string(),
                at: valid,
                holds: vec![hold.key],
                detail: format!(
                    "a node of {} was deleted before {}, and the guard was valid after {}",
                    hold.key,
                    run.time(deleted),
                    run.time(valid)
                ),
            });
        }
    }
}

/// The time between `from` and `to` without disturbances.
fn undisturbed<'a>(from: u64, to: u64, disturbances: impl Iterator<Item = &'a Period>) -> u64 {
    let mut disturbances: Vec<_> = disturbances.collect();
    disturbances.sort_by_key(|disturbance| disturbance.from);
    let mut reached = from;
    let mut time = 0;
    for disturbance in disturbances {
        time += disturbance.from.min(to).saturating_sub(reached);
        reached = reached.max(disturbance.to);
    }
    time + to.saturating_sub(reached)
}
