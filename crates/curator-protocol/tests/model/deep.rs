//! The same search as in `main.rs`, with more faults per run, and longer rows of readers and
//! writers: millions of states.
//!
//! The search takes minutes, so a plain `cargo test` leaves it out. Run it when the protocol
//! changes:
//!
//! ```console
//! cargo test --release -p curator-protocol --test model-deep -- --nocapture
//! ```

#![allow(
    dead_code,
    reason = "only `main.rs` uses the defects and the check that every run ends"
)]

mod answers;
mod client;
mod defect;
mod faults;
mod part;
mod runner;
mod scenario;
mod search;
mod server;
mod world;
mod writer;

use scenario::{Fault, KINDS, Scenario, pairs_of_kinds};
use search::assert_properties;

#[test]
fn properties_hold_with_three_faults() {
    for (i, first) in KINDS.into_iter().enumerate() {
        for (j, second) in KINDS.into_iter().enumerate().skip(i) {
            for third in KINDS.into_iter().skip(j) {
                assert_properties(
                    [Scenario::contenders(2), Scenario::contenders(1).behind(3)]
                        .map(|scenario| scenario.with(&[first, second, third])),
                );
            }
        }
    }
}

#[test]
fn properties_hold_for_three_contenders_with_a_lost_session_and_another_fault() {
    assert_properties(
        KINDS.map(|fault| Scenario::contenders(3).with(&[fault, Fault::LostSession])),
    );
}

#[test]
fn properties_hold_for_more_readers_and_writers_with_one_fault() {
    // With a lost session, only rows of three can be searched in minutes: `main.rs` searches these.
    for fault in KINDS
        .into_iter()
        .filter(|fault| *fault != Fault::LostSession)
    {
        assert_properties(Scenario::rows_of_readers_and_writers(4).map(|row| row.with(&[fault])));
    }
}

#[test]
fn properties_hold_for_more_readers_and_writers_with_two_faults() {
    // These two pairs have by far the most states; `main.rs` searches them with two contenders.
    let is_large = |faults: &[Fault; 2]| {
        matches!(
            faults,
            [Fault::LostSession | Fault::Disconnect, Fault::LostSession]
        )
    };
    for faults in pairs_of_kinds().filter(|faults| !is_large(faults)) {
        assert_properties(Scenario::rows_of_readers_and_writers(3).map(|row| row.with(&faults)));
    }
}

#[test]
fn properties_hold_with_one_fault_of_each_kind_together() {
    assert_properties([Scenario::contenders(1).behind(3).with(&KINDS)]);
}

#[test]
fn properties_hold_for_several_queues_with_more_contenders_or_two_faults() {
    for faults in pairs_of_kinds() {
        let scenarios = [
            Scenario::for_queues(&[&[0, 1], &[1, 0]]),
            Scenario::for_queues(&[&[0, 1], &[1]]),
        ];
        assert_properties(scenarios.map(|scenario| scenario.with(&faults)));
    }
    for fault in KINDS {
        let scenarios = [
            Scenario::for_queues(&[&[0, 1], &[1, 0], &[1]]),
            Scenario::for_queues(&[&[0, 1], &[0], &[1]]),
        ];
        assert_properties(scenarios.map(|scenario| scenario.with(&[fault])));
    }
}

#[test]
fn properties_hold_for_a_semaphore_with_more_contenders_or_two_faults() {
    assert_properties(
        pairs_of_kinds().map(|faults| Scenario::for_leases(&[1, 2], 2).changed_to(1).with(&faults)),
    );
    for fault in KINDS {
        let scenarios = [
            Scenario::for_leases(&[1, 1, 2], 2),
            Scenario::for_leases(&[1, 1, 1], 1).changed_to(2),
        ];
        assert_properties(scenarios.map(|scenario| scenario.with(&[fault])));
    }
}

#[test]
fn properties_hold_for_contests_without_waiting_with_two_faults() {
    for faults in pairs_of_kinds() {
        let scenarios = [
            Scenario::contenders(2),
            Scenario::for_queues(&[&[0, 1], &[1]]),
        ];
        assert_properties(scenarios.map(|scenario| scenario.with_impatient(1).with(&faults)));
    }
}
