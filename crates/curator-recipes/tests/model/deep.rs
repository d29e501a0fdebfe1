//! The same search as `main.rs`, with more faults at once: some nine million states.
//!
//! Takes minutes, so a plain `cargo test` leaves it out. Run it when the protocol changes:
//!
//! ```console
//! cargo test --release -p curator-recipes --test model-deep -- --nocapture
//! ```

#![allow(dead_code, reason = "the defects and the search for circles are for `main.rs`")]

mod contender;
mod faults;
mod scenario;
mod search;
mod server;
mod steps;
mod world;

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
fn all_faults() {
    let _tally = Tally::of("all faults");
    let all = KINDS.into_iter().fold(Faults::NONE, |all, (_, faults)| all.and(faults));
    holds("1 behind 3 others, all faults", Scenario::of(1).behind(3).with(all));
}
