//! The verdict of a report, in one line.

use std::collections::BTreeMap;

use crate::checker::{Findings, Kind, Violation};

/// The number of violations and, if there are any, the number of updates that were lost to late
/// writes of clients that the run had not stopped: the machine was too slow for these clients, or a
/// guard's `valid_until()` is too early.
pub(crate) fn verdict(findings: &Findings) -> String {
    let violations = match findings.violations.len() {
        0 => "No violations.".to_owned(),
        1 => format!("1 violation: {}.", kinds(&findings.violations)),
        many => format!("{many} violations: {}.", kinds(&findings.violations)),
    };
    let late: u64 = findings.parts.values().map(|tally| tally.late).sum();
    if late == 0 {
        return format!("{violations}\n");
    }
    format!("{violations} Updates lost to late writes of clients that were not stopped: {late}.\n")
}

/// The number of violations of each kind.
pub(crate) fn kinds(violations: &[Violation]) -> String {
    let mut counts = BTreeMap::<Kind, usize>::new();
    for violation in violations {
        *counts.entry(violation.kind).or_default() += 1;
    }
    counts
        .iter()
        .map(|(kind, count)| format!("{count} {kind}"))
        .collect::<Vec<_>>()
        .join(", ")
}
