//! The table of services.

use std::collections::BTreeMap;

use super::ServiceTally;
use crate::Table;

/// One row for each service.
pub(super) fn table(services: &BTreeMap<String, ServiceTally>) -> Table {
    let mut table = Table::new(&[
        "Service",
        "instances inserted",
        "removed",
        "removed while their session lived",
        "reads of the cache",
        "with a dead instance",
        "longest after the end of its session",
    ]);
    for (part, tally) in services {
        let ServiceTally { inserted, removed, flickers, looks, dead, longest } = *tally;
        let counts = [inserted, removed, flickers, looks, dead].map(|count| count.to_string());
        let longest = format!("{}.{:06} s", longest / 1_000_000_000, longest % 1_000_000_000 / 1_000);
        table.row([part.clone()].into_iter().chain(counts).chain([longest]));
    }
    table
}
