//! The report of a run as plain text: tables of numbers, and the violations with the events around
//! them.

use std::collections::BTreeMap;

use curator_results::Table;

use super::events::{Shown, line};
use super::summary::summary;
use super::{LeftoverCounts, Leftovers, Report};
use crate::checker::{Findings, Kind, Violation};
use crate::history::seconds;

impl Report {
    /// The report as plain text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut sections = Vec::new();
        if !self.about.is_empty() {
            let mut about = Table::of_words(&["Run", ""]);
            for (what, value) in &self.about {
                about.row([what.clone(), value.clone()]);
            }
            sections.push(about.markdown());
        }
        sections.extend(
            summary(std::slice::from_ref(self), |nemesis| nemesis)
                .tables()
                .iter()
                .filter(|(name, _)| !["about", "runs"].contains(name))
                .map(|(_, table)| table.markdown()),
        );
        if let Some(left) = &self.left {
            sections.push(lines(left));
        }
        if !self.idle.is_empty() {
            sections.push(format!(
                "Not tested, as nothing was acknowledged or compared: {}.\n",
                self.idle.join(", ")
            ));
        }
        sections.push(verdict(&self.findings));
        for Shown { violation, events } in &self.shown {
            let Violation {
                kind,
                part,
                at,
                detail,
                ..
            } = violation;
            let at = seconds(at.saturating_sub(self.findings.began));
            let mut text = format!("{at}, {kind}, {part}: {detail}\n\n");
            text.extend(
                events
                    .iter()
                    .map(|it| format!("  {}\n", line(self.findings.began, it))),
            );
            sections.push(text);
        }
        if !self.findings.of_peers.is_empty() {
            let kinds = kinds(&self.findings.of_peers);
            sections.push(format!(
                "Violations by peers, which do not fail the run: {kinds}.\n"
            ));
        }
        sections.join("\n")
    }
}

/// Formats the counts, one line each.
fn lines(left: &Leftovers) -> String {
    let Leftovers {
        clients,
        unclosed,
        at_rest,
        at_end,
    } = left;
    let counted = |LeftoverCounts { nodes, watches }: &LeftoverCounts| {
        let watches = watches.map_or("an unknown number of".to_owned(), |watches| {
            watches.to_string()
        });
        format!("{nodes} nodes of locks and {watches} watches")
    };
    format!(
        "Left at rest, while the sessions are open: {}.\nLeft at the end: {}. Clients that did not finish: {clients}. \
         Unconfirmed closes: {unclosed}.\n",
        counted(at_rest),
        counted(at_end)
    )
}

/// The number of violations and, if there are any, the number of updates that were lost to late
/// writes of clients that the run had not stopped: the machine was too slow for these clients, or a
/// guard's `valid_until()` is too early.
fn verdict(findings: &Findings) -> String {
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
fn kinds(violations: &[Violation]) -> String {
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
