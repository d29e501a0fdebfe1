//! The search with several queues at once, and the defects that it has to find.
//!
//! Two queues, since any circle of waiters contains two neighbours. Two contenders for both and a third, or nodes of
//! others, suffice for each of the two to be first in one queue and not in the other.

use super::defect::Defect;
use super::scenario::{Fault, KINDS, Scenario, pairs_of_kinds};
use super::search::{breaks, end, hold};
use super::world::{LEFTOVER, RIGHTFUL, SLEEPER, UNUSED};

/// Two contenders for both queues, named in opposite orders.
fn crossed() -> Scenario {
    Scenario::of_queues(&[&[0, 1], &[1, 0]])
}

fn same() -> Scenario {
    Scenario::of_queues(&[&[0, 1], &[0, 1]])
}

fn one() -> Scenario {
    Scenario::of_queues(&[&[0, 1]])
}

fn one_and_single() -> Scenario {
    Scenario::of_queues(&[&[0, 1], &[1]])
}

fn one_and_singles() -> Scenario {
    Scenario::of_queues(&[&[0, 1], &[0], &[1]])
}

#[test]
fn several_queues_without_faults() {
    hold([same(), crossed(), Scenario::of_queues(&[&[0, 1], &[1, 0], &[1]]), one_and_singles()]);
    hold([[3, 0], [2, 1], [1, 1]].map(|others| crossed().behind_in(others)));
    hold([[false, false], [true, false]].map(|exist| crossed().in_directories(exist)));
}

#[test]
fn several_queues_with_one_fault() {
    for fault in KINDS {
        let scenarios = [
            crossed().behind_in([0, 1]),
            if fault == Fault::LostSession { crossed() } else { one_and_singles() },
            one().behind_in([1, 3]),
            one_and_single().in_directories([true, false]),
        ];
        hold(scenarios.map(|scenario| scenario.with(&[fault])));
    }
}

#[test]
fn several_queues_with_two_faults() {
    for faults in pairs_of_kinds() {
        // A lost session stays alive on the server for a while; `deep.rs` searches these with more contenders.
        let is_large = faults.contains(&Fault::LostSession);
        let most = if is_large { one().behind_in([0, 1]) } else { one_and_single() };
        hold([one().behind_in([1, 0]), one().behind_in([1, 1]), most].map(|scenario| scenario.with(&faults)));
    }
}

/// A recovery that finds only one of the nodes. Entering the other queue alone would make a circle.
#[test]
fn several_queues_with_an_unknown_create_and_a_deleted_node() {
    hold([Fault::Disconnect, Fault::TimeOut].map(|unknown| crossed().with(&[unknown, Fault::Delete])));
}

#[test]
fn every_run_over_several_queues_ends() {
    for fault in KINDS {
        end([one().behind_in([1, 2]), one_and_single()].map(|scenario| scenario.with(&[fault])));
    }
}

#[test]
fn deliberate_defects_over_several_queues_are_found() {
    use Fault::{Cancel, Delete};
    let cases = [
        (SLEEPER, crossed().spoilt_by(Defect::EntersOneByOne)),
        (SLEEPER, same().behind_in([0, 1]).with(&[Delete]).spoilt_by(Defect::ReentersAlone)),
        (RIGHTFUL, one().behind_in([0, 1]).with(&[Delete]).spoilt_by(Defect::GuardsNothing)),
        (UNUSED, one().in_directories([true, false]).spoilt_by(Defect::CreatesDirectoriesAlone)),
        (LEFTOVER, one().behind_in([0, 1]).with(&[Delete]).spoilt_by(Defect::LeavesTheOthers)),
        (SLEEPER, one_and_single().with(&[Delete, Cancel]).spoilt_by(Defect::LeavesTheOthers)),
    ];
    breaks(cases);
}
