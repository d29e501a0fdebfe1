//! Cells that all tables have in common.

use super::number::optional;
use crate::bench::document::PeerResults;

/// The ratio `dividend / divisor`: how many times as large the first number is.
pub(super) fn times(dividend: Option<f64>, divisor: Option<f64>) -> String {
    optional(dividend.zip(divisor).map(|(dividend, divisor)| dividend / divisor))
}

/// The note that explains a number, or why it is missing.
pub(super) fn note(results: &PeerResults) -> String {
    let counts = results.counts_note.as_ref().map(|why| format!("not counted: {why}"));
    let notes: Vec<_> = results.note.iter().cloned().chain(counts).collect();
    notes.join("; ")
}
