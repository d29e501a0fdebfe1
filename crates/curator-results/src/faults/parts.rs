//! The table of lost updates.

use std::collections::BTreeMap;

use super::Tally;
use crate::Table;

/// One row for each part of the work.
pub(super) fn table(parts: &BTreeMap<String, Tally>) -> Table {
    let mut table = Table::new(&[
        "Part",
        "acquires",
        "acknowledged",
        "lost",
        "lost, %",
        "to stopped clients",
        "to late clients",
        "to an operator",
        "refused",
        "not sent",
        "unknown",
        "reads changed",
        "lost early",
        "held twice",
        "held without its node",
    ]);
    for (part, tally) in parts {
        let percent = percent(tally);
        let counts = [tally.stopped, tally.late, tally.deleted, tally.refused, tally.not_sent, tally.unknown];
        let first = [part.clone(), tally.acquires.to_string(), tally.acknowledged.to_string(), tally.lost.to_string()];
        let counts = counts
            .into_iter()
            .chain([tally.changed, tally.lost_early, tally.held_twice, tally.held_without_node])
            .map(|count| count.to_string());
        table.row(first.into_iter().chain([percent]).chain(counts));
    }
    table
}

/// The lost part of the acknowledged writes, in percent. A loss below 0.01 is shown as `<0.01`, not as 0.
pub(super) fn percent(tally: &Tally) -> String {
    match tally.lost_percent() {
        None => "-".to_owned(),
        Some(_) if tally.lost == 0 => "0".to_owned(),
        Some(percent) if percent < 0.01 => "<0.01".to_owned(),
        Some(percent) => format!("{percent:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_loss_is_never_shown_as_zero() {
        let percent = |lost, acknowledged| percent(&Tally { lost, acknowledged, ..Tally::default() });
        assert_eq!([percent(0, 0), percent(0, 7), percent(1, 36_795), percent(1, 8)], ["-", "0", "<0.01", "12.50"]);
    }
}
