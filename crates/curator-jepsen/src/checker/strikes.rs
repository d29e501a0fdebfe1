//! The strikes of a run, each with the time until the next one, and their effect on the leaders:
//! terms, overlaps, and the longest time without a leader.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::findings::{Aftermath, Kind, Violation, leaders};
use super::run::{Run, Span};
use crate::history::{Phase, What};

/// The strikes, from the conductor's events.
#[derive(Debug, Default)]
pub(crate) struct Strikes {
    /// The names of the nemeses of each strike, and a time before the first of them started.
    begun: Vec<(BTreeSet<String>, u64)>,
    active: BTreeSet<String>,
    /// A time before the conductor requested the first clients to finish.
    finishing: Option<u64>,
}

/// A strike, and the time until the next one.
#[derive(Debug)]
pub(crate) struct Strike {
    /// The name in the report; both names if two nemeses struck together.
    pub(crate) nemesis: String,
    /// A time before the strike.
    pub(crate) from: u64,
    /// A time before the next strike, or the end.
    pub(crate) to: u64,
}

impl Strikes {
    /// Records an event of the conductor. The events must be in the order of their times.
    pub(crate) fn see(&mut self, at: u64, what: &What) {
        match what {
            What::Nemesis {
                name,
                phase: Phase::Begin,
                ..
            } => {
                match self.begun.last_mut() {
                    Some((names, _)) if !self.active.is_empty() => drop(names.insert(name.clone())),
                    _ => self.begun.push((BTreeSet::from([name.clone()]), at)),
                }
                self.active.insert(name.clone());
            }
            What::Nemesis {
                name,
                phase: Phase::End,
                ..
            } => drop(self.active.remove(name)),
            What::Finishing => self.finishing = Some(at),
            _ => {}
        }
    }

    /// All strikes. The last one lasts until the clients had to finish, or until `end` if the run
    /// was aborted before.
    pub(crate) fn finish(&self, end: u64) -> impl Iterator<Item = Strike> {
        let ends = self
            .begun
            .iter()
            .skip(1)
            .map(|(_, from)| *from)
            .chain([self.finishing.unwrap_or(end)]);
        self.begun
            .iter()
            .zip(ends)
            .map(|((names, from), to)| Strike {
                nemesis: names.iter().cloned().collect::<Vec<_>>().join(" + "),
                from: *from,
                to,
            })
    }
}

impl Strike {
    /// Whether this strike is the latest one at the time `at`.
    pub(crate) fn lasts_at(&self, at: u64) -> bool {
        (self.from..self.to).contains(&at)
    }
}

/// Returns one entry for each strike and each part with leaders. Overlaps are the violations of
/// exclusivity in `found`. The violations in `without_node`, which an operator's delete explains,
/// are counted separately.
pub(crate) fn aftermaths<'a>(
    run: &Run,
    spans: impl Iterator<Item = Span<'a>>,
    found: &[Violation],
    without_node: &[Violation],
) -> Vec<Aftermath> {
    let mut terms = BTreeMap::<&str, Vec<Span<'a>>>::new();
    for span in spans.filter(|span| leaders(&span.hold.part).is_some()) {
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
            violations
                .iter()
                .filter(|it| {
                    it.kind == Kind::Exclusivity && it.part == part && strike.lasts_at(it.at)
                })
                .count() as u64
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
    terms
        .iter()
        .map(|term| {
            reached = term.believed.max(reached);
            reached
        })
        .collect()
}

/// The longest interval without a leader during this strike. The terms are sorted by start.
fn leaderless(terms: &[Span<'_>], reached: &[u64], strike: &Strike) -> u64 {
    let first = terms.partition_point(|term| term.start < strike.from);
    let mut led_until = first
        .checked_sub(1)
        .map_or(0, |last| reached[last])
        .max(strike.from);
    let mut longest = 0;
    for (term, reached) in terms
        .iter()
        .zip(reached)
        .skip(first)
        .take_while(|(term, _)| term.start < strike.to)
    {
        longest = term.start.saturating_sub(led_until).max(longest);
        led_until = led_until.max(*reached);
    }
    strike.to.saturating_sub(led_until).max(longest)
}
