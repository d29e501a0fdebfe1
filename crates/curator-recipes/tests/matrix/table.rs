//! The table of what came of all cells, as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use curator_test::OpCode;

use super::batch::Result;
use super::fault::{Cut, Fault};
use super::phase::Phase;
use super::subjects::Kind;

/// How often what came of it.
type Outcomes = BTreeMap<&'static str, usize>;

/// One row for each lock, phase, cut and kind of request; one column for each fault.
#[derive(Debug, Default)]
pub(crate) struct Table(BTreeMap<Row, BTreeMap<Fault, Outcomes>>);

type Row = (Kind, Phase, Option<Cut>, OpCode);

impl Table {
    pub(crate) fn of(results: &[Result]) -> Self {
        let mut table = Self::default();
        for Result { cell, outcome, .. } in results {
            let Some(strike) = cell.strike else { continue };
            let row = table.0.entry((cell.course.kind, cell.course.phase, cell.cut, strike.op)).or_default();
            let outcome = outcome.as_ref().map_or("**FAILED**", |outcome| *outcome);
            *row.entry(strike.fault).or_default().entry(outcome).or_default() += 1;
        }
        table
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = String::from("| Lock | When | Request |");
        for fault in COLUMNS {
            write!(text, " {} |", fault.name()).unwrap();
        }
        text.push_str("\n|---|---|---|---|---|---|---|---|---|\n");
        for ((kind, phase, cut, op), row) in &self.0 {
            let cut = cut.map(|cut| format!(", {cut}")).unwrap_or_default();
            write!(text, "| {} | {}{cut} | `{op:?}` |", kind.name(), phase.name()).unwrap();
            for fault in COLUMNS {
                write!(text, " {} |", row.get(&fault).map_or_else(|| "–".to_owned(), written)).unwrap();
            }
            text.push('\n');
        }
        text
    }
}

/// In the order in which one reads about them.
const COLUMNS: [Fault; 6] =
    [Fault::Lost, Fault::CutBefore, Fault::CutAfter, Fault::Late, Fault::Expired, Fault::Dropped];

fn written(outcomes: &Outcomes) -> String {
    outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect::<Vec<_>>().join(", ")
}
