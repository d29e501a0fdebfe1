//! Exhaustive search of the acquire protocol, within bounds: every order of events, and every fault
//! at every moment.
//!
//! Only this suite finds errors that need a particular order of events: two owners, a waiter that
//! misses its turn, a node left behind.
//!
//! The contest and the drivers are the published code. The model adds a server with two directories
//! (queues, or a queue and the leases of a semaphore) and, for each contender, a session: requests
//! that keep their order, one-shot watches on one connection whose events keep their order, and the
//! simplest runner of a contest. See `runner.rs`, `writer.rs` and `faults.rs` for the actions, and
//! `world.rs` for the properties.
//!
//! Bounds, and their reasons:
//!
//! - Four contenders, or a contender behind nodes of other clients, cover all plans of a waiter
//!   (none, one, two or more nodes before it) and one node more, so that the queue changes between
//!   two reads.
//! - Each fault alone with the most contenders, then each pair of faults with fewer contenders:
//!   protocols tend to break when a fault happens during the recovery from another.
//! - Readers and writers (a writer may also take the read lock, or downgrade to it): up to four
//!   contenders without faults, three with one fault, two with two faults.
//! - Three faults, and one fault of each kind together, take minutes: see `deep.rs`.
//!
//! The last test builds defects into the runner or the driver: a search that misses them proves
//! nothing.

mod answers;
mod client;
mod defect;
mod drivers;
mod faults;
mod impatience;
mod part;
mod returning;
mod runner;
mod scenario;
mod search;
mod semaphores;
mod server;
mod several_queues;
mod world;
mod writer;

use defect::Defect;
use drivers::{IGNORES_OVERFLOW, LISTS_AGAIN, OWNS_TOO_EARLY, TRUSTS_PREDECESSORS};
use scenario::{Fault, KINDS, READER, Scenario, WRITER, pairs_of_kinds};
use search::{assert_properties, assert_runs_end, assert_violations};
use world::{LEFTOVER, STUCK_WAITER, TWO_OWNERS, UNUSED_DIRECTORY, WRONG_OWNER};

#[test]
fn properties_hold_without_faults() {
    assert_properties(
        (1..=5)
            .map(Scenario::contenders)
            .chain([Scenario::contenders(2).behind(5)]),
    );
}

#[test]
fn properties_hold_with_one_fault() {
    for fault in KINDS {
        // A lost session stays alive on the server for a while, which multiplies the states.
        let most = if fault == Fault::LostSession { 3 } else { 4 };
        assert_properties(
            [
                Scenario::contenders(most),
                Scenario::contenders(2).behind(3),
            ]
            .map(|scenario| scenario.with(&[fault])),
        );
    }
}

#[test]
fn properties_hold_with_two_faults() {
    for faults in pairs_of_kinds() {
        // These two pairs have by far the most states; `deep.rs` searches them with three
        // contenders.
        let is_large = matches!(
            faults,
            [Fault::LostSession | Fault::Disconnect, Fault::LostSession]
        );
        let most = if is_large {
            Scenario::contenders(2).behind(1)
        } else {
            Scenario::contenders(3)
        };
        assert_properties(
            [most, Scenario::contenders(1).behind(3)].map(|scenario| scenario.with(&faults)),
        );
    }
}

#[test]
fn properties_hold_if_a_directory_is_missing_or_removed() {
    assert_properties([Scenario::contenders(3).in_directories([false, false])]);
    let missing = Scenario::contenders(2).in_directories([false, false]);
    for second in [Fault::Reap, Fault::Directories] {
        assert_properties(KINDS.map(|fault| missing.with(&[fault, second])));
    }
    assert_properties([missing.with(&[Fault::Directories, Fault::Directories, Fault::Reap])]);
}

/// The predecessors of a writer are not final: a write lock before it may become a read lock.
#[test]
fn properties_hold_with_a_driver_without_final_predecessors() {
    for fault in KINDS {
        let downgraded = Scenario::contenders(1)
            .behind(2)
            .with(&[fault, Fault::Downgrade]);
        assert_properties(
            [downgraded, Scenario::contenders(3).with(&[fault])]
                .map(|scenario| scenario.driven_by(LISTS_AGAIN)),
        );
    }
    // The mutex's driver declares predecessors final, which a downgrade contradicts.
    assert_violations([(
        WRONG_OWNER,
        Scenario::contenders(1).behind(1).with(&[Fault::Downgrade]),
    )]);
}

#[test]
fn properties_hold_for_readers_and_writers() {
    assert_properties((1..=4).flat_map(Scenario::rows_of_readers_and_writers));
}

#[test]
fn properties_hold_for_readers_and_writers_with_one_fault() {
    for fault in KINDS {
        assert_properties(Scenario::rows_of_readers_and_writers(3).map(|row| row.with(&[fault])));
    }
}

