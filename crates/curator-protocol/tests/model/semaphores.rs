//! The search with the semaphore, and the defects that it has to find.

use super::defect::Defect;
use super::scenario::{Fault, KINDS, Scenario, pairs_of_kinds};
use super::search::{assert_properties, assert_runs_end, assert_violations};
use super::world::{LEFTOVER, LIMIT_EXCEEDED, STUCK_WAITER, UNREAD_WRITE, WRONG_LEASES};

#[test]
fn properties_hold_for_a_semaphore_without_faults() {
    assert_properties([
        Scenario::for_leases(&[1, 1], 1),
        Scenario::for_leases(&[1, 1, 1], 1),
        Scenario::for_leases(&[1, 1, 2], 2),
        Scenario::for_leases(&[1, 1, 1], 2),
        Scenario::for_leases(&[1, 1, 1], 1).changed_to(2),
        Scenario::for_leases(&[1, 1, 2], 2).changed_to(1),
        Scenario::for_leases(&[1, 2], 1).changed_to(2),
    ]);
}

#[test]
fn properties_hold_for_a_semaphore_with_one_fault() {
    for fault in KINDS {
        // A lost session stays alive on the server for a while, which multiplies the states.
        let most: &[_] = if fault == Fault::LostSession {
            &[1, 1]
        } else {
            &[1, 1, 1]
        };
        let scenarios = [
            Scenario::for_leases(most, 1),
            Scenario::for_leases(&[1, 2], 2),
            Scenario::for_leases(&[1, 1], 1).changed_to(2),
            Scenario::for_leases(&[1, 2], 2).changed_to(1),
        ];
        assert_properties(scenarios.map(|scenario| scenario.with(&[fault])));
    }
}

#[test]
fn properties_hold_for_a_semaphore_with_two_faults() {
    for faults in pairs_of_kinds() {
        let two = Scenario::for_leases(&[1, 1], 1).with_limit_node(true);
        assert_properties(
            [two, Scenario::for_leases(&[2], 2).changed_to(1)]
                .map(|scenario| scenario.with(&faults)),
        );
    }
}

/// The node that contains the limit is missing, alone or together with directories; or an empty
/// directory is removed.
#[test]
fn properties_hold_for_a_semaphore_whose_nodes_are_missing() {
    let two = || Scenario::for_leases(&[1, 1], 1);
    for fault in KINDS {
        let directories = [[true, true], [true, false], [false, false]];
        assert_properties(directories.map(|exist| {
            two()
                .with_limit_node(false)
                .in_directories(exist)
                .with(&[fault])
        }));
        assert_properties([two().with(&[fault, Fault::Reap])]);
    }
}

#[test]
fn every_run_of_a_semaphore_ends() {
    for fault in KINDS {
        let scenarios = [
            Scenario::for_leases(&[1, 1], 1),
            Scenario::for_leases(&[1, 2], 2).changed_to(1),
        ];
        assert_runs_end(scenarios.map(|scenario| scenario.with(&[fault])));
    }
}

#[test]
fn deliberate_defects_of_a_semaphore_are_found() {
    use Fault::{Cancel, Delete, Disconnect, Write};
    let one = || Scenario::for_leases(&[1], 1);
    let two = || Scenario::for_leases(&[1, 1], 1);
    let cases = [
        (
            LIMIT_EXCEEDED,
            two()
                .with(&[Delete])
                .with_defect(Defect::DeletesThePlaceLater),
        ),
        (
            LIMIT_EXCEEDED,
            Scenario::for_leases(&[2], 2)
                .changed_to(1)
                .with_defect(Defect::IgnoresTheLimitsVersion),
        ),
        (
            UNREAD_WRITE,
            one()
                .with(&[Write])
                .with_defect(Defect::IgnoresThePlacesVersion),
        ),
        (STUCK_WAITER, two().with_defect(Defect::LosesLeaseEvents)),
        (
            STUCK_WAITER,
            two()
                .with(&[Disconnect])
                .with_defect(Defect::HidesInterruptions),
        ),
        (
            WRONG_LEASES,
            Scenario::for_leases(&[1], 2)
                .with(&[Disconnect])
                .with_defect(Defect::TakesAgainWithoutRecovery),
        ),
        (
            LEFTOVER,
            one().with(&[Cancel]).with_defect(Defect::LeavesLeases),
        ),
    ];
    assert_violations(cases);
}
