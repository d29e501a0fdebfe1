//! The report of a run as plain text.

use curator_results::Table;

use super::around::Shown;
use super::document::Report;
use super::summary::summary;
use super::{line, recovery, verdict};
use crate::checker::Violation;
use crate::history;

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
        let tables = summary(std::slice::from_ref(self), |nemesis| nemesis).tables();
        let tables = tables
            .iter()
            .filter(|(name, _)| !["about", "runs"].contains(name));
        sections.extend(tables.map(|(_, table)| table.markdown()));
        if let Some(left) = &self.left {
            sections.push(recovery::lines(left));
        }
        if !self.idle.is_empty() {
            sections.push(format!(
                "Not tested, as nothing was acknowledged or compared: {}.\n",
                self.idle.join(", ")
            ));
        }
        sections.push(verdict::verdict(&self.findings));
        for Shown { violation, events } in &self.shown {
            let Violation {
                kind,
                part,
                at,
                detail,
                ..
            } = violation;
            let at = history::seconds(at.saturating_sub(self.findings.began));
            let mut text = format!("{at}, {kind}, {part}: {detail}\n\n");
            text.extend(
                events
                    .iter()
                    .map(|it| format!("  {}\n", line::line(self.findings.began, it))),
            );
            sections.push(text);
        }
        if !self.findings.of_peers.is_empty() {
            let kinds = verdict::kinds(&self.findings.of_peers);
            sections.push(format!(
                "Violations by peers, which do not fail the run: {kinds}.\n"
            ));
        }
        sections.join("\n")
    }
}
