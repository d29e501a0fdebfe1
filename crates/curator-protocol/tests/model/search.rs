//! Searching a scenario, and what is expected of the search.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model, Path, Property};

use super::scenario::Scenario;

/// Looks at all the states of each scenario. None may break a property, and what is to happen at some time must happen.
#[track_caller]
pub(crate) fn hold(scenarios: impl IntoIterator<Item = Scenario>) {
    for scenario in scenarios {
        let (name, started) = (format!("{scenario:?}"), Instant::now());
        let is_wanted = |property: &Property<Scenario>| matches!(property.expectation, Expectation::Sometimes);
        let wanted: Vec<_> = scenario.properties().into_iter().filter(is_wanted).collect();
        let checker = scenario.checker().threads(2).spawn_bfs().join();
        let (states, depth) = (checker.unique_state_count(), checker.max_depth());
        println!("{name}: {states} states, depth {depth}, {:.1?}", started.elapsed());
        for (property, path) in checker.discoveries() {
            let (is_wanted, end) = (wanted.iter().any(|wanted| wanted.name == property), path.last_state().clone());
            assert!(is_wanted, "{name}: not so that {property}: {:?}\n{end:#?}", path.into_actions());
        }
        wanted.into_iter().for_each(|property| drop(checker.assert_any_discovery(property.name)));
    }
}

/// Expects that the search finds a way to break this property.
#[track_caller]
pub(crate) fn breaks(property: &'static str, scenario: Scenario) {
    let (name, started) = (format!("{scenario:?}"), Instant::now());
    let search = scenario.checker().threads(2).finish_when(HasDiscoveries::AnyOf([property].into()));
    let checker = search.spawn_bfs().join();
    let states = checker.unique_state_count();
    let path = checker.discovery(property).map(Path::into_actions);
    assert!(path.is_some(), "{name}: the search is blind, {property} in all {states} states");
    println!("{name}: not so that {property}, after {states} states, {:.1?}: {path:?}", started.elapsed());
}

/// Checks that no run goes round in circles. So every run comes to a quiet state, and of those the properties speak.
#[track_caller]
pub(crate) fn end(scenarios: impl IntoIterator<Item = Scenario>) {
    for scenario in scenarios {
        let started = Instant::now();
        let hasher = RandomState::new();
        // By fingerprint: whether the state lies on the path from the beginning to here.
        let mut on_path = HashMap::new();
        let mut stack: Vec<_> = scenario.init_states().into_iter().map(Visit::Enter).collect();
        while let Some(visit) = stack.pop() {
            match visit {
                Visit::Leave(fingerprint) => {
                    on_path.insert(fingerprint, false);
                }
                Visit::Enter(state) => {
                    let fingerprint = hasher.hash_one(&state);
                    let seen = on_path.get(&fingerprint);
                    assert_ne!(seen, Some(&true), "{scenario:?}: comes back to {state:#?}");
                    if seen.is_some() {
                        continue;
                    }
                    on_path.insert(fingerprint, true);
                    stack.push(Visit::Leave(fingerprint));
                    let mut actions = Vec::new();
                    scenario.actions(&state, &mut actions);
                    let next = actions.into_iter().filter_map(|action| scenario.next_state(&state, action));
                    stack.extend(next.map(Visit::Enter));
                }
            }
        }
        println!("{scenario:?}: every run ends, {} states, {:.1?}", on_path.len(), started.elapsed());
    }
}

enum Visit<S> {
    Enter(S),
    Leave(u64),
}
