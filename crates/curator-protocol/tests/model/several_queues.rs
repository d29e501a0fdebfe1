//! What is searched with several queues at once, and what has to be found.
//!
//! Two queues, since any circle of waiters has two neighbours in it. Two contenders for both and one more, or nodes of
//! others, suffice to have each of them first in one queue and not in the other.

use super::defect::Defect;
use super::scenario::{Faults, KINDS, Scenario, pairs_of_kinds};
use super::search::{Tally, breaks, ends, holds};
use super::world::{LEFTOVER, RIGHTFUL, SLEEPER, UNUSED};

/// Two for both queues, which they name in opposite orders.
const CROSSED: &[&[usize]] = &[&[0, 1], &[1, 0]];
const SAME: &[&[usize]] = &[&[0, 1], &[0, 1]];
const ONE: &[&[usize]] = &[&[0, 1]];
const TWO_AND_SINGLE: &[&[usize]] = &[&[0, 1], &[1, 0], &[1]];
const ONE_AND_SINGLES: &[&[usize]] = &[&[0, 1], &[0], &[1]];
const ONE_AND_SINGLE: &[&[usize]] = &[&[0, 1], &[1]];
const DELETED: Faults = Faults { deletes: 1, ..Faults::NONE };

#[test]
fn several_queues_without_faults() {
    let _tally = Tally::of("several queues without faults");
    for wants in [SAME, CROSSED, TWO_AND_SINGLE, ONE_AND_SINGLES] {
        holds(&Scenario::of_queues(wants).to_string(), Scenario::of_queues(wants));
    }
    for others in [[3, 0], [2, 1], [1, 1]] {
        let scenario = Scenario::of_queues(CROSSED).behind_in(others);
        holds(&scenario.to_string(), scenario);
    }
    for directories in [[false, false], [true, false]] {
        let scenario = Scenario::of_queues(CROSSED).in_directories(directories);
        holds(&scenario.to_string(), scenario);
    }
}

#[test]
fn several_queues_with_one_fault() {
    let _tally = Tally::of("several queues with one fault");
    for (kind, faults) in KINDS {
        let most =
            if faults.lost_sessions > 0 { Scenario::of_queues(CROSSED) } else { Scenario::of_queues(ONE_AND_SINGLES) };
        for scenario in [
            Scenario::of_queues(CROSSED).behind_in([0, 1]),
            most,
            Scenario::of_queues(ONE).behind_in([1, 3]),
            Scenario::of_queues(ONE_AND_SINGLE).in_directories([true, false]),
        ] {
            holds(&format!("{scenario}, {kind}"), scenario.with(faults));
        }
    }
}

#[test]
fn several_queues_with_two_faults() {
    let _tally = Tally::of("several queues with two faults");
    for (kinds, faults) in pairs_of_kinds() {
        // A lost session lives on at the server for a while; `deep.rs` has these with more contenders.
        let most = if faults.lost_sessions > 0 {
            Scenario::of_queues(ONE).behind_in([0, 1])
        } else {
            Scenario::of_queues(ONE_AND_SINGLE)
        };
        for scenario in [Scenario::of_queues(ONE).behind_in([1, 0]), Scenario::of_queues(ONE).behind_in([1, 1]), most] {
            holds(&format!("{scenario}, {kinds}"), scenario.with(faults));
        }
    }
}

/// A recovery that finds one of the nodes. To enter the other queue alone would make a circle.
#[test]
fn several_queues_with_an_unknown_create_and_a_deleted_node() {
    let _tally = Tally::of("several queues with an unknown create and a deleted node");
    let unknown = [Faults { disconnects: 1, ..Faults::NONE }, Faults { timeouts: 1, ..Faults::NONE }];
    for faults in unknown {
        let scenario = Scenario::of_queues(CROSSED).with(faults.and(DELETED));
        holds(&format!("{scenario}, {faults:?}"), scenario);
    }
}

#[test]
fn no_run_over_several_queues_goes_round_in_circles() {
    let _tally = Tally::of("no run over several queues goes round in circles");
    for (kind, faults) in KINDS {
        for scenario in [Scenario::of_queues(ONE).behind_in([1, 2]), Scenario::of_queues(ONE_AND_SINGLE)] {
            ends(&format!("{scenario}, {kind}"), &scenario.with(faults));
        }
    }
}

#[test]
fn defects_over_several_queues_are_found() {
    let _tally = Tally::of("defects over several queues are found");
    let cancel = Faults { cancels: 1, ..Faults::NONE };
    let cases = [
        (SLEEPER, Scenario::of_queues(CROSSED).spoilt_by(Defect::EntersOneByOne)),
        (SLEEPER, Scenario::of_queues(SAME).behind_in([0, 1]).with(DELETED).spoilt_by(Defect::ReentersAlone)),
        (RIGHTFUL, Scenario::of_queues(ONE).behind_in([0, 1]).with(DELETED).spoilt_by(Defect::GuardsNothing)),
        (UNUSED, Scenario::of_queues(ONE).in_directories([true, false]).spoilt_by(Defect::CreatesDirectoriesAlone)),
        (LEFTOVER, Scenario::of_queues(ONE).behind_in([0, 1]).with(DELETED).spoilt_by(Defect::LeavesTheOthers)),
        (SLEEPER, Scenario::of_queues(ONE_AND_SINGLE).with(DELETED.and(cancel)).spoilt_by(Defect::LeavesTheOthers)),
    ];
    for (property, scenario) in cases {
        breaks(property, &format!("{:?}", scenario.defect), scenario);
    }
}
