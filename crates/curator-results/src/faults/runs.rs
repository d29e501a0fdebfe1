//! The tables of single runs: the facts that all runs have in common, and one row for each run.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Tally, optional_count, tables};
use crate::Table;

/// The names of variants, in the order of their columns. The columns of peers follow.
const VARIANTS: [&str; 4] = ["plain", "guarded", "transaction", "token"];
/// The facts that come first. The other facts follow, sorted by name.
const FIRST_FACTS: [&str; 4] = ["nemeses", "seed", "date", "commit"];

/// A run. A number is `None` if it is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// Date, commit, seed, parameters and versions.
    pub about: BTreeMap<String, String>,
    /// The number of strikes.
    pub strikes: Option<usize>,
    /// The lost updates of our clients by variant, and of peers by their part.
    pub lost: BTreeMap<String, Lost>,
    /// The number of violations.
    pub violations: Option<usize>,
    /// The number of our clients with a part that did not acquire its lock within a minute, added
    /// up over all strikes.
    #[serde(rename = "never")]
    pub not_recovered: Option<usize>,
    /// The number of nodes and watches that were left behind, plus the number of clients that did
    /// not finish.
    pub left: Option<usize>,
    /// Whether the run was clean: without violations, idle parts and leftovers, and every client
    /// recovered.
    pub clean: Option<bool>,
}

/// Lost updates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Acknowledged updates that are not in the final set.
    pub lost: u64,
    /// Acknowledged updates.
    pub acknowledged: u64,
}

/// The facts with the same value in all runs that report them.
pub(super) fn about(runs: &[Run]) -> Table {
    let mut table = Table::of_words(&["All runs", ""]);
    for (what, values) in facts(runs) {
        if let [value] = values.into_iter().collect::<Vec<_>>()[..] {
            table.row([what.to_owned(), value.to_owned()]);
        }
    }
    table
}

/// One row for each run, with the facts that differ. A column without known values is omitted.
pub(super) fn table(runs: &[Run]) -> Table {
    let different: Vec<_> = facts(runs)
        .into_iter()
        .filter(|(_, values)| values.len() > 1)
        .map(|(what, _)| what)
        .collect();
    let lost: BTreeSet<_> = runs
        .iter()
        .flat_map(|run| run.lost.keys().map(String::as_str))
        .collect();
    let peers = lost
        .iter()
        .copied()
        .filter(|column| !VARIANTS.contains(column));
    let columns: Vec<_> = VARIANTS
        .into_iter()
        .filter(|variant| lost.contains(variant))
        .chain(peers)
        .collect();
    let heads: Vec<_> = columns
        .iter()
        .map(|column| format!("{column}: lost"))
        .collect();
    let head: Vec<_> = different
        .iter()
        .copied()
        .chain(["strikes"])
        .chain(heads.iter().map(String::as_str))
        .chain(["violations", "not recovered", "left", "clean"])
        .collect();
    let mut table = Table::new(&head);
    for run in runs {
        let facts = different
            .iter()
            .map(|what| run.about.get(*what).cloned().unwrap_or_default());
        let lost = columns
            .iter()
            .map(|column| run.lost.get(*column).map_or("-".to_owned(), lost_of));
        let clean = run
            .clean
            .map_or("?", |clean| if clean { "yes" } else { "no" });
        let end = [run.violations, run.not_recovered, run.left]
            .map(optional_count)
            .into_iter()
            .chain([clean.to_owned()]);
        table.row(
            facts
                .chain([optional_count(run.strikes)])
                .chain(lost)
                .chain(end),
        );
    }
    for head in ["strikes", "violations", "not recovered", "left", "clean"] {
        table = table.without(head, "?");
    }
    table
}

/// All facts, each with its values in all runs.
fn facts(runs: &[Run]) -> Vec<(&str, BTreeSet<&str>)> {
    let mut facts = BTreeMap::<_, BTreeSet<_>>::new();
    for (what, value) in runs.iter().flat_map(|run| &run.about) {
        facts
            .entry(what.as_str())
            .or_default()
            .insert(value.as_str());
    }
    let mut facts: Vec<_> = facts.into_iter().collect();
    facts.sort_by_key(|(what, _)| {
        FIRST_FACTS
            .iter()
            .position(|first| first == what)
            .unwrap_or(FIRST_FACTS.len())
    });
    facts
}

fn lost_of(of: &Lost) -> String {
    match *of {
        Lost {
            acknowledged: 0, ..
        } => "-".to_owned(),
        Lost {
            lost: 0,
            acknowledged,
        } => format!("0 of {acknowledged}"),
        Lost { lost, acknowledged } => {
            let percent = tables::percent(&Tally {
                lost,
                acknowledged,
                ..Tally::default()
            });
            format!("{lost} of {acknowledged}, {percent} %")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_facts_are_shown_once_and_columns_without_known_values_are_omitted() {
        let run = |seed: &str, peer: Option<&str>, strikes| {
            let peer = peer.map(|version| ("kazoo".to_owned(), version.to_owned()));
            let about = [("commit", "abc"), ("seed", seed)]
                .map(|(what, value)| (what.to_owned(), value.to_owned()));
            let lost = [("kazoo-plain", 0, 3), ("plain", 1, 8)]
                .map(|(name, lost, acknowledged)| (name.to_owned(), Lost { lost, acknowledged }));
            Run {
                about: about.into_iter().chain(peer).collect(),
                lost: lost.into(),
                strikes,
                violations: Some(0),
                ..Run::default()
            }
        };
        let runs = [run("7", None, Some(2)), run("8", Some("2.11.0"), None)];
        assert_eq!(
            about(&runs).markdown(),
            "| All runs |  |\n|---|---|\n| commit | abc |\n| kazoo | 2.11.0 |\n"
        );
        let table = table(&runs).markdown();
        let head = "| seed | strikes | plain: lost | kazoo-plain: lost | violations |\n|---|---:|---:|---:|---:|\n";
        assert_eq!(
            table,
            format!(
                "{head}| 7 | 2 | 1 of 8, 12.50 % | 0 of 3 | 0 |\n| 8 | ? | 1 of 8, 12.50 % | 0 of 3 | 0 |\n"
            )
        );
    }
}
