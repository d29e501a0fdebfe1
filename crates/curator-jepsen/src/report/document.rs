//! The report of a run.

use super::around::Shown;
use super::recovery::{self, Left, Recovery};
use super::table::Table;
use super::{caches, counters, leaders, line, parts, services, verdict};
use crate::checker::{Findings, Violation};
use crate::history;

/// The report of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The result of the checker.
    pub findings: Findings,
    /// Lines for the head: options, seed and versions of the run.
    pub about: Vec<(String, String)>,
    /// Parts without an acknowledged write by our clients, caches that were never compared with the servers, and
    /// counters without an acknowledged increment: the run proves nothing about them.
    pub idle: Vec<String>,
    /// The recovery after each nemesis.
    pub recovery: Vec<Recovery>,
    /// What was left after all clients had finished.
    pub left: Option<Left>,
    /// The first violations of each kind, with the events around them.
    pub shown: Vec<Shown>,
}

impl Report {
    /// Whether our locks broke no rule, no part was idle, and each of our clients recovered from each nemesis with
    /// nothing left behind.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.violations() == 0 && self.idle.is_empty() && self.is_complete()
    }

    /// Whether there are violations, all of them of the kinds that slow clocks cause, and the run is clean otherwise.
    /// See [`Violation::follows_from_slow_clocks`].
    #[must_use]
    pub fn is_of_slow_clocks(&self) -> bool {
        let violations = &self.findings.violations;
        !violations.is_empty()
            && violations.iter().all(Violation::follows_from_slow_clocks)
            && self.idle.is_empty()
            && self.is_complete()
    }

    /// Whether each of our clients recovered from each nemesis, and certainly nothing was left behind.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.recovery.iter().all(Recovery::is_complete) && self.left.is_none_or(|left| left.is_nothing())
    }

    /// The number of violations by our locks or by the tester.
    #[must_use]
    pub fn violations(&self) -> usize {
        self.findings.violations.len()
    }

    /// The report as plain text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut sections = Vec::new();
        if !self.about.is_empty() {
            let mut about = Table::of_words(&["Run", ""]);
            for (what, value) in &self.about {
                about.row([what.clone(), value.clone()]);
            }
            sections.push(about.text());
        }
        sections.push(parts::table(&self.findings.parts).text());
        if !self.recovery.is_empty() {
            sections.push(recovery::table(&self.recovery).text());
        }
        let aftermaths = self.findings.leaders.iter().map(|one| (one.nemesis.as_str(), one));
        sections.extend(leaders::tables(aftermaths).into_iter().flatten().map(|table| table.text()));
        let aftermaths = self.findings.caches.iter().map(|one| (one.nemesis.as_str(), one));
        sections.extend(caches::table(aftermaths).map(|table| table.text()));
        sections.extend(services::table(&self.findings.services).map(|table| table.text()));
        sections.extend(counters::table(&self.findings.counters).map(|table| table.text()));
        if let Some(left) = &self.left {
            sections.push(recovery::lines(left));
        }
        if !self.idle.is_empty() {
            sections.push(format!("No acknowledged write, so nothing to lose: {}.\n", self.idle.join(", ")));
        }
        sections.push(verdict::verdict(&self.findings));
        for Shown { violation, events } in &self.shown {
            let Violation { kind, part, at, detail, .. } = violation;
            let at = history::seconds(at.saturating_sub(self.findings.began));
            let mut text = format!("{at}, {kind}, {part}: {detail}\n\n");
            text.extend(events.iter().map(|it| format!("  {}\n", line::line(self.findings.began, it))));
            sections.push(text);
        }
        if !self.findings.of_peers.is_empty() {
            let kinds = verdict::kinds(&self.findings.of_peers);
            sections.push(format!("Of the peers, which fails no run: {kinds}.\n"));
        }
        sections.join("\n")
    }
}
