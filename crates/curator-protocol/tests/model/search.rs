//! Searching a scenario, and what is expected of the search.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash, RandomState};
use std::io::Write;
use std::time::Instant;

use stateright::{Checker, Expectation, HasDiscoveries, Model, Path, Property};

thread_local! {
    /// Searches, and the states that they have seen, in the test of this thread.
    static SEARCHED: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

fn count(states: usize) {
    SEARCHED.set((SEARCHED.get().0 + 1, SEARCHED.get().1 + states as u64));
}

/// Says at the end of a test how much was searched, also when the test passes and its output is kept back.
pub(crate) struct Tally {
    test: &'static str,
    started: Instant,
}

impl Tally {
    pub(crate) fn of(test: &'static str) -> Self {
        SEARCHED.set((0, 0));
        Self { test, started: Instant::now() }
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let ((searches, states), took) = (SEARCHED.get(), self.started.elapsed());
        // `println!` would be kept back.
        let line = format!("model: {}: {searches} searches, {states} states, {took:.1?}\n", self.test);
        std::io::stdout().lock().write_all(line.as_bytes()).unwrap_or_default();
    }
}

/// A state of a world that can be searched through.
pub(crate) trait Searched: Clone + Debug + PartialEq + Hash + Send + Sync + 'static {}

impl<S: Clone + Debug + PartialEq + Hash + Send + Sync + 'static> Searched for S {}

/// Looks at all the states there are. None may break a property, and what is to happen at some time must happen.
#[track_caller]
pub(crate) fn holds<M>(name: &str, scenario: M)
where
    M: Model<State: Searched, Action: Clone + Debug + PartialEq> + Send + Sync + 'static,
{
    let started = Instant::now();
    let is_wanted = |property: &Property<M>| matches!(property.expectation, Expectation::Sometimes);
    let wanted: Vec<_> = scenario.properties().into_iter().filter(is_wanted).map(|property| property.name).collect();
    let checker = scenario.checker().threads(2).spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    count(states);
    println!("{name}: {states} states, depth {depth}, {:.1?}", started.elapsed());
    for (property, path) in checker.discoveries() {
        let end = path.last_state().clone();
        assert!(wanted.contains(&property), "{name}: not so that {property}: {:?}\n{end:#?}", path.into_actions());
    }
    wanted.into_iter().for_each(|property| drop(checker.assert_any_discovery(property)));
}

/// Expects that the search finds a way to break this property.
#[track_caller]
pub(crate) fn breaks<M>(property: &'static str, name: &str, scenario: M)
where
    M: Model<State: Searched, Action: Clone + Debug + PartialEq> + Send + Sync + 'static,
{
    let started = Instant::now();
    let search = scenario.checker().threads(2).finish_when(HasDiscoveries::AnyOf([property].into()));
    let checker = search.spawn_bfs().join();
    let states = checker.unique_state_count();
    let path = checker.discovery(property).map(Path::into_actions);
    assert!(path.is_some(), "{name}: the search is blind, {property} in all {states} states");
    count(states);
    println!("{name}: not so that {property}, after {states} states, {:.1?}: {path:?}", started.elapsed());
}

/// Checks that no run goes round in circles. So every run comes to a quiet state, and of those the properties speak.
#[track_caller]
pub(crate) fn ends<M: Model<State: Debug + Hash>>(name: &str, scenario: &M) {
    let started = Instant::now();
    let hasher = RandomState::new();
    // By fingerprint: whether the state lies on the path from the beginning to here.
    let mut on_path = HashMap::new();
    let mut stack = Vec::new();
    for state in scenario.init_states() {
        stack.push(Visit::Enter(state));
    }
    while let Some(visit) = stack.pop() {
        match visit {
            Visit::Leave(fingerprint) => {
                on_path.insert(fingerprint, false);
            }
            Visit::Enter(state) => {
                let fingerprint = hasher.hash_one(&state);
                let seen = on_path.get(&fingerprint);
                assert_ne!(seen, Some(&true), "{name}: comes back to {state:#?}");
                if seen.is_some() {
                    continue;
                }
                on_path.insert(fingerprint, true);
                stack.push(Visit::Leave(fingerprint));
                let mut actions = Vec::new();
                scenario.actions(&state, &mut actions);
                stack.extend(
                    actions.into_iter().filter_map(|action| scenario.next_state(&state, action)).map(Visit::Enter),
                );
            }
        }
    }
    count(on_path.len());
    println!("{name}: every run ends, {} states, {:.1?}", on_path.len(), started.elapsed());
}

enum Visit<S> {
    Enter(S),
    Leave(u64),
}
