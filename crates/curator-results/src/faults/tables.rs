//! The tables with a row for each part, nemesis, cache, counter or service.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ByNemesis, CacheTally, CounterTally, Recoveries, ServiceTally, Tally, Terms, optional_count,
    seconds,
};
use crate::Table;

/// The lost updates of each part of the work.
pub(super) fn parts(parts: &BTreeMap<String, Tally>) -> Table {
    Table::of_cells(parts.iter().map(|(part, tally)| {
        vec![
            ("Part", part.clone()),
            ("acquires", tally.acquires.to_string()),
            ("acknowledged", tally.acknowledged.to_string()),
            ("lost", tally.lost.to_string()),
            ("lost, %", percent(tally)),
            ("to stopped clients", tally.stopped.to_string()),
            ("to late clients", tally.late.to_string()),
            ("to an operator", tally.deleted.to_string()),
            ("refused", tally.refused.to_string()),
            ("not sent", tally.not_sent.to_string()),
            ("unknown", tally.unknown.to_string()),
            ("reads changed", tally.changed.to_string()),
            ("lost early", tally.lost_early.to_string()),
            ("held twice", tally.held_twice.to_string()),
            ("held without its node", tally.held_without_node.to_string()),
        ]
    }))
}

/// The lost part of the acknowledged writes, in percent. A loss below 0.01 is shown as `<0.01`, not
/// as 0.
pub(super) fn percent(tally: &Tally) -> String {
    match tally.lost_percent() {
        None => "-".to_owned(),
        Some(_) if tally.lost == 0 => "0".to_owned(),
        Some(percent) if percent < 0.01 => "<0.01".to_owned(),
        Some(percent) => format!("{percent:.2}"),
    }
}

/// The recovery after each nemesis.
pub(super) fn recovery(recovery: &BTreeMap<String, Recoveries>) -> Table {
    Table::of_cells(recovery.iter().map(|(nemesis, of)| {
        vec![
            ("Nemesis", nemesis.clone()),
            ("times", of.times.to_string()),
            ("first acquire, median", seconds(of.first_acquire.median)),
            ("worst", seconds(of.first_acquire.worst)),
            ("all clients, median", seconds(of.all_clients.median)),
            ("worst", seconds(of.all_clients.worst)),
            ("not recovered", of.not_recovered.to_string()),
            ("orphaned nodes", of.nodes_left.to_string()),
            ("orphaned watches", optional_count(of.watches_left)),
        ]
    }))
}

/// The effects of each nemesis on each kind of cache.
pub(super) fn caches(caches: &ByNemesis<CacheTally>) -> Table {
    Table::of_cells(caches.iter().flat_map(|(nemesis, parts)| {
        parts.iter().map(move |(part, tally)| {
            vec![
                ("Caches", nemesis.clone()),
                ("of", part.clone()),
                ("contents compared", tally.looks.to_string()),
                ("differed", tally.differing.to_string()),
                ("in nodes", tally.nodes.to_string()),
                ("streams differed", tally.streams.to_string()),
                ("not current", tally.silent.to_string()),
                ("events", tally.events.to_string()),
                ("backwards", tally.backwards.to_string()),
                ("did not fit", tally.misfits.to_string()),
                ("resyncs", tally.resyncs.to_string()),
            ]
        })
    }))
}

pub(super) fn counters(counters: &BTreeMap<String, CounterTally>) -> Table {
    Table::of_cells(counters.iter().map(|(part, tally)| {
        vec![
            ("Counter", part.clone()),
            ("acknowledged", tally.acknowledged.to_string()),
            ("refused", tally.refused.to_string()),
            ("unknown", tally.unknown.to_string()),
            ("cut off", tally.cut_off.to_string()),
            ("at the end", tally.value.to_string()),
            ("lost", tally.lost.to_string()),
            ("counted twice", tally.twice.to_string()),
            ("values given twice", tally.same_value.to_string()),
        ]
    }))
}

pub(super) fn services(services: &BTreeMap<String, ServiceTally>) -> Table {
    Table::of_cells(services.iter().map(|(part, tally)| {
        let longest = format!(
            "{}.{:06} s",
            tally.longest / 1_000_000_000,
            tally.longest % 1_000_000_000 / 1_000
        );
        vec![
            ("Service", part.clone()),
            ("instances inserted", tally.inserted.to_string()),
            ("removed", tally.removed.to_string()),
            (
                "removed while their session lived",
                tally.flickers.to_string(),
            ),
            ("reads of the cache", tally.looks.to_string()),
            ("with a dead instance", tally.dead.to_string()),
            ("longest after the end of its session", longest),
        ]
    }))
}

/// The two tables, with a row for each nemesis and a column for each kind of leader.
pub(super) fn leaders(leaders: &ByNemesis<Terms>) -> [Table; 2] {
    [
        ("Terms that overlap", overlaps as fn(&Terms) -> String),
        ("Time without a leader", leaderless),
    ]
    .map(|(title, text)| {
        let kinds: BTreeSet<_> = leaders.values().flat_map(|kinds| kinds.keys()).collect();
        let head: Vec<_> = [title]
            .into_iter()
            .chain(kinds.iter().map(|kind| kind.as_str()))
            .collect();
        let mut table = Table::new(&head);
        for (nemesis, of) in leaders {
            let cells = kinds
                .iter()
                .map(|kind| of.get(*kind).map_or("-".to_owned(), text));
            table.row([nemesis.clone()].into_iter().chain(cells));
        }
        table
    })
}

/// The number of overlaps and of terms; then the number of overlaps after an operator's delete.
fn overlaps(of: &Terms) -> String {
    let Terms {
        terms,
        overlaps,
        without_node,
        ..
    } = of;
    let operator = if *without_node == 0 {
        String::new()
    } else {
        format!(", {without_node} after a delete")
    };
    format!("{overlaps} of {terms}{operator}")
}

/// The median and the maximum over all strikes and parts.
fn leaderless(of: &Terms) -> String {
    format!(
        "{}, worst {}",
        seconds(of.leaderless.median),
        seconds(of.leaderless.worst)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_loss_is_never_shown_as_zero() {
        let percent = |lost, acknowledged| {
            percent(&Tally {
                lost,
                acknowledged,
                ..Tally::default()
            })
        };
        assert_eq!(
            [
                percent(0, 0),
                percent(0, 7),
                percent(1, 36_795),
                percent(1, 8)
            ],
            ["-", "0", "<0.01", "12.50"]
        );
    }
}
