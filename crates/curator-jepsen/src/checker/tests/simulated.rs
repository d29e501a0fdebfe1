//! Nothing is found in the histories of correct locks.

use std::collections::BTreeMap;

use clap::ValueEnum;
use proptest::prelude::*;

use super::simulation::Simulation;
use crate::checker::check;
use crate::history::What;
use crate::work::{LockKind, Part, Variant};

/// All parts of the work.
pub(super) fn parts() -> impl Iterator<Item = Part> {
    let locks = LockKind::value_variants().iter();
    locks.flat_map(|&lock| Variant::value_variants().iter().map(move |&variant| Part { lock, variant }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn nothing_is_found_where_the_locks_are_correct(seed: u64) {
        for part in parts() {
            let world = Simulation::run(seed, part, 400);
            let findings = check(&world.events, &world.sets());
            prop_assert_eq!(findings.violations, [], "{}, {}", part.key(), seed);
            prop_assert!(findings.parts.values().all(|tally| tally.lost_early == 0), "{}, {}", part.key(), seed);
        }
    }
}

/// Finding nothing there means something.
#[test]
fn in_the_simulated_world_everything_happens() {
    let mut counts = BTreeMap::<&str, u64>::new();
    for part in parts() {
        for seed in 0..4 {
            let world = Simulation::run(seed, part, 1_000);
            let tally = check(&world.events, &world.sets()).parts[&part.key()];
            let is_fenced = matches!(part.variant, Variant::Transaction | Variant::Token);
            assert!(!is_fenced || tally.lost == 0, "{}: {tally:?}", part.key());
            let refused = if is_fenced { "refused, fenced" } else { "refused, not fenced" };
            let is = |test: fn(&What) -> bool| world.events.iter().filter(|event| test(&event.what)).count() as u64;
            for (what, count) in [
                ("acquired", tally.acquires),
                ("entered again", tally.reentries),
                ("not acquired", tally.not_acquired),
                ("lost", tally.lost),
                ("lost to a stopped client", tally.stopped),
                ("lost to an operator", tally.deleted),
                (refused, tally.refused),
                ("not sent", tally.not_sent),
                ("unknown", tally.unknown),
                ("read twice", tally.reread),
                ("changed", tally.changed),
                ("deleted", is(|what| matches!(what, What::Deleted { .. }))),
                ("downgraded", is(|what| matches!(what, What::Acquired { continues: Some(_), .. }))),
                ("lost before its end", is(|what| matches!(what, What::Invalid { .. }))),
            ] {
                *counts.entry(what).or_default() += count;
            }
        }
    }
    assert_eq!(counts.remove("refused, not fenced"), Some(0));
    assert!(counts.values().all(|count| *count > 0), "{counts:?}");
    println!("{counts:?}");
}
