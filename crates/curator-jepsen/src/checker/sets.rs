//! Checks that the final sets contain all acknowledged elements, and no refused ones; and that a
//! set does not change under a read lock.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::findings::{HoldKey, Kind, Tally, Violation, variant};
use super::run::{Hold, Reading, Run, Write, certain};
use crate::history::Outcome;
use crate::work::Variant;

/// The elements of each set at the end of a run, by the name of the set in the histories. A missing
/// set is empty.
pub type FinalSets = BTreeMap<String, Vec<String>>;

/// Compares the writes with the final sets, and counts the writes.
pub(crate) fn check_writes(
    run: &Run,
    sets: &FinalSets,
    parts: &mut BTreeMap<String, Tally>,
    found: &mut Vec<Violation>,
) {
    let begins = run.begins();
    for (set, writes) in &run.writes {
        let in_final_set: HashSet<&str> = sets
            .get(&**set)
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        let unpreventable = Unpreventable::of(run, writes);
        let mut elements = HashMap::new();
        for (index, write) in writes.iter().enumerate() {
            let mut report = |kind, what: &str, other: Option<&Write>| {
                found.push(Violation {
                    kind,
                    part: write.part.to_string(),
                    at: write.at,
                    holds: std::iter::once(write.key)
                        .chain(other.map(|other| other.key))
                        .collect(),
                    detail: format!("{} of {} in {set} {what}", write.element, write.key),
                });
            };
            if let Some(other) = elements.insert(&*write.element, write) {
                report(Kind::Malformed, "was written twice", Some(other));
            }
            let tally = parts.entry(write.part.to_string()).or_default();
            let is_present = in_final_set.contains(&*write.element);
            match write.outcome {
                Outcome::Acknowledged => tally.acknowledged += 1,
                Outcome::Refused => tally.refused += 1,
                Outcome::NotSent => tally.not_sent += 1,
                Outcome::Unknown => tally.unknown += 1,
            }
            match write.outcome {
                Outcome::Acknowledged if !is_present => {
                    tally.lost += 1;
                    // Most likely, the next acknowledged write did not contain the element.
                    let next = writes[index + 1..]
                        .iter()
                        .find(|next| next.outcome == Outcome::Acknowledged);
                    let cause = unpreventable.explain(write, &begins);
                    match (variant(&write.part), cause) {
                        (Variant::Plain, _) => {}
                        (Variant::Guarded, Some(Cause::Stopped)) => tally.stopped += 1,
                        (Variant::Guarded, Some(Cause::Late)) => tally.late += 1,
                        (Variant::Guarded, Some(Cause::Deleted)) => tally.deleted += 1,
                        _ => report(
                            Kind::LostUpdate,
                            "was acknowledged, but is not in the final set",
                            next,
                        ),
                    }
                }
                Outcome::Refused if is_present => {
                    report(
                        Kind::RefusedWrite,
                        "was refused, but is in the final set",
                        None,
                    );
                }
                Outcome::NotSent if is_present => {
                    report(
                        Kind::RefusedWrite,
                        "was not sent, but is in the final set",
                        None,
                    );
                }
                _ => {}
            }
        }
    }
}

/// Compares the reads of each set under one hold, if the hold was certain during the reads.
pub(crate) fn check_reads(
    run: &Run,
    parts: &mut BTreeMap<String, Tally>,
    found: &mut Vec<Violation>,
) {
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
            let is_excused = match variant(&hold.part) {
                Variant::Plain => true,
                Variant::Guarded => run.writes.get(&read.set).is_some_and(|writes| {
                    Unpreventable::of(run, writes)
                        .explain_change(before.before, read.at)
                        .is_some()
                }),
                Variant::Transaction | Variant::Token => false,
            };
            if !is_excused {
                let how = if before.elements == read.elements {
                    "other elements"
                } else {
                    "another number"
                };
                found.push(Violation {
                    kind: Kind::ReadChanged,
                    part: hold.part.to_string(),
                    at: read.at,
                    holds: vec![hold.key],
                    detail: format!(
                        "{} has read {} with {} elements at {}, and with {} elements ({how})",
                        hold.key,
                        read.set,
                        before.elements,
                        run.time(before.at),
                        read.elements,
                    ),
                });
            }
        }
    }
}

/// Whether the hold was certain from before the request until after the reply.
fn is_certain(run: &Run, hold: &Hold, read: &Reading) -> bool {
    read.before >= hold.begin() && certain(run, hold).is_some_and(|certain| read.at <= certain)
}

/// Why a guard could not prevent a lost update. If several apply, the first is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    /// A write of a process that the run had stopped between check and write.
    Stopped,
    /// A late write of a process that the run had not stopped.
    Late,
    /// A write after an operator's delete of the lock's node, which the guard had not noticed yet.
    Deleted,
}

/// The writes to a set that a guard cannot prevent.
#[derive(Debug)]
struct Unpreventable<'a> {
    writes: Vec<(Cause, &'a Write)>,
}

impl<'a> Unpreventable<'a> {
    fn of(run: &Run, writes: &'a [Write]) -> Self {
        let writes = writes
            .iter()
            .flat_map(|write| {
                [
                    (Cause::Stopped, write.is_late() && write.was_stopped(run)),
                    (Cause::Late, write.is_late()),
                    (Cause::Deleted, write.is_struck(run)),
                ]
                .into_iter()
                .filter(|(_, is_cause)| *is_cause)
                .map(move |(cause, _)| (cause, write))
            })
            .collect();
        Self { writes }
    }

    /// Why the write `lost` may be lost: another write may have been applied later, and its holder
    /// may have read the set before `lost` was applied.
    fn explain(&self, lost: &Write, begins: &HashMap<HoldKey, u64>) -> Option<Cause> {
        self.find(|later| {
            // A hold that was never acquired is reported as malformed.
            let begin = begins.get(&later.key).copied().unwrap_or_default();
            later.at >= lost.checked && begin <= lost.at
        })
    }

    /// Why a set may have changed between `from` and `to`: a write may have been applied in
    /// between.
    fn explain_change(&self, from: u64, to: u64) -> Option<Cause> {
        self.find(|write| write.at >= from && write.checked <= to)
    }

    fn find(&self, explains: impl Fn(&Write) -> bool) -> Option<Cause> {
        self.writes
            .iter()
            .filter(|(_, write)| explains(write))
            .map(|(cause, _)| *cause)
            .min()
    }
}
