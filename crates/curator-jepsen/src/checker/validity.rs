//! Checks that a lost hold stays lost, and counts early losses.

use std::collections::BTreeMap;

use super::findings::{Kind, Tally, Violation};
use super::parts;
use super::seen::Run;

/// Finds holds that were valid after they had been invalid, and counts holds that were lost before
/// the latest `valid_until()` of their guard (the *promise* of the hold, see `checker/mod.rs`).
///
/// Skips the holds of other ZooKeeper clients (peers): their validity depends on the connection, so
/// it may return, and they give no promises.
pub(crate) fn check(run: &Run, parts: &mut BTreeMap<String, Tally>, found: &mut Vec<Violation>) {
    for hold in run
        .holds
        .iter()
        .filter(|hold| parts::part(&hold.part).is_some())
    {
        if let Some(invalid) = hold.invalid.filter(|&invalid| invalid < hold.last_valid) {
            let (key, at, part) = (hold.key, hold.last_valid, hold.part.to_string());
            let detail = format!(
                "{key} was lost at {}, and valid after {}",
                run.time(invalid),
                run.time(at)
            );
            found.push(Violation {
                kind: Kind::Revived,
                part,
                at,
                holds: vec![key],
                detail,
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
