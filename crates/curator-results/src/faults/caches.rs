//! The table of the effects of nemeses on the caches.

use super::{ByNemesis, CacheTally};
use crate::Table;

/// One row for each nemesis and kind of cache.
pub(super) fn table(caches: &ByNemesis<CacheTally>) -> Table {
    let mut table = Table::new(&[
        "Caches",
        "of",
        "contents compared",
        "differed",
        "in nodes",
        "streams differed",
        "not current",
        "events",
        "backwards",
        "did not fit",
        "resyncs",
    ]);
    for (nemesis, parts) in caches {
        for (part, tally) in parts {
            let CacheTally { looks, differing, nodes, streams, silent, events, backwards, misfits, resyncs } = *tally;
            let counts = [looks, differing, nodes, streams, silent, events, backwards, misfits, resyncs];
            let names = [nemesis.clone(), part.clone()];
            table.row(names.into_iter().chain(counts.map(|count| count.to_string())));
        }
    }
    table
}
