//! Checks that each shard is served again after each strike.
//!
//! | [`Kind`] | What is found |
//! |---|---|
//! | `Unserved` | for [`BOUND`] after the end of a strike, until the next one, nobody certainly had the lease of a shard |
//!
//! A lease is a hold, so the other rules for holds and writes apply to shards too.

use std::collections::BTreeMap;

use super::findings::{Kind, Violation};
use super::run::{Run, Span};
use crate::history::SHARDS;

/// As long as each client may take to acquire each lock after a strike.
const BOUND: u64 = 60_000_000_000;

/// Finds shards that nobody serves. Without a strike, and while one lasts, nothing is promised.
pub(crate) fn check(
    run: &Run,
    resources: &BTreeMap<&str, Vec<Span<'_>>>,
    found: &mut Vec<Violation>,
) {
    let of_shards = resources
        .iter()
        .filter(|(_, spans)| spans.iter().any(|span| &*span.hold.part == SHARDS));
    let shards: Vec<_> = of_shards.collect();
    let last = |spans: &[Span<'_>]| spans.iter().map(|span| span.certain).max();
    let end = shards.iter().filter_map(|(_, spans)| last(spans)).max();
    for strike in run.strikes.finish(end.unwrap_or_default()) {
        let lasting = run
            .disturbances
            .iter()
            .filter(|it| strike.lasts_at(it.from));
        let healed = lasting.map(|it| it.to).max().unwrap_or(strike.from);
        let limit = healed.saturating_add(BOUND);
        if strike.to < limit {
            continue;
        }
        for (shard, spans) in &shards {
            let is_served = spans
                .iter()
                .any(|span| span.start <= limit && span.certain >= healed);
            if !is_served {
                found.push(Violation {
                    kind: Kind::Unserved,
                    part: SHARDS.to_owned(),
                    at: limit,
                    holds: Vec::new(),
                    detail: format!(
                        "nobody has served {shard} since {}, when {} ended",
                        run.time(healed),
                        strike.nemesis
                    ),
                });
            }
        }
    }
}
