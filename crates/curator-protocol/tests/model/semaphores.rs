//! The search with the semaphore, and the defects that it has to find.

use super::defect::Defect;
use super::scenario::{Fault, KINDS, Scenario, pairs_of_kinds};
use super::search::{breaks, end, hold};
use super::world::{EXACT, LEFTOVER, READ, SLEEPER, TOO_MANY};

#[test]
fn a_semaphore_without_faults() {
    hold([
        Scenario::of_leases(&[1, 1], 1),
        Scenario::of_leases(&[1, 1, 1], 1),
        Scenario::of_leases(&[1, 1, 2], 2),
        Scenario::of_leases(&[1, 1, 1], 2),
        Scenario::of_leases(&[1, 1, 1], 1).changed_to(2),
        Scenario::of_leases(&[1, 1, 2], 2).changed_to(1),
        Scenario::of_leases(&[1, 2], 1).changed_to(2),
    ]);
}

#[test]
fn a_semaphore_with_one_fault() {
    for fault in KINDS {
        // A lost session stays alive on the server for a while, which multiplies the states.
        let most: &[_] = if fault == Fault::LostSession { &[1, 1] } else { &[1, 1, 1] };
        let scenarios = [
            Scenario::of_leases(most, 1),
            Scenario::of_leases(&[1, 2], 2),
            Scenario::of_leases(&[1, 1], 1).changed_to(2),
            Scenario::of_leases(&[1, 2], 2).changed_to(1),
        ];
        hold(scenarios.map(|scenario| scenario.with(&[fault])));
    }
}

#[test]
fn a_semaphore_with_two_faults() {
    for faults in pairs_of_kinds() {
        let two = Scenario::of_leases(&[1, 1], 1).with_limit_node(true);
        hold([two, Scenario::of_leases(&[2], 2).changed_to(1)].map(|scenario| scenario.with(&faults)));
    }
}

/// The directory of the leases, and the node that contains their limit.
#[test]
fn a_semaphore_whose_nodes_are_missing() {
    let two = || Scenario::of_leases(&[1, 1], 1);
    for fault in KINDS {
        let directories = [[true, true], [true, false], [false, false]];
        hold(directories.map(|exist| two().with_limit_node(false).in_directories(exist).with(&[fault])));
        hold([two().with(&[fault, Fault::Reap])]);
    }
}

#[test]
fn every_run_of_a_semaphore_ends() {
    for fault in KINDS {
        let scenarios = [Scenario::of_leases(&[1, 1], 1), Scenario::of_leases(&[1, 2], 2).changed_to(1)];
        end(scenarios.map(|scenario| scenario.with(&[fault])));
    }
}

#[test]
fn deliberate_defects_of_a_semaphore_are_found() {
    use Fault::{Cancel, Delete, Disconnect, Write};
    let (one, two) = (|| Scenario::of_leases(&[1], 1), || Scenario::of_leases(&[1, 1], 1));
    let cases = [
        (TOO_MANY, two().with(&[Delete]).spoilt_by(Defect::GivesThePlaceUpLater)),
        (TOO_MANY, Scenario::of_leases(&[2], 2).changed_to(1).spoilt_by(Defect::TrustsTheLimit)),
        (READ, one().with(&[Write]).spoilt_by(Defect::TakesUnread)),
        (SLEEPER, two().spoilt_by(Defect::LosesLeaseEvents)),
        (SLEEPER, two().with(&[Disconnect]).spoilt_by(Defect::HidesInterruptions)),
        (EXACT, Scenario::of_leases(&[1], 2).with(&[Disconnect]).spoilt_by(Defect::TakesAgainBlindly)),
        (LEFTOVER, one().with(&[Cancel]).spoilt_by(Defect::LeavesLeases)),
    ];
    breaks(cases);
}
