//! What all tables have.

use super::number::optional;
use crate::document::PeerResults;

/// How often one goes into the other.
pub(super) fn times(dividend: Option<f64>, divisor: Option<f64>) -> String {
    optional(dividend.zip(divisor).map(|(dividend, divisor)| dividend / divisor))
}

/// What a number, or the lack of one, needs to be understood.
pub(super) fn note(results: &PeerResults) -> String {
    let counts = results.counts_note.as_ref().map(|why| format!("not counted: {why}"));
    let notes: Vec<_> = results.note.iter().cloned().chain(counts).collect();
    notes.join("; ")
}
