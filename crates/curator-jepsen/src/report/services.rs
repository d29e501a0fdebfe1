//! The table of services.

use std::collections::BTreeMap;

use super::table::Table;
use crate::checker::ServiceTally;
use crate::history::seconds;

/// One row for each service. `None` without services.
pub(crate) fn table(services: &BTreeMap<String, ServiceTally>) -> Option<Table> {
    let mut table = Table::new(&[
        "Service",
        "instances came",
        "went",
        "while their session lived",
        "looks",
        "with a dead instance",
        "longest after the end of its session",
    ]);
    for (part, tally) in services {
        let ServiceTally { inserted, removed, flickers, looks, dead, longest } = *tally;
        let counts = [inserted, removed, flickers, looks, dead].map(|count| count.to_string());
        table.row([part.clone()].into_iter().chain(counts).chain([seconds(longest)]));
    }
    (!services.is_empty()).then_some(table)
}
