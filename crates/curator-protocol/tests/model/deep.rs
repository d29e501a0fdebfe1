//! The same search as `main.rs`, with more faults at once, and longer rows of readers and writers: many millions of states.
//!
//! Takes minutes, so a plain `cargo test` leaves it out. Run it when the protocol changes:
//!
//! ```console
//! cargo test --release -p curator-protocol --test model-deep -- --nocapture
//! ```

#![allow(dead_code, reason = "the defects and the search for circles are for `main.rs`")]

mod answers;
mod client;
mod defect;
mod drivers;
mod faults;
mod machine;
mod runner;
mod scenario;
mod search;
mod server;
mod world;
mod writer;

use drivers::rows_of_readers_and_writers;
use scenario::{Faults, KINDS, Scenario, pairs_of_kinds};
use search::{Tally, holds};

#[test]
fn three_faults() {
    let _tally = Tally::of("three faults");
    for (i, (first, faults)) in KINDS.into_iter().enumerate() {
        for (j, (second, more)) in KINDS.into_iter().enumerate().skip(i) {
            for (third, most) in KINDS.into_iter().skip(j) {
                let faults = faults.and(more).and(most);
                for scenario in [Scenario::of(2), Scenario::of(1).behind(3)] {
                    holds(&format!("{scenario}, {first}, {second}, {third}"), scenario.with(faults));
                }
            }
        }
    }
}

#[test]
fn three_contenders_with_a_lost_session_and_another_fault() {
    let _tally = Tally::of("three contenders with a lost session and another fault");
    for (kind, other) in KINDS {
        let faults = other.and(Faults { lost_sessions: 1, ..Faults::NONE });
        holds(&format!("3 contenders, a lost session, {kind}"), Scenario::of(3).with(faults));
    }
}

#[test]
fn more_readers_and_writers_with_one_fault() {
    let _tally = Tally::of("more readers and writers with one fault");
    // With a lost session, three are as many as can be searched in minutes: `main.rs` has them.
    for (kind, faults) in KINDS.into_iter().filter(|(_, faults)| faults.lost_sessions == 0) {
        for (row, drivers) in rows_of_readers_and_writers(4) {
            holds(&format!("{row}, {kind}"), Scenario::of_readers_and_writers(&drivers).with(faults));
        }
    }
}

#[test]
fn more_readers_and_writers_with_two_faults() {
    let _tally = Tally::of("more readers and writers with two faults");
    // The largest by far; `main.rs` has them with two contenders.
    let is_large = |faults: &Faults| faults.lost_sessions > 1 || (faults.lost_sessions == 1 && faults.disconnects == 1);
    for (kinds, faults) in pairs_of_kinds().filter(|(_, faults)| !is_large(faults)) {
        for (row, drivers) in rows_of_readers_and_writers(3) {
            holds(&format!("{row}, {kinds}"), Scenario::of_readers_and_writers(&drivers).with(faults));
        }
    }
}

#[test]
fn all_faults() {
    let _tally = Tally::of("all faults");
    let all = KINDS.into_iter().fold(Faults::NONE, |all, (_, faults)| all.and(faults));
    holds("1 behind 3 others, all faults", Scenario::of(1).behind(3).with(all));
}

#[test]
fn several_queues_with_more_contenders_and_two_faults() {
    let _tally = Tally::of("several queues with more contenders and two faults");
    for (kinds, faults) in pairs_of_kinds() {
        for scenario in [Scenario::of_queues(&[&[0, 1], &[1, 0]]), Scenario::of_queues(&[&[0, 1], &[1]])] {
            holds(&format!("{scenario}, {kinds}"), scenario.with(faults));
        }
    }
    for (kind, faults) in KINDS {
        for scenario in [Scenario::of_queues(&[&[0, 1], &[1, 0], &[1]]), Scenario::of_queues(&[&[0, 1], &[0], &[1]])] {
            holds(&format!("{scenario}, {kind}"), scenario.with(faults));
        }
    }
}

#[test]
fn a_semaphore_with_more_contenders_and_two_faults() {
    let _tally = Tally::of("a semaphore with more contenders and two faults");
    for (kinds, faults) in pairs_of_kinds() {
        let scenario = Scenario::of_leases(&[1, 2], 2).changed_to(1);
        holds(&format!("{scenario}, {kinds}"), scenario.with(faults));
    }
    for (kind, faults) in KINDS {
        for scenario in [Scenario::of_leases(&[1, 1, 2], 2), Scenario::of_leases(&[1, 1, 1], 1).changed_to(2)] {
            holds(&format!("{scenario}, {kind}"), scenario.with(faults));
        }
    }
}

#[test]
fn contenders_that_may_not_wait_with_two_faults() {
    let _tally = Tally::of("contenders that may not wait with two faults");
    for (kinds, faults) in pairs_of_kinds() {
        let several = Scenario::of_queues(&[&[0, 1], &[1]]).with_impatient(1);
        for scenario in [Scenario::of(2).with_impatient(1), several] {
            holds(&format!("{scenario}, {kinds}"), scenario.with(faults));
        }
    }
}
