//! The table of counters.

use std::collections::BTreeMap;

use super::CounterTally;
use crate::Table;

/// One row for each counter.
pub(super) fn table(counters: &BTreeMap<String, CounterTally>) -> Table {
    let mut table = Table::new(&[
        "Counter",
        "acknowledged",
        "refused",
        "unknown",
        "cut off",
        "at the end",
        "lost",
        "counted twice",
        "values given twice",
    ]);
    for (part, tally) in counters {
        let CounterTally { acknowledged, refused, unknown, cut_off, value, lost, twice, same_value } = *tally;
        let counts = [acknowledged, refused, unknown, cut_off].map(|count| count.to_string());
        let counts = counts.into_iter().chain([value.to_string()]);
        let counts = counts.chain([lost, twice, same_value].map(|count| count.to_string()));
        table.row([part.clone()].into_iter().chain(counts));
    }
    table
}
