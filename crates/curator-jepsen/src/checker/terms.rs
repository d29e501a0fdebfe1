//! Computes the effect of each strike on the leaders: terms, overlaps, and the longest time without
//! a leader.

use std::collections::BTreeMap;
use std::time::Duration;

use super::claims::Span;
use super::findings::{Aftermath, Kind, Violation};
use super::parts;
use super::seen::Run;
use super::strikes::Strike;

/// Returns one entry for each strike and each part with leaders. Overlaps are the violations of
/// exclusivity: those in `found`, and separately those in `without_node`, which an operator's
/// delete explains.
pub(crate) fn aftermaths<'a>(
    run: &Run,
    spans: impl Iterator<Item = Span<'a>>,
    found: &[Violation],
    without_node: &[Violation],
) -> Vec<Aftermath> {
    let mut terms = BTreeMap::<&str, Vec<Span<'a>>>::new();
    for span in spans.filter(|span| parts::leaders(&span.hold.part).is_some()) {
        terms.entry(&span.hold.part).or_default().push(span);
    }
    let end = terms
        .values()
        .flatten()
        .map(|term| term.believed)
        .max()
        .unwrap_or_default();
    let strikes: Vec<_> = run.strikes.finish(end).collect();
    let mut aftermaths = Vec::new();
    for (part, terms) in terms {
        let reached = reached(&terms);
        let overlaps = |violations: &[Violation], strike: &Strike| {
            let is_overlap = |it: &&Violation| {
                it.kind == Kind::Exclusivity && it.part == part && strike.lasts_at(it.at)
            };
            violations.iter().filter(is_overlap).count() as u64
        };
        for strike in &strikes {
            aftermaths.push(Aftermath {
                nemesis: strike.nemesis.clone(),
                part: part.to_owned(),
                terms: terms
                    .iter()
                    .filter(|term| strike.lasts_at(term.start))
                    .count() as u64,
                overlaps: overlaps(found, strike),
                without_node: overlaps(without_node, strike),
                leaderless: Duration::from_nanos(leaderless(&terms, &reached, strike)),
            });
        }
    }
    aftermaths
}

/// For each term, the latest end of this term and of all earlier terms.
fn reached(terms: &[Span<'_>]) -> Vec<u64> {
    let mut reached = 0;
    let latest = terms.iter().map(|term| {
        reached = term.believed.max(reached);
        reached
    });
    latest.collect()
}

/// The longest interval without a leader during this strike. The terms are sorted by start.
fn leaderless(terms: &[Span<'_>], reached: &[u64], strike: &Strike) -> u64 {
    let first = terms.partition_point(|term| term.start < strike.from);
    let before = first.checked_sub(1).map_or(0, |last| reached[last]);
    let (mut led_until, mut longest) = (before.max(strike.from), 0);
    let within = terms
        .iter()
        .zip(reached)
        .skip(first)
        .take_while(|(term, _)| term.start < strike.to);
    for (term, reached) in within {
        longest = term.start.saturating_sub(led_until).max(longest);
        led_until = led_until.max(*reached);
    }
    strike.to.saturating_sub(led_until).max(longest)
}
