//! Contenders that must not wait: they own or are refused immediately, leave no node behind, and do
//! not block others.

use super::defect::Defect;
use super::scenario::{Fault, KINDS, Scenario};
use super::search::{assert_properties, assert_runs_end, assert_violations};
use super::world::{LEFTOVER, STUCK_WAITER};

/// Contenders that must not wait, some of them beside contenders that may.
fn scenarios() -> [Scenario; 12] {
    let crossed = || Scenario::for_queues(&[&[0, 1], &[1, 0]]);
    [
        Scenario::contenders(3).with_impatient(1),
        Scenario::contenders(3).with_impatient(3),
        Scenario::contenders(2).behind(1).with_impatient(1),
        crossed().with_impatient(2),
        crossed().behind_in([0, 1]).with_impatient(1),
        Scenario::for_leases(&[1, 1], 1).with_impatient(1),
        Scenario::for_leases(&[1, 1], 1).with_impatient(2),
        Scenario::for_leases(&[1, 1], 2).with_impatient(2),
        Scenario::for_leases(&[2, 1], 2).with_impatient(2),
        Scenario::for_leases(&[1, 1], 2)
            .with_limit_node(false)
            .with_impatient(2),
        Scenario::for_leases(&[2, 1], 2).with_impatient(1),
        Scenario::for_leases(&[1, 2], 2)
            .changed_to(1)
            .with_impatient(1),
    ]
}

#[test]
fn contests_without_waiting_own_or_are_refused() {
    assert_properties(scenarios());
    assert_properties([
        Scenario::for_leases(&[1, 1, 1], 2).with_impatient(3),
        Scenario::for_leases(&[1, 1, 1], 3).with_impatient(3),
        Scenario::for_leases(&[1, 1, 2], 3).with_impatient(2),
    ]);
    assert_properties(
        Scenario::rows_of_readers_and_writers(3)
            .skip(1)
            .map(|row| row.with_impatient(1)),
    );
}

#[test]
fn contests_without_waiting_own_or_are_refused_with_one_fault() {
    for fault in KINDS {
        // A lost session stays alive on the server for a while, which multiplies the states.
        assert_properties(
            scenarios()
                .into_iter()
                .filter(|scenario| fault != Fault::LostSession || scenario.clients.len() < 3)
                .map(|scenario| scenario.with(&[fault])),
        );
    }
}

#[test]
fn every_run_of_contests_without_waiting_ends() {
    for fault in KINDS {
        let scenarios = [Scenario::contenders(2), Scenario::for_leases(&[1, 1], 1)];
        assert_runs_end(scenarios.map(|scenario| scenario.with_impatient(1).with(&[fault])));
    }
}

#[test]
fn deliberate_defects_of_contests_without_waiting_are_found() {
    let cases = [
        (LEFTOVER, Scenario::contenders(1).behind(1)),
        (STUCK_WAITER, Scenario::contenders(2).behind(1)),
        (LEFTOVER, Scenario::for_queues(&[&[0, 1]]).behind_in([0, 1])),
        (STUCK_WAITER, Scenario::for_leases(&[1, 1, 1], 1)),
    ];
    assert_violations(cases.map(|(property, scenario)| {
        (
            property,
            scenario
                .with_impatient(1)
                .with_defect(Defect::LeavesNodesWhenRefused),
        )
    }));
}
