//! The tables of the effects of nemeses on the leaders: overlapping terms, and the time without a
//! leader.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{ByNemesis, Times, seconds};
use crate::Table;

/// The terms of the leaders of one kind, in all variants.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Terms that have begun.
    pub terms: u64,
    /// Terms that began while another leader certainly led.
    pub overlaps: u64,
    /// Terms that began while another leader had not yet noticed that an operator had deleted its
    /// node.
    pub without_node: u64,
    /// The longest interval without a certain leader during a strike: the median and the maximum of
    /// all strikes.
    pub leaderless: Times,
}

/// The two tables, with a row for each nemesis and a column for each kind of leader.
pub(super) fn tables(leaders: &ByNemesis<Terms>) -> [Table; 2] {
    [
        ("Terms that overlap", overlaps as fn(&Terms) -> String),
        ("Time without a leader", leaderless),
    ]
    .map(|(title, text)| {
        let kinds: BTreeSet<_> = leaders.values().flat_map(|kinds| kinds.keys()).collect();
        let head = [title]
            .into_iter()
            .chain(kinds.iter().map(|kind| kind.as_str()));
        let mut table = Table::new(&head.collect::<Vec<_>>());
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
