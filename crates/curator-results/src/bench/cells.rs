//! What all tables have in common.

use crate::Table;

use super::number::optional;
use crate::bench::document::{CaseResults, EnvironmentResults, Kind, PeerResults};

/// The table of the cases of a kind, with these cells for each client.
pub(super) fn table(
    environment: &EnvironmentResults,
    kind: Kind,
    cells: impl Fn(&CaseResults, &PeerResults) -> Vec<(&'static str, String)>,
) -> Table {
    let cases = environment.cases.iter().filter(|case| case.kind == kind);
    let results = cases.flat_map(|case| case.peers.iter().map(move |results| (case, results)));
    Table::of_cells(results.map(|(case, results)| {
        let names = vec![
            ("case", case.name.clone()),
            ("client", results.peer.to_string()),
        ];
        [names, cells(case, results), vec![("note", note(results))]].concat()
    }))
}

/// The ratio `dividend / divisor`: how many times as large the first number is.
pub(super) fn times(dividend: Option<f64>, divisor: Option<f64>) -> String {
    optional(
        dividend
            .zip(divisor)
            .map(|(dividend, divisor)| dividend / divisor),
    )
}

/// The note that explains a number, or why it is missing.
fn note(results: &PeerResults) -> String {
    let counts = results
        .counts_note
        .as_ref()
        .map(|why| format!("not counted: {why}"));
    let notes: Vec<_> = results.note.iter().cloned().chain(counts).collect();
    notes.join("; ")
}
