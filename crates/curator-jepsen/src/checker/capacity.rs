//! Checks that the claims on a resource never exceed its capacity.

use std::collections::HashSet;

use super::findings::{Kind, Violation};
use super::run::{Run, Span};

/// Finds holds that certainly begin while too little of a resource is free, because other holds
/// certainly claim it (`Exclusivity`), or because it is still promised to them (`Promise`). Holds
/// that exceed the capacity only together with holds whose node an operator has deleted are
/// reported in `without_node`: no lock can prevent them.
pub(crate) fn check(
    run: &Run,
    resource: &str,
    spans: &[Span<'_>],
    found: &mut Vec<Violation>,
    without_node: &mut Vec<Violation>,
) {
    // A resource has one capacity. If clients report different capacities, the smallest counts.
    let capacity = spans
        .iter()
        .map(|span| span.claim.capacity)
        .min()
        .unwrap_or(u32::MAX);
    let mut known = HashSet::new();
    for excess in excesses(spans, capacity, |span| span.certain) {
        known.insert(excess.newcomer);
        found.push(excess.violation(run, resource, spans, capacity, Kind::Exclusivity));
    }
    for excess in excesses(spans, capacity, |span| span.promised) {
        if known.insert(excess.newcomer) {
            found.push(excess.violation(run, resource, spans, capacity, Kind::Promise));
        }
    }
    for excess in excesses(spans, capacity, |span| span.believed) {
        if !known.contains(&excess.newcomer) {
            without_node.push(excess.violation(run, resource, spans, capacity, Kind::Exclusivity));
        }
    }
}

/// A hold that exceeds the capacity, and the other holds at that time.
struct Excess {
    newcomer: usize,
    others: Vec<usize>,
    claimed: u64,
}

/// Finds the spans whose start exceeds the capacity. The spans are sorted by their start.
fn excesses(spans: &[Span<'_>], capacity: u32, end: impl Fn(&Span<'_>) -> u64) -> Vec<Excess> {
    let mut excesses = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for (newcomer, span) in spans.iter().enumerate() {
        open.retain(|&other| end(&spans[other]) > span.start);
        let (of_owner, others): (Vec<_>, Vec<_>) = open
            .iter()
            .partition(|&&other| spans[other].hold.has_owner_of(span.hold));
        let had = of_owner
            .into_iter()
            .map(|open: usize| spans[open].claim.weight)
            .max()
            .unwrap_or(0);
        let claimed = u64::from(span.claim.weight.max(had)) + claimed(spans, &others);
        // A re-entry claims only what the owner claimed already.
        if claimed > u64::from(capacity) && span.claim.weight > had {
            excesses.push(Excess {
                newcomer,
                others,
                claimed,
            });
        }
        open.push(newcomer);
    }
    excesses
}

/// The sum of the greatest claim of each owner.
fn claimed(spans: &[Span<'_>], open: &[usize]) -> u64 {
    open.iter()
        .enumerate()
        .map(|(position, &index)| (position, spans[index]))
        .filter(|(position, span)| {
            // Of the spans of one owner, only the first one with the greatest weight counts.
            !open.iter().enumerate().any(|(other_position, &other)| {
                let other = spans[other];
                let heavier = (other.claim.weight, *position) > (span.claim.weight, other_position);
                other_position != *position && other.hold.has_owner_of(span.hold) && heavier
            })
        })
        .map(|(_, span)| u64::from(span.claim.weight))
        .sum()
}

impl Excess {
    fn violation(
        &self,
        run: &Run,
        resource: &str,
        spans: &[Span<'_>],
        capacity: u32,
        kind: Kind,
    ) -> Violation {
        let newcomer = spans[self.newcomer];
        let others: Vec<_> = self
            .others
            .iter()
            .map(|&other| {
                let Span {
                    hold,
                    claim,
                    certain,
                    promised,
                    believed,
                    ..
                } = spans[other];
                let until = if certain > newcomer.start {
                    format!("certainly until {}", run.time(certain))
                } else if promised > newcomer.start {
                    format!("promised until {}", run.time(promised))
                } else {
                    format!("without its node until {}", run.time(believed))
                };
                format!("{} by {}, {until}", claim.weight, hold.key)
            })
            .collect();
        Violation {
            kind,
            part: newcomer.hold.part.to_string(),
            at: newcomer.start,
            holds: std::iter::once(newcomer.hold.key)
                .chain(self.others.iter().map(|&other| spans[other].hold.key))
                .collect(),
            detail: format!(
                "{} claims {} of {capacity} of {resource}, while others claim {}: {} in total",
                newcomer.hold.key,
                newcomer.claim.weight,
                others.join("; "),
                self.claimed
            ),
        }
    }
}
