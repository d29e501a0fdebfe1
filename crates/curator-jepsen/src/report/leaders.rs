//! The tables of the effects of strikes on the leaders: overlapping terms, and the time without a leader.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::table::Table;
use crate::checker::{Aftermath, leaders};

/// The effects of the strikes of one kind on the same leaders.
type Cells<'a> = BTreeMap<(&'a str, String), Vec<&'a Aftermath>>;

/// Both tables have a row for each nemesis, and a column for each kind of leaders, of any variant. `None` without
/// leaders.
pub(crate) fn tables<'a>(all: impl IntoIterator<Item = (&'a str, &'a Aftermath)>) -> Option<[Table; 2]> {
    let mut cells = Cells::new();
    for (nemesis, one) in all {
        cells.entry((nemesis, leaders(&one.part).unwrap_or_default())).or_default().push(one);
    }
    let overlaps = table("Terms that overlap", &cells, overlaps);
    (!cells.is_empty()).then(|| [overlaps, table("Time without a leader", &cells, leaderless)])
}

fn table(title: &str, cells: &Cells<'_>, text: fn(&[&Aftermath]) -> String) -> Table {
    let kinds: BTreeSet<_> = cells.keys().map(|(_, kind)| kind.as_str()).collect();
    let nemeses: BTreeSet<_> = cells.keys().map(|(nemesis, _)| *nemesis).collect();
    let mut table = Table::new(&[title].into_iter().chain(kinds.iter().copied()).collect::<Vec<_>>());
    for nemesis in nemeses {
        let of = |kind: &&str| cells.get(&(nemesis, (*kind).to_owned())).map_or("-".to_owned(), |cell| text(cell));
        table.row([nemesis.to_owned()].into_iter().chain(kinds.iter().map(of)));
    }
    table
}

/// The number of overlaps and of terms; and of further overlaps after an operator's delete.
fn overlaps(cell: &[&Aftermath]) -> String {
    let sum = |count: fn(&Aftermath) -> u64| cell.iter().map(|one| count(one)).sum::<u64>();
    let (overlaps, terms, without_node) = (sum(|one| one.overlaps), sum(|one| one.terms), sum(|one| one.without_node));
    let operator = if without_node == 0 { String::new() } else { format!(", {without_node} after a delete") };
    format!("{overlaps} of {terms}{operator}")
}

/// The median and the maximum over all strikes and parts.
fn leaderless(cell: &[&Aftermath]) -> String {
    let mut times: Vec<Duration> = cell.iter().map(|one| one.leaderless).collect();
    times.sort_unstable();
    let text = |time: Option<&Duration>| time.map_or("-".to_owned(), |time| format!("{:.2} s", time.as_secs_f64()));
    format!("{}, worst {}", text(times.get((times.len().max(1) - 1) / 2)), text(times.last()))
}
