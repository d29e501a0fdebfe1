//! Checks that a set does not change under a read lock.

use std::collections::{BTreeMap, HashMap};

use super::claims;
use super::findings::{Kind, Tally, Violation};
use super::parts;
use super::seen::{Hold, Reading, Run};
use super::sets::Unpreventable;
use crate::work::Variant;

/// Compares the reads of each set under one hold, if the hold was certain during the reads.
pub(crate) fn check(run: &Run, parts: &mut BTreeMap<String, Tally>, found: &mut Vec<Violation>) {
    for hold in run.holds.iter().filter(|hold| hold.reads.len() > 1) {
        let mut first = HashMap::<&str, &Reading>::new();
        for read in hold.reads.iter().filter(|read| is_certain(run, hold, read)) {
            let before = *first.entry(&read.set).or_insert(read);
            if std::ptr::eq(before, read) {
                continue;
            }
            let tally = parts.entry(hold.part.to_string()).or_default();
            tally.reread += 1;
            if (before.elements, before.digest) == (read.elements, read.digest) {
                continue;
            }
            tally.changed += 1;
            let is_excused = match parts::variant(&hold.part) {
                Variant::Plain => true,
                Variant::Guarded => run.writes.get(&read.set).is_some_and(|writes| {
                    Unpreventable::of(run, writes)
                        .explain_change(before.before, read.at)
                        .is_some()
                }),
                Variant::Transaction | Variant::Token => false,
            };
            if !is_excused {
                let (key, at, part) = (hold.key, read.at, hold.part.to_string());
                let detail = format!(
                    "{key} has read {} with {} elements at {}, and with {} elements ({})",
                    read.set,
                    before.elements,
                    run.time(before.at),
                    read.elements,
                    if before.elements == read.elements {
                        "other elements"
                    } else {
                        "another number"
                    },
                );
                found.push(Violation {
                    kind: Kind::ReadChanged,
                    part,
                    at,
                    holds: vec![key],
                    detail,
                });
            }
        }
    }
}

/// Whether the hold was certain from before the request until after the reply.
fn is_certain(run: &Run, hold: &Hold, read: &Reading) -> bool {
    read.before >= hold.begin()
        && claims::certain(run, hold).is_some_and(|certain| read.at <= certain)
}
