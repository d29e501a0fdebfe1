//! The summary of several runs.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use clap::ValueEnum;
use curator_results::faults::{ByNemesis, Lost, Recoveries, Run, Summary, Terms, Times};

use super::{LeftoverCounts, Leftovers, Recovery, Report};
use crate::checker::{Aftermath, leaders, part};
use crate::work::Variant;

/// The name under which the numbers of a nemesis are added up. All pairs of nemeses share one name,
/// because there are too many pairs.
#[must_use]
pub fn kind(nemesis: &str) -> &str {
    if nemesis.contains(" + ") {
        "two at once"
    } else {
        nemesis
    }
}

/// The numbers of these runs, added up by the kind of each nemesis.
#[must_use]
pub fn summary(reports: &[Report], kind: fn(&str) -> &str) -> Summary {
    let findings = || reports.iter().map(|report| &report.findings);
    let mut recovery = BTreeMap::<String, Vec<&Recovery>>::new();
    for one in reports.iter().flat_map(|report| &report.recovery) {
        recovery
            .entry(kind(&one.nemesis).to_owned())
            .or_default()
            .push(one);
    }
    let mut terms = ByNemesis::<Vec<&Aftermath>>::new();
    for one in findings().flat_map(|findings| &findings.leaders) {
        terms
            .entry(kind(&one.nemesis).to_owned())
            .or_default()
            .entry(leaders(&one.part).unwrap_or_default())
            .or_default()
            .push(one);
    }
    let mut caches = ByNemesis::new();
    for one in findings().flat_map(|findings| &findings.caches) {
        add(
            caches.entry(kind(&one.nemesis).to_owned()).or_default(),
            [(&one.part, &one.tally)],
        );
    }
    let mut summary = Summary {
        runs: reports.iter().map(run).collect(),
        recovery: recovery
            .into_iter()
            .map(|(nemesis, strikes)| (nemesis, recoveries(&strikes)))
            .collect(),
        leaders: terms
            .into_iter()
            .map(|(nemesis, kinds)| {
                let terms = kinds
                    .into_iter()
                    .map(|(kind, strikes)| (kind, self::terms(&strikes)))
                    .collect();
                (nemesis, terms)
            })
            .collect(),
        caches,
        ..Summary::default()
    };
    for findings in findings() {
        add(&mut summary.parts, &findings.parts);
        add(&mut summary.counters, &findings.counters);
        add(&mut summary.services, &findings.services);
    }
    summary
}

fn add<'a, T: AddAssign + Copy + Default + 'a>(
    sums: &mut BTreeMap<String, T>,
    numbers: impl IntoIterator<Item = (&'a String, &'a T)>,
) {
    for (part, numbers) in numbers {
        *sums.entry(part.clone()).or_default() += *numbers;
    }
}

fn run(report: &Report) -> Run {
    let mut about: BTreeMap<_, _> = report.about.iter().cloned().collect();
    about
        .entry("commit".to_owned())
        .or_insert_with(|| "unknown".to_owned());
    let mut lost: BTreeMap<_, _> = Variant::value_variants()
        .iter()
        .map(|variant| (variant.to_string(), Lost::default()))
        .collect();
    for (key, tally) in &report.findings.parts {
        let sums = lost
            .entry(part(key).map_or_else(|| key.clone(), |part| part.variant.to_string()))
            .or_default();
        sums.lost += tally.lost;
        sums.acknowledged += tally.acknowledged;
    }
    Run {
        about,
        strikes: Some(report.recovery.len()),
        lost,
        violations: Some(report.violations()),
        not_recovered: Some(
            report
                .recovery
                .iter()
                .map(|recovery| recovery.not_recovered)
                .sum(),
        ),
        left: left(report),
        clean: Some(report.is_clean()),
    }
}

/// The number of nodes and watches that were left behind, plus the number of clients that did not
/// finish. `None` if a server did not reply.
fn left(report: &Report) -> Option<usize> {
    report
        .recovery
        .iter()
        .map(|recovery| Some(recovery.nodes_left + recovery.watches_left?))
        .chain([report.left.as_ref().and_then(left_at_end)])
        .sum()
}

fn left_at_end(left: &Leftovers) -> Option<usize> {
    let sum = |counts: LeftoverCounts| Some(counts.nodes + usize::try_from(counts.watches?).ok()?);
    Some(left.clients + sum(left.at_rest)? + sum(left.at_end)?)
}

fn recoveries(strikes: &[&Recovery]) -> Recoveries {
    Recoveries {
        times: strikes.len(),
        first_acquire: Times::of(strikes.iter().map(|one| one.first_acquire)),
        all_clients: Times::of(strikes.iter().map(|one| one.all_progress)),
        not_recovered: strikes.iter().map(|one| one.not_recovered).sum(),
        nodes_left: strikes.iter().map(|one| one.nodes_left).sum(),
        watches_left: strikes.iter().map(|one| one.watches_left).sum(),
    }
}

fn terms(strikes: &[&Aftermath]) -> Terms {
    Terms {
        terms: strikes.iter().map(|one| one.terms).sum(),
        overlaps: strikes.iter().map(|one| one.overlaps).sum(),
        without_node: strikes.iter().map(|one| one.without_node).sum(),
        leaderless: Times::of(strikes.iter().map(|one| Some(one.leaderless))),
    }
}
