//! The search with contests for several queues together, and the defects that it has to find.
//!
//! Two queues suffice: a cycle of waiters needs a contender that blocks another in one queue and
//! waits in a second. Two contenders for both queues, with a third contender or nodes of other
//! clients, suffice for a state where each of the two is first in only one queue.

use super::defect::Defect;
use super::scenario::{Fault, KINDS, Scenario, pairs_of_kinds};
use super::search::{assert_properties, assert_runs_end, assert_violations};
use super::world::{LEFTOVER, STUCK_WAITER, UNUSED_DIRECTORY, WRONG_OWNER};

/// Two contenders for both queues, named in opposite orders.
fn crossed() -> Scenario {
    Scenario::for_queues(&[&[0, 1], &[1, 0]])
}

fn same() -> Scenario {
    Scenario::for_queues(&[&[0, 1], &[0, 1]])
}

fn one() -> Scenario {
    Scenario::for_queues(&[&[0, 1]])
}

fn one_and_single() -> Scenario {
    Scenario::for_queues(&[&[0, 1], &[1]])
}

fn one_and_singles() -> Scenario {
    Scenario::for_queues(&[&[0, 1], &[0], &[1]])
}

#[test]
fn properties_hold_for_several_queues_without_faults() {
    assert_properties([
        same(),
        crossed(),
        Scenario::for_queues(&[&[0, 1], &[1, 0], &[1]]),
        one_and_singles(),
    ]);
    assert_properties([[3, 0], [2, 1], [1, 1]].map(|others| crossed().behind_in(others)));
    for exist in [[false, false], [true, false]] {
        assert_properties(
            [crossed(), crossed().with(&[Fault::Directories])]
                .map(|scenario| scenario.in_directories(exist)),
        );
    }
}

#[test]
fn properties_hold_for_several_queues_with_one_fault() {
    for fault in KINDS {
        let scenarios = [
            crossed().behind_in([0, 1]),
            if fault == Fault::LostSession {
                crossed()
            } else {
                one_and_singles()
            },
            one().behind_in([1, 3]),
            one_and_single().in_directories([true, false]),
        ];
        assert_properties(scenarios.map(|scenario| scenario.with(&[fault])));
    }
}

#[test]
fn properties_hold_for_several_queues_with_two_faults() {
    for faults in pairs_of_kinds() {
        // A lost session stays alive on the server for a while; `deep.rs` searches these with more
        // contenders.
        let is_large = faults.contains(&Fault::LostSession);
        let most = if is_large {
            one().behind_in([0, 1])
        } else {
            one_and_single()
        };
        assert_properties(
            [one().behind_in([1, 0]), one().behind_in([1, 1]), most]
                .map(|scenario| scenario.with(&faults)),
        );
    }
}

/// A recovery finds only one of the two nodes. If the contest entered the other queue alone, the
/// contenders could wait for each other.
#[test]
fn properties_hold_for_several_queues_with_an_unknown_create_and_a_deleted_node() {
    assert_properties(
        [Fault::Disconnect, Fault::TimeOut]
            .map(|unknown| crossed().with(&[unknown, Fault::Delete])),
    );
}

#[test]
fn every_run_over_several_queues_ends() {
    for fault in KINDS {
        assert_runs_end(
            [one().behind_in([1, 2]), one_and_single()].map(|scenario| scenario.with(&[fault])),
        );
    }
}

#[test]
fn deliberate_defects_over_several_queues_are_found() {
    use Fault::{Cancel, Delete};
    let cases = [
        (STUCK_WAITER, crossed().with_defect(Defect::EntersOneByOne)),
        (
            STUCK_WAITER,
            same()
                .behind_in([0, 1])
                .with(&[Delete])
                .with_defect(Defect::ReentersOneQueue),
        ),
        (
            WRONG_OWNER,
            one()
                .behind_in([0, 1])
                .with(&[Delete])
                .with_defect(Defect::IgnoresOwnWatchInOwnedQueues),
        ),
        (
            UNUSED_DIRECTORY,
            one()
                .in_directories([true, false])
                .with_defect(Defect::CreatesDirectoriesAlone),
        ),
        (
            LEFTOVER,
            one()
                .behind_in([0, 1])
                .with(&[Delete])
                .with_defect(Defect::LeavesNodesOnRestart),
        ),
        (
            STUCK_WAITER,
            one_and_single()
                .with(&[Delete, Cancel])
                .with_defect(Defect::LeavesNodesOnRestart),
        ),
    ];
    assert_violations(cases);
}
