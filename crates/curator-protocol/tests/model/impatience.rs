//! Contenders that may not wait: they own or are refused at once, leave nothing behind, and nobody sleeps because of them.

use super::defect::Defect;
use super::drivers::rows_of_readers_and_writers;
use super::scenario::{Faults, KINDS, Scenario};
use super::search::{Tally, breaks, ends, holds};
use super::world::{LEFTOVER, SLEEPER};

/// One that may not wait beside one that may, and only such.
fn scenarios() -> impl Iterator<Item = Scenario> {
    let crossed = || Scenario::of_queues(&[&[0, 1], &[1, 0]]);
    let scenarios = [
        Scenario::of(3).with_impatient(1),
        Scenario::of(3).with_impatient(3),
        Scenario::of(2).behind(1).with_impatient(1),
        crossed().with_impatient(2),
        crossed().behind_in([0, 1]).with_impatient(1),
        Scenario::of_leases(&[1, 1], 1).with_impatient(1),
        Scenario::of_leases(&[1, 1], 1).with_impatient(2),
        Scenario::of_leases(&[1, 2], 2).changed_to(1).with_impatient(1),
    ];
    scenarios.into_iter()
}

#[test]
fn whoever_may_not_wait_owns_or_is_refused() {
    let _tally = Tally::of("whoever may not wait owns or is refused");
    for scenario in scenarios() {
        holds(&scenario.to_string(), scenario);
    }
    for (row, drivers) in rows_of_readers_and_writers(3).skip(1) {
        holds(
            &format!("{row}, the last without waiting"),
            Scenario::of_readers_and_writers(&drivers).with_impatient(1),
        );
    }
}

#[test]
fn whoever_may_not_wait_owns_or_is_refused_with_one_fault() {
    let _tally = Tally::of("whoever may not wait owns or is refused with one fault");
    for (kind, faults) in KINDS {
        for scenario in scenarios() {
            // A lost session lives on at the server for a while, which multiplies the states.
            if faults.lost_sessions == 0 || scenario.clients.len() < 3 {
                holds(&format!("{scenario}, {kind}"), scenario.with(faults));
            }
        }
    }
}

#[test]
fn no_run_of_those_that_may_not_wait_goes_round_in_circles() {
    let _tally = Tally::of("no run of those that may not wait goes round in circles");
    for (kind, faults) in KINDS {
        for scenario in [Scenario::of(2).with_impatient(1), Scenario::of_leases(&[1, 1], 1).with_impatient(1)] {
            ends(&format!("{scenario}, {kind}"), &scenario.with(faults));
        }
    }
}

#[test]
fn defects_of_those_that_may_not_wait_are_found() {
    let _tally = Tally::of("defects of those that may not wait are found");
    let cases = [
        (LEFTOVER, Scenario::of(1).behind(1).with_impatient(1)),
        (SLEEPER, Scenario::of(2).behind(1).with_impatient(1)),
        (LEFTOVER, Scenario::of_queues(&[&[0, 1]]).behind_in([0, 1]).with_impatient(1)),
        (SLEEPER, Scenario::of_leases(&[1, 1, 1], 1).with(Faults::NONE).with_impatient(1)),
    ];
    for (property, scenario) in cases {
        breaks(property, &scenario.to_string(), scenario.clone().spoilt_by(Defect::LeavesTheRefused));
    }
}
