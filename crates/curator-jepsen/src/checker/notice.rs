//! Checks that a guard notices the delete of its node.

use std::collections::HashMap;

use super::findings::{HoldKey, Kind, Violation};
use super::parts;
use super::seen::{Period, Run};
use crate::work::Variant;

/// How long a guard may take to notice a delete, in session timeouts without disturbances.
///
/// The session of a valid guard has the server's reply to a `sync` that was sent less than one
/// session timeout ago. If the node was deleted before the `sync` was sent, the server applied the
/// delete before it replied, and, if there was a watch, sent the notification before the reply over
/// the same connection. Without a watch, because the connection is new, the guard sets one as soon
/// as it is connected; a failed try takes less than a session timeout, and the pause after it a
/// second at most. The second session timeout covers the try and the pause.
const NOTICE_TIMEOUTS: u64 = 2;

/// Finds guards of the guarded variant that were valid long after an operator had certainly deleted
/// one of their nodes. The other variants ignore their guards, so their nodes need not be watched.
///
/// Time in which the process was stopped, or another nemesis was active, does not count: both delay
/// notifications.
pub(crate) fn check(run: &Run, found: &mut Vec<Violation>) {
    // The last check of each guard before a write: a guard is valid then, too.
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
    let is_guarded =
        |part: &str| parts::part(part).is_some_and(|part| part.variant == Variant::Guarded);
    for hold in run.holds.iter().filter(|hold| is_guarded(&hold.part)) {
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
        let stops = run
            .stops
            .get(&(hold.key.worker, hold.key.life))
            .into_iter()
            .flatten();
        let undisturbed = undisturbed(deleted, valid, stops.chain(&run.disturbances));
        if undisturbed > timeout.saturating_mul(NOTICE_TIMEOUTS) {
            let (key, part) = (hold.key, hold.part.to_string());
            let (deleted, at) = (run.time(deleted), run.time(valid));
            let detail = format!(
                "a node of {key} was deleted before {deleted}, and the guard was valid after {at}"
            );
            found.push(Violation {
                kind: Kind::UnnoticedDelete,
                part,
                at: valid,
                holds: vec![key],
                detail,
            });
        }
    }
}

/// The part of this time without disturbances.
fn undisturbed<'a>(from: u64, to: u64, disturbances: impl Iterator<Item = &'a Period>) -> u64 {
    let mut disturbances: Vec<_> = disturbances.collect();
    disturbances.sort_by_key(|disturbance| disturbance.from);
    let (mut reached, mut time) = (from, 0);
    for disturbance in disturbances {
        time += disturbance.from.min(to).saturating_sub(reached);
        reached = reached.max(disturbance.to);
    }
    time + to.saturating_sub(reached)
}
