//! Exhaustive search of the acquire protocol, within bounds: every order of events, and every fault at every moment.
//!
//! Only this suite finds errors that take a particular order of events: two owners, a waiter that misses its turn, a
//! node left behind.
//!
//! The contest and the drivers are those that ship. The model adds a server with two directories (queues, or a queue
//! and the leases of a semaphore) and, for each contender, a session: requests that keep their order, one-shot watches
//! on one connection whose events keep their order, and the simplest runner of a contest. See `runner.rs`, `writer.rs`
//! and `faults.rs` for the actions, and `world.rs` for the properties.
//!
//! Bounds, and their reasons:
//!
//! - Four contenders, or others before one, cover all plans of a waiter (none, one, two or more nodes before it) and
//!   one node more, so that the queue changes between two reads.
//! - Each fault alone with the most contenders, then each pair of faults with fewer: protocols break at a fault during
//!   the recovery from another.
//! - Readers and writers, of which a writer may also take the read lock or downgrade to it: rows of up to four without
//!   faults, of three with one fault, of two with two.
//! - Three faults, and one of each kind together, take minutes: see `deep.rs`.
//!
//! The last part builds defects in on purpose: a search that misses them proves nothing.

mod answers;
mod client;
mod defect;
mod drivers;
mod faults;
mod impatience;
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
use drivers::{ENDLESS, IMPATIENT, LOOKS_AGAIN, OVERCONFIDENT};
use scenario::{Fault, KINDS, READER, Scenario, WRITER, pairs_of_kinds};
use search::{breaks, end, hold};
use world::{LEFTOVER, RIGHTFUL, SLEEPER, TWO_OWNERS, UNUSED};

#[test]
fn without_faults() {
    hold((1..=5).map(Scenario::of).chain([Scenario::of(2).behind(5)]));
}

#[test]
fn one_fault() {
    for fault in KINDS {
        // A lost session stays alive on the server for a while, which multiplies the states.
        let most = if fault == Fault::LostSession { 3 } else { 4 };
        hold([Scenario::of(most), Scenario::of(2).behind(3)].map(|scenario| scenario.with(&[fault])));
    }
}

#[test]
fn two_faults() {
    for faults in pairs_of_kinds() {
        // These two are the largest by far; `deep.rs` searches them with three contenders.
        let is_large = matches!(faults, [Fault::LostSession | Fault::Disconnect, Fault::LostSession]);
        let most = if is_large { Scenario::of(2).behind(1) } else { Scenario::of(3) };
        hold([most, Scenario::of(1).behind(3)].map(|scenario| scenario.with(&faults)));
    }
}

#[test]
fn a_directory_that_is_missing_or_removed() {
    hold([Scenario::of(3).in_directories([false, false])]);
    hold(KINDS.map(|fault| Scenario::of(2).in_directories([false, false]).with(&[fault, Fault::Reap])));
}

/// A write lock before a waiting writer may become a read lock.
#[test]
fn a_driver_without_final_predecessors() {
    for fault in KINDS {
        let downgraded = Scenario::of(1).behind(2).with(&[fault, Fault::Downgrade]);
        hold([downgraded, Scenario::of(3).with(&[fault])].map(|scenario| scenario.driven_by(LOOKS_AGAIN)));
    }
    // A downgrade, which this driver excludes.
    breaks([(RIGHTFUL, Scenario::of(1).behind(1).with(&[Fault::Downgrade]))]);
}

#[test]
fn readers_and_writers() {
    hold((1..=4).flat_map(Scenario::rows_of_readers_and_writers));
}

#[test]
fn readers_and_writers_with_one_fault() {
    for fault in KINDS {
        hold(Scenario::rows_of_readers_and_writers(3).map(|row| row.with(&[fault])));
    }
}

#[test]
fn readers_and_writers_with_two_faults() {
    for faults in pairs_of_kinds() {
        hold(Scenario::rows_of_readers_and_writers(2).map(|row| row.with(&faults)));
    }
}

/// More nodes before a contender than the contenders make, deleted in any order.
#[test]
fn readers_and_writers_behind_others() {
    for fault in KINDS {
        hold(Scenario::rows_of_readers_and_writers(1).map(|row| row.behind(3).with(&[fault, Fault::Downgrade])));
    }
}

/// From there on, the server assigns its last number to every node.
#[test]
fn sequence_numbers_that_run_out() {
    for fault in KINDS {
        for left in 1..=2 {
            hold([Scenario::of(3).with_numbers_left(left).with(&[fault])]);
        }
        hold(Scenario::rows_of_readers_and_writers(2).map(|row| row.with_numbers_left(2).with(&[fault])));
    }
    breaks([(TWO_OWNERS, Scenario::of_readers_and_writers(&[ENDLESS, ENDLESS]).with_numbers_left(0))]);
}

/// Otherwise the search could miss a contender that repeats the same request for ever.
#[test]
fn every_run_ends() {
    for fault in KINDS {
        end([Scenario::of(3), Scenario::of(2).behind(2)].map(|scenario| scenario.with(&[fault])));
    }
    end((2..=3).flat_map(Scenario::rows_of_readers_and_writers));
    end([Scenario::of(2).in_directories([false, false]), Scenario::of(3).driven_by(LOOKS_AGAIN)]);
}

#[test]
fn deliberate_defects_are_found() {
    use Fault::{Cancel, Delete, Disconnect, LostSession, Write};
    let behind_one = |faults| Scenario::of(1).behind(1).with(faults);
    let cases = [
        (TWO_OWNERS, Scenario::of(2).with(&[LostSession]).spoilt_by(Defect::AdoptsOverSessions)),
        (RIGHTFUL, behind_one(&[Delete]).spoilt_by(Defect::IgnoresOwnWatch)),
        (SLEEPER, Scenario::of(2).spoilt_by(Defect::LosesAheadEvents)),
        (RIGHTFUL, behind_one(&[Delete, Disconnect]).spoilt_by(Defect::KeepsWatchesOverConnections)),
        (SLEEPER, Scenario::of(2).with(&[Disconnect]).spoilt_by(Defect::HidesInterruptions)),
        (RIGHTFUL, behind_one(&[Write, Disconnect, Delete]).spoilt_by(Defect::ReportsInterruptionsLate)),
        (RIGHTFUL, behind_one(&[Delete]).spoilt_by(Defect::ForgetsOrderOfEvents)),
        (SLEEPER, behind_one(&[Write]).spoilt_by(Defect::ForgetsOneOfTwoEvents)),
        (SLEEPER, Scenario::of(2).with(&[Cancel]).spoilt_by(Defect::HasNoJanitor)),
        (LEFTOVER, Scenario::of(1).with(&[Cancel]).spoilt_by(Defect::HasNoJanitor)),
        (UNUSED, Scenario::of(1).in_directories([false, false]).spoilt_by(Defect::CreatesDirectoriesAlone)),
        // Wrong drivers: a node behind the deleted one may still exist.
        (RIGHTFUL, Scenario::of(1).behind(2).driven_by(IMPATIENT)),
        (TWO_OWNERS, Scenario::of(3).with(&[Cancel]).driven_by(IMPATIENT)),
        (TWO_OWNERS, Scenario::of_readers_and_writers(&[WRITER, OVERCONFIDENT])),
        (
            TWO_OWNERS,
            Scenario::of_readers_and_writers(&[WRITER, WRITER, READER])
                .with(&[Cancel])
                .spoilt_by(Defect::TakesAnyDeletionForOwnership),
        ),
    ];
    breaks(cases);
}