#[test]
fn properties_hold_for_readers_and_writers_with_two_faults() {
    for faults in pairs_of_kinds() {
        assert_properties(Scenario::rows_of_readers_and_writers(2).map(|row| row.with(&faults)));
    }
}

/// More nodes are before the contender than a few contenders could create, and they are deleted in
/// any order.
#[test]
fn properties_hold_for_readers_and_writers_behind_others() {
    for fault in KINDS {
        assert_properties(
            Scenario::rows_of_readers_and_writers(1)
                .map(|row| row.behind(3).with(&[fault, Fault::Downgrade])),
        );
    }
}

/// After the last number, the server assigns that number to every new node.
#[test]
fn sequence_numbers_that_run_out() {
    for fault in KINDS {
        for left in 1..=2 {
            assert_properties([Scenario::contenders(3)
                .with_numbers_left(left)
                .with(&[fault])]);
        }
        assert_properties(
            Scenario::rows_of_readers_and_writers(2)
                .map(|row| row.with_numbers_left(2).with(&[fault])),
        );
    }
    assert_violations([(
        TWO_OWNERS,
        Scenario::for_readers_and_writers(&[IGNORES_OVERFLOW, IGNORES_OVERFLOW])
            .with_numbers_left(0),
    )]);
}

/// Some properties are checked only in the final state of a run. A run where a contender repeats
/// a request for ever has no final state.
#[test]
fn every_run_ends() {
    for fault in KINDS {
        assert_runs_end(
            [Scenario::contenders(3), Scenario::contenders(2).behind(2)]
                .map(|scenario| scenario.with(&[fault])),
        );
    }
    assert_runs_end((2..=3).flat_map(Scenario::rows_of_readers_and_writers));
    let missing = Scenario::contenders(2).in_directories([false, false]);
    assert_runs_end([
        missing.with(&[Fault::Directories]),
        missing,
        Scenario::contenders(3).driven_by(LISTS_AGAIN),
    ]);
}

#[test]
fn deliberate_defects_are_found() {
    use Fault::{Cancel, Delete, Disconnect, LostSession, Write};
    let behind_one = |faults| Scenario::contenders(1).behind(1).with(faults);
    let cases = [
        (
            TWO_OWNERS,
            Scenario::contenders(2)
                .with(&[LostSession])
                .with_defect(Defect::AdoptsOverSessions),
        ),
        (
            WRONG_OWNER,
            behind_one(&[Delete]).with_defect(Defect::IgnoresOwnWatch),
        ),
        (
            STUCK_WAITER,
            Scenario::contenders(2).with_defect(Defect::LosesAheadEvents),
        ),
        (
            WRONG_OWNER,
            behind_one(&[Delete, Disconnect]).with_defect(Defect::KeepsWatchesOverConnections),
        ),
        (
            STUCK_WAITER,
            Scenario::contenders(2)
                .with(&[Disconnect])
                .with_defect(Defect::HidesInterruptions),
        ),
        (
            WRONG_OWNER,
            behind_one(&[Write, Disconnect, Delete]).with_defect(Defect::ReportsInterruptionsLate),
        ),
        (
            WRONG_OWNER,
            behind_one(&[Delete]).with_defect(Defect::ForgetsOrderOfEvents),
        ),
        (
            STUCK_WAITER,
            behind_one(&[Write]).with_defect(Defect::ForgetsOneOfTwoEvents),
        ),
        (
            STUCK_WAITER,
            Scenario::contenders(2)
                .with(&[Cancel])
                .with_defect(Defect::HasNoJanitor),
        ),
        (
            LEFTOVER,
            Scenario::contenders(1)
                .with(&[Cancel])
                .with_defect(Defect::HasNoJanitor),
        ),
        (
            UNUSED_DIRECTORY,
            Scenario::contenders(1)
                .in_directories([false, false])
                .with_defect(Defect::CreatesDirectoriesAlone),
        ),
        // Wrong drivers: another node may still be before the contender's own.
        (
            WRONG_OWNER,
            Scenario::contenders(1).behind(2).driven_by(OWNS_TOO_EARLY),
        ),
        (
            TWO_OWNERS,
            Scenario::contenders(3)
                .with(&[Cancel])
                .driven_by(OWNS_TOO_EARLY),
        ),
        (
            TWO_OWNERS,
            Scenario::for_readers_and_writers(&[WRITER, TRUSTS_PREDECESSORS]),
        ),
        (
            TWO_OWNERS,
            Scenario::for_readers_and_writers(&[WRITER, WRITER, READER])
                .with(&[Cancel])
                .with_defect(Defect::TakesAnyDeletionForOwnership),
        ),
    ];
    assert_violations(cases);
}
