//! The summary of several runs.

use std::collections::{BTreeMap, BTreeSet};

use super::document::Report;
use super::recovery::{self, Counted, Left, Recovery};
use super::table::Table;
use super::{caches, counters, leaders, parts, services};
use crate::checker::{CounterTally, ServiceTally, Tally, part};
use crate::work::Variant;

/// Tables of several runs, in Markdown: the common lines of their heads, the findings of each run, the sums of each
/// part of the work, and the recoveries.
#[must_use]
pub fn summary(reports: &[Report]) -> String {
    let (same, different) = about(reports);
    let mut head = Table::of_words(&["All runs", ""]);
    for (what, value) in same {
        head.row([what.to_owned(), value.to_owned()]);
    }
    let mut sums = BTreeMap::<String, Tally>::new();
    for (part, tally) in reports.iter().flat_map(|report| &report.findings.parts) {
        *sums.entry(part.clone()).or_default() += *tally;
    }
    let recoveries = reports.iter().flat_map(|report| &report.recovery);
    let recoveries = recoveries.map(|one| Recovery { nemesis: row(&one.nemesis).to_owned(), ..one.clone() });
    let recoveries: Vec<_> = recoveries.collect();
    let aftermaths = reports.iter().flat_map(|report| &report.findings.leaders);
    let leaders = leaders::tables(aftermaths.map(|one| (row(&one.nemesis), one)));
    let tables = [head, runs(reports, &different), parts::table(&sums), recovery::table(&recoveries)];
    let aftermaths = reports.iter().flat_map(|report| &report.findings.caches);
    let caches = caches::table(aftermaths.map(|one| (row(&one.nemesis), one)));
    let mut counted = BTreeMap::<String, CounterTally>::new();
    for (part, tally) in reports.iter().flat_map(|report| &report.findings.counters) {
        *counted.entry(part.clone()).or_default() += *tally;
    }
    let counters = counters::table(&counted);
    let mut served = BTreeMap::<String, ServiceTally>::new();
    for (part, tally) in reports.iter().flat_map(|report| &report.findings.services) {
        *served.entry(part.clone()).or_default() += *tally;
    }
    let services = services::table(&served);
    let tables = tables.into_iter().chain(leaders.into_iter().flatten()).chain(caches).chain(counters).chain(services);
    tables.map(|table| table.markdown()).collect::<Vec<_>>().join("\n")
}

/// The name of a row. Pairs of nemeses share a row, as there are too many of them.
fn row(nemesis: &str) -> &str {
    if nemesis.contains(" + ") { "two at once" } else { nemesis }
}

/// The lines that all heads have in common, and the names of the others.
fn about(reports: &[Report]) -> (Vec<(&str, &str)>, Vec<&str>) {
    let (mut same, mut different) = (Vec::new(), Vec::new());
    for line in reports.iter().flat_map(|report| &report.about) {
        let (what, value) = (line.0.as_str(), line.1.as_str());
        if reports.iter().all(|report| report.about.contains(line)) {
            if !same.contains(&(what, value)) {
                same.push((what, value));
            }
        } else if !different.contains(&what) {
            different.push(what);
        }
    }
    (same, different)
}

/// One row for each run.
fn runs(reports: &[Report], different: &[&str]) -> Table {
    let variants = [Variant::Plain, Variant::Guarded, Variant::Transaction, Variant::Token];
    let keys = reports.iter().flat_map(|report| report.findings.parts.keys());
    let peers: BTreeSet<_> = keys.filter(|key| part(key).is_none()).collect();
    let whose = variants.iter().map(ToString::to_string).chain(peers.iter().map(ToString::to_string));
    let lost_of: Vec<_> = whose.map(|whose| format!("{whose}: lost")).collect();
    let columns = different.iter().copied().chain(["strikes"]).chain(lost_of.iter().map(String::as_str));
    let mut table = Table::new(&columns.chain(["violations", "never", "left", "clean"]).collect::<Vec<_>>());
    for report in reports {
        let value = |what: &&str| report.about.iter().find(|(known, _)| known == what).map(|(_, value)| value.clone());
        let values = different.iter().map(|what| value(what).unwrap_or_default());
        let of_ours = variants.map(|asked| lost(report, |key| part(key).is_some_and(|part| part.variant == asked)));
        let of_peers = peers.iter().map(|peer| lost(report, |key| key == *peer));
        let never: usize = report.recovery.iter().map(|recovery| recovery.never).sum();
        let clean = if report.is_clean() { "yes" } else { "no" };
        let numbers = [report.recovery.len().to_string()].into_iter().chain(of_ours).chain(of_peers);
        let end = [report.violations().to_string(), never.to_string(), left(report), clean.to_owned()];
        table.row(values.chain(numbers).chain(end));
    }
    table
}

/// The number of lost and of acknowledged writes in these parts.
fn lost(report: &Report, is_asked_for: impl Fn(&str) -> bool) -> String {
    let mut sum = Tally::default();
    for (_, tally) in report.findings.parts.iter().filter(|(key, _)| is_asked_for(key)) {
        sum += *tally;
    }
    match (sum.acknowledged, sum.lost) {
        (0, _) => "-".to_owned(),
        (acknowledged, 0) => format!("0 of {acknowledged}"),
        (acknowledged, lost) => format!("{lost} of {acknowledged}, {} %", parts::percent(&sum)),
    }
}

/// The number of nodes and watches that were left, and of clients that did not finish; `?` if a server did not answer.
fn left(report: &Report) -> String {
    let after = |recovery: &Recovery| Some(recovery.nodes_left + recovery.watches_left?);
    let at_end = |left: &Left| {
        let of = |counted: Counted| Some(counted.nodes + usize::try_from(counted.watches?).ok()?);
        Some(left.clients + of(left.at_rest)? + of(left.at_end)?)
    };
    let counts = report.recovery.iter().map(after).chain([report.left.as_ref().and_then(at_end)]);
    counts.sum::<Option<usize>>().map_or("?".to_owned(), |left| left.to_string())
}
