//! The same search as `main.rs`, with more faults at once, and longer rows of readers and writers: many millions of states.
//!
//! Takes minutes, so a plain `cargo test` leaves it out. Run it when the protocol changes:
//!
//! ```console
//! cargo test --release -p curator-recipes --test model-deep -- --nocapture
//! ```

#![allow(dead_code, reason = "the defects and the search for circles are for `main.rs`")]

mod contender;
mod drivers;
mod faults;
mod joint;
mod scenario;
mod search;
mod semaphore;
mod server;
mod steps;
mod world;
mod writer;

use drivers::rows_of_readers_and_writers;
use scenario::{Faults, KINDS, Scenario};
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
    for (i, (kind, faults)) in KINDS.into_iter().enumerate() {
        for (other_kind, other) in KINDS.into_iter().skip(i) {
            let faults = faults.and(other);
            // The largest by far; `main.rs` has them with two contenders.
            if faults.lost_sessions > 1 || (faults.lost_sessions == 1 && faults.disconnects == 1) {
                continue;
            }
            for (row, drivers) in rows_of_readers_and_writers(3) {
                let scenario = Scenario::of_readers_and_writers(&drivers).with(faults);
                holds(&format!("{row}, {kind}, {other_kind}"), scenario);
            }
        }
    }
}

#[test]
fn all_faults() {
    let _tally = Tally::of("all faults");
    let all = KINDS.into_iter().fold(Faults::NONE, |all, (_, faults)| all.and(faults));
    holds("1 behind 3 others, all faults", Scenario::of(1).behind(3).with(all));
}

/// Which queues each contender wants.
type Wants = &'static [&'static [usize]];
const TWO: [Wants; 2] = [&[&[0, 1], &[1, 0]], &[&[0, 1], &[1]]];
const THREE: [Wants; 2] = [&[&[0, 1], &[1, 0], &[1]], &[&[0, 1], &[0], &[1]]];

#[test]
fn several_queues_with_more_contenders_and_two_faults() {
    let _tally = Tally::of("several queues with more contenders and two faults");
    for (i, (kind, faults)) in KINDS.into_iter().enumerate() {
        for (other_kind, other) in KINDS.into_iter().skip(i) {
            for wants in TWO {
                let scenario = joint::Scenario::of(wants);
                holds(&format!("{scenario}, {kind}, {other_kind}"), scenario.with(faults.and(other)));
            }
        }
        for wants in THREE {
            let scenario = joint::Scenario::of(wants);
            holds(&format!("{scenario}, {kind}"), scenario.with(faults));
        }
    }
}

#[test]
fn a_semaphore_with_more_contenders_and_two_faults() {
    let _tally = Tally::of("a semaphore with more contenders and two faults");
    for (i, (kind, faults)) in KINDS.into_iter().enumerate() {
        for (other_kind, other) in KINDS.into_iter().skip(i) {
            let scenario = semaphore::Scenario::of(&[1, 2], 2).changed_to(1);
            holds(&format!("{scenario}, {kind}, {other_kind}"), scenario.with(faults.and(other)));
        }
        for scenario in [semaphore::Scenario::of(&[1, 1, 2], 2), semaphore::Scenario::of(&[1, 1, 1], 1).changed_to(2)] {
            holds(&format!("{scenario}, {kind}"), scenario.with(faults));
        }
    }
}
