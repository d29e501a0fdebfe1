//! The table of the effects of strikes on the caches.

use std::collections::BTreeMap;

use super::table::Table;
use crate::checker::CacheAftermath;

/// One row for each nemesis and kind of cache. `None` without caches.
pub(crate) fn table<'a>(all: impl IntoIterator<Item = (&'a str, &'a CacheAftermath)>) -> Option<Table> {
    let mut rows = BTreeMap::<(&str, &str), [usize; 9]>::new();
    for (nemesis, one) in all {
        let CacheAftermath { events, resyncs, looks, differing, nodes, streams, silent, backwards, misfits, .. } = *one;
        let sums = rows.entry((nemesis, &one.part)).or_default();
        for (sum, count) in
            sums.iter_mut().zip([looks, differing, nodes, streams, silent, events, backwards, misfits, resyncs])
        {
            *sum += count;
        }
    }
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
    (!rows.is_empty()).then(|| {
        for ((nemesis, part), sums) in rows {
            let names = [nemesis.to_owned(), part.to_owned()];
            table.row(names.into_iter().chain(sums.iter().map(ToString::to_string)));
        }
        table
    })
}
