//! What is searched with the semaphore, and what has to be found.

use super::scenario::{Faults, KINDS};
use super::search::{Tally, breaks, ends, holds};
use super::semaphore::world::{EXACT, READ, TOO_MANY, UNREST};
use super::semaphore::{Defect, Scenario};
use super::world::LEFTOVER;

/// Those that can happen to a semaphore. Its claims never let go of a watch.
fn kinds() -> impl Iterator<Item = (&'static str, Faults)> + Clone {
    KINDS.into_iter().filter(|(_, faults)| faults.lost_watches == 0)
}

#[test]
fn a_semaphore_without_faults() {
    let _tally = Tally::of("a semaphore without faults");
    let scenarios = [
        Scenario::of(&[1, 1], 1),
        Scenario::of(&[1, 1, 1], 1),
        Scenario::of(&[1, 1, 2], 2),
        Scenario::of(&[1, 1, 1], 2),
        Scenario::of(&[1, 1, 1], 1).changed_to(2),
        Scenario::of(&[1, 1, 2], 2).changed_to(1),
        Scenario::of(&[1, 2], 1).changed_to(2),
    ];
    for scenario in scenarios {
        holds(&scenario.to_string(), scenario);
    }
}

#[test]
fn a_semaphore_with_one_fault() {
    let _tally = Tally::of("a semaphore with one fault");
    for (kind, faults) in kinds() {
        let scenarios = [
            Scenario::of(&[1, 1, 1], 1),
            Scenario::of(&[1, 2], 2),
            Scenario::of(&[1, 1], 1).changed_to(2),
            Scenario::of(&[1, 2], 2).changed_to(1),
        ];
        for scenario in scenarios {
            // A lost session lives on at the server for a while, which multiplies the states.
            let is_large = faults.lost_sessions > 0 && scenario.to_string().starts_with("[1, 1, 1]");
            let scenario = if is_large { Scenario::of(&[1, 1], 1) } else { scenario };
            holds(&format!("{scenario}, {kind}"), scenario.with(faults));
        }
    }
}

#[test]
fn a_semaphore_with_two_faults() {
    let _tally = Tally::of("a semaphore with two faults");
    for (i, (kind, faults)) in kinds().enumerate() {
        for (other_kind, other) in kinds().skip(i) {
            for scenario in [Scenario::of(&[1, 1], 1), Scenario::of(&[2], 2).changed_to(1)] {
                holds(&format!("{scenario}, {kind}, {other_kind}"), scenario.with(faults.and(other)));
            }
        }
    }
}

#[test]
fn no_run_of_a_semaphore_goes_round_in_circles() {
    let _tally = Tally::of("no run of a semaphore goes round in circles");
    for (kind, faults) in kinds() {
        for scenario in [Scenario::of(&[1, 1], 1), Scenario::of(&[1, 2], 2).changed_to(1)] {
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
        (TOO_MANY, Scenario::of(&[1, 1], 1).with(delete).spoilt_by(Defect::GivesThePlaceUpLater)),
        (TOO_MANY, Scenario::of(&[2], 2).changed_to(1).spoilt_by(Defect::TrustsTheLimit)),
        (READ, Scenario::of(&[1], 1).with(write).spoilt_by(Defect::TakesUnread)),
        (UNREST, Scenario::of(&[1, 1], 1).spoilt_by(Defect::LosesLeaseEvents)),
        (EXACT, Scenario::of(&[1], 2).with(disconnect).spoilt_by(Defect::TakesAgainBlindly)),
        (LEFTOVER, Scenario::of(&[1], 1).with(Faults { cancels: 1, ..Faults::NONE }).spoilt_by(Defect::LeavesLeases)),
    ];
    for (property, scenario) in cases {
        breaks(property, &format!("{:?}", scenario.defect), scenario);
    }
}
