//! What is searched with the semaphore, and what has to be found.

use super::defect::Defect;
use super::scenario::{Faults, KINDS, Scenario, pairs_of_kinds};
use super::search::{Tally, breaks, ends, holds};
use super::world::{EXACT, LEFTOVER, READ, SLEEPER, TOO_MANY};

#[test]
fn a_semaphore_without_faults() {
    let _tally = Tally::of("a semaphore without faults");
    let scenarios = [
        Scenario::of_leases(&[1, 1], 1),
        Scenario::of_leases(&[1, 1, 1], 1),
        Scenario::of_leases(&[1, 1, 2], 2),
        Scenario::of_leases(&[1, 1, 1], 2),
        Scenario::of_leases(&[1, 1, 1], 1).changed_to(2),
        Scenario::of_leases(&[1, 1, 2], 2).changed_to(1),
        Scenario::of_leases(&[1, 2], 1).changed_to(2),
    ];
    for scenario in scenarios {
        holds(&scenario.to_string(), scenario);
    }
}

#[test]
fn a_semaphore_with_one_fault() {
    let _tally = Tally::of("a semaphore with one fault");
    for (kind, faults) in KINDS {
        let scenarios = [
            Scenario::of_leases(&[1, 1, 1], 1),
            Scenario::of_leases(&[1, 2], 2),
            Scenario::of_leases(&[1, 1], 1).changed_to(2),
            Scenario::of_leases(&[1, 2], 2).changed_to(1),
        ];
        for scenario in scenarios {
            // A lost session lives on at the server for a while, which multiplies the states.
            let is_large = faults.lost_sessions > 0 && scenario.clients.len() > 2;
            let scenario = if is_large { Scenario::of_leases(&[1, 1], 1) } else { scenario };
            holds(&format!("{scenario}, {kind}"), scenario.with(faults));
        }
    }
}

#[test]
fn a_semaphore_with_two_faults() {
    let _tally = Tally::of("a semaphore with two faults");
    for (kinds, faults) in pairs_of_kinds() {
        let two = Scenario::of_leases(&[1, 1], 1).with_limit_node();
        for scenario in [two, Scenario::of_leases(&[2], 2).changed_to(1)] {
            holds(&format!("{scenario}, {kinds}"), scenario.with(faults));
        }
    }
}

/// The directory of the leases, and the node that says how many there may be.
#[test]
fn a_semaphore_whose_nodes_are_missing() {
    let _tally = Tally::of("a semaphore whose nodes are missing");
    for (kind, faults) in KINDS {
        for directories in [[true, true], [true, false], [false, false]] {
            let scenario = Scenario::of_leases(&[1, 1], 1).without_limit_node().in_directories(directories);
            holds(&format!("{scenario}, {kind}"), scenario.with(faults));
        }
        let reaped = Faults { reaps: 1, ..faults };
        let scenario = Scenario::of_leases(&[1, 1], 1);
        holds(&format!("{scenario}, removed again, {kind}"), scenario.with(reaped));
    }
}

#[test]
fn no_run_of_a_semaphore_goes_round_in_circles() {
    let _tally = Tally::of("no run of a semaphore goes round in circles");
    for (kind, faults) in KINDS {
        for scenario in [Scenario::of_leases(&[1, 1], 1), Scenario::of_leases(&[1, 2], 2).changed_to(1)] {
            ends(&format!("{scenario}, {kind}"), &scenario.with(faults));
        }
    }
}

#[test]
fn defects_of_a_semaphore_are_found() {
    let _tally = Tally::of("defects of a semaphore are found");
    let disconnect = Faults { disconnects: 1, ..Faults::NONE };
    let delete = Faults { deletes: 1, ..Faults::NONE };
    let write = Faults { writes: 1, ..Faults::NONE };
    let cases = [
        (TOO_MANY, Scenario::of_leases(&[1, 1], 1).with(delete).spoilt_by(Defect::GivesThePlaceUpLater)),
        (TOO_MANY, Scenario::of_leases(&[2], 2).changed_to(1).spoilt_by(Defect::TrustsTheLimit)),
        (READ, Scenario::of_leases(&[1], 1).with(write).spoilt_by(Defect::TakesUnread)),
        (SLEEPER, Scenario::of_leases(&[1, 1], 1).spoilt_by(Defect::LosesLeaseEvents)),
        (SLEEPER, Scenario::of_leases(&[1, 1], 1).with(disconnect).spoilt_by(Defect::HidesInterruptions)),
        (EXACT, Scenario::of_leases(&[1], 2).with(disconnect).spoilt_by(Defect::TakesAgainBlindly)),
        (
            LEFTOVER,
            Scenario::of_leases(&[1], 1).with(Faults { cancels: 1, ..Faults::NONE }).spoilt_by(Defect::LeavesLeases),
        ),
    ];
    for (property, scenario) in cases {
        breaks(property, &format!("{:?}", scenario.defect), scenario);
    }
}
