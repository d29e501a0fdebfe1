//! Searches a scenario, and checks the result.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

use super::scenario::Scenario;

/// Searches all states of each scenario. Fails if a property is violated, or an expected state is
/// never reached.
#[track_caller]
pub(crate) fn assert_properties(scenarios: impl IntoIterator<Item = Scenario>) {
    for scenario in scenarios {
        let name = format!("{scenario:?}");
        let started = Instant::now();
        let checker = scenario.checker().threads(2).spawn_bfs().join();
        // Printed before the check, so that the output names the scenario that fails.
        println!(
            "{name}: {} states, depth {}, {:.1?}",
            checker.unique_state_count(),
            checker.max_depth(),
            started.elapsed()
        );
        checker.assert_properties();
    }
}

/// Fails unless the search of each scenario finds a violation of its property.
#[track_caller]
pub(crate) fn assert_violations(cases: impl IntoIterator<Item = (&'static str, Scenario)>) {
    for (property, scenario) in cases {
        let name = format!("{scenario:?}");
        let started = Instant::now();
        let checker = scenario
            .checker()
            .threads(2)
            .finish_when(HasDiscoveries::AnyOf([property].into()))
            .spawn_bfs()
            .join();
        println!(
            "{name}: {} states, {:.1?}",
            checker.unique_state_count(),
            started.elapsed()
        );
        let path = checker.assert_any_discovery(property).into_actions();
        println!("violated: {property}: {path:?}");
    }
}

/// Checks that no run is infinite. So every run reaches a final state, where `LEFTOVER` and
/// `STUCK_WAITER` are checked.
#[track_caller]
pub(crate) fn assert_runs_end(scenarios: impl IntoIterator<Item = Scenario>) {
    for scenario in scenarios {
        let started = Instant::now();
        let hasher = RandomState::new();
        // Whether each visited state, given by its fingerprint, is on the current path.
        let mut on_path = HashMap::new();
        let mut stack: Vec<_> = scenario
            .init_states()
            .into_iter()
            .map(Visit::Enter)
            .collect();
        while let Some(visit) = stack.pop() {
            match visit {
                Visit::Leave(fingerprint) => {
                    on_path.insert(fingerprint, false);
                }
                Visit::Enter(state) => {
                    let fingerprint = hasher.hash_one(&state);
                    let seen = on_path.get(&fingerprint);
                    assert_ne!(
                        seen,
                        Some(&true),
                        "{scenario:?}: a run returns to {state:#?}"
                    );
                    if seen.is_some() {
                        continue;
                    }
                    on_path.insert(fingerprint, true);
                    stack.push(Visit::Leave(fingerprint));
                    let mut actions = Vec::new();
                    scenario.actions(&state, &mut actions);
                    stack.extend(
                        actions
                            .into_iter()
                            .filter_map(|action| scenario.next_state(&state, action))
                            .map(Visit::Enter),
                    );
                }
            }
        }
        println!(
            "{scenario:?}: every run ends, {} states, {:.1?}",
            on_path.len(),
            started.elapsed()
        );
    }
}

enum Visit<S> {
    Enter(S),
    Leave(u64),
}
