//! The acquire protocol, searched through: every order of events, and every fault at every moment, within bounds.
//!
//! What is searched is the contest that ships, with the drivers that ship. Around it stand a server with two directories
//! (queues, or a queue and the leases of a semaphore) and, for each contender, a session: a wire on which requests keep
//! their order, one-shot watches on one connection whose events keep their order, and the simplest runner that obeys a
//! contest. See `runner.rs`, `writer.rs` and `faults.rs` for what can happen, and `world.rs` for what must hold.
//!
//! Bounds, and why these:
//!
//! - Four contenders or others before one suffice to have all plans of a waiter in play (nothing, one, two or more before
//!   it) and one node more, so that the queue changes behind its back.
//! - One fault of each kind alone with the most contenders, then each pair of faults with fewer: a fault in the middle of
//!   the recovery from another is where protocols break.
//! - Readers and writers, of which a writer may take the read lock too or go over to it: rows of up to four without faults,
//!   of three with one fault, of two with two.
//! - Three faults, and one of each kind together, take minutes: `deep.rs` has them.
//!
//! The last part puts defects in on purpose: a search that cannot find those would prove nothing.

mod answers;
mod client;
mod defect;
mod drivers;
mod faults;
mod impatience;
mod machine;
mod runner;
mod scenario;
mod search;
mod semaphores;
mod server;
mod several_queues;
mod world;
mod writer;

use defect::Defect;
use drivers::{Anonymous, Endless, Impatient, LooksAgain, Overconfident, rows_of_readers_and_writers};
use scenario::{Faults, KINDS, Scenario, pairs_of_kinds};
use search::{Tally, breaks, ends, holds};
use world::{LEFTOVER, RIGHTFUL, SLEEPER, TWO_OWNERS, UNUSED};

use curator_protocol::{ReadLockInternalsDriver, StandardLockInternalsDriver, WriteLockInternalsDriver};

const MUTEX: StandardLockInternalsDriver = StandardLockInternalsDriver::new();
const LOOKS_AGAIN: &LooksAgain = &LooksAgain(MUTEX);
const ANONYMOUS: &Anonymous = &Anonymous(MUTEX);
const IMPATIENT: &Impatient = &Impatient(MUTEX);
const READER: &ReadLockInternalsDriver = &ReadLockInternalsDriver;
const WRITER: &WriteLockInternalsDriver = &WriteLockInternalsDriver;
const ENDLESS: &Endless = &Endless(WriteLockInternalsDriver);
const OVERCONFIDENT: &Overconfident = &Overconfident(WriteLockInternalsDriver);

#[test]
fn without_faults() {
    let _tally = Tally::of("without faults");
    for scenario in (1..=5).map(Scenario::of).chain([Scenario::of(2).behind(5)]) {
        holds(&scenario.to_string(), scenario);
    }
}

#[test]
fn one_fault() {
    let _tally = Tally::of("one fault");
    for (kind, faults) in KINDS {
        // A lost session lives on at the server for a while, which multiplies the states.
        let most = if faults.lost_sessions == 0 { 4 } else { 3 };
        for scenario in [Scenario::of(most), Scenario::of(2).behind(3)] {
            holds(&format!("{scenario}, {kind}"), scenario.with(faults));
        }
    }
}

#[test]
fn two_faults() {
    let _tally = Tally::of("two faults");
    for (kinds, faults) in pairs_of_kinds() {
        // These two are the largest by far; `deep.rs` has them with three.
        let is_large = faults.lost_sessions > 1 || (faults.lost_sessions == 1 && faults.disconnects == 1);
        let most = if is_large { Scenario::of(2).behind(1) } else { Scenario::of(3) };
        for scenario in [most, Scenario::of(1).behind(3)] {
            holds(&format!("{scenario}, {kinds}"), scenario.with(faults));
        }
    }
}

#[test]
fn the_directory_comes_and_goes() {
    let _tally = Tally::of("the directory comes and goes");
    let reaped = Faults { reaps: 1, ..Faults::NONE };
    let scenario = Scenario::of(3).in_directories([false, false]);
    holds(&scenario.to_string(), scenario);
    for (kind, faults) in KINDS {
        let scenario = Scenario::of(2).in_directories([false, false]).with(faults.and(reaped));
        holds(&format!("{scenario}, removed again, {kind}"), scenario);
    }
}

/// Before a writer that waits, a write lock may become a read lock.
#[test]
fn a_driver_whose_queue_is_not_final() {
    let _tally = Tally::of("a driver whose queue is not final");
    let downgraded = Faults { downgrades: 1, ..Faults::NONE };
    for (kind, faults) in KINDS {
        for scenario in [Scenario::of(1).behind(2).with(faults.and(downgraded)), Scenario::of(3).with(faults)] {
            holds(&format!("{scenario}, looks again, {kind}"), scenario.driven_by(LOOKS_AGAIN));
        }
    }
    let believes_it_is_final = Scenario::of(1).behind(1).with(downgraded);
    breaks(RIGHTFUL, "a downgrade that the driver has ruled out", believes_it_is_final);
}

#[test]
fn readers_and_writers() {
    let _tally = Tally::of("readers and writers");
    for (row, drivers) in (1..=4).flat_map(rows_of_readers_and_writers) {
        holds(&row, Scenario::of_readers_and_writers(&drivers));
    }
}

#[test]
fn readers_and_writers_with_one_fault() {
    let _tally = Tally::of("readers and writers with one fault");
    for (kind, faults) in KINDS {
        for (row, drivers) in rows_of_readers_and_writers(3) {
            holds(&format!("{row}, {kind}"), Scenario::of_readers_and_writers(&drivers).with(faults));
        }
    }
}

#[test]
fn readers_and_writers_with_two_faults() {
    let _tally = Tally::of("readers and writers with two faults");
    for (kinds, faults) in pairs_of_kinds() {
        for (row, drivers) in rows_of_readers_and_writers(2) {
            holds(&format!("{row}, {kinds}"), Scenario::of_readers_and_writers(&drivers).with(faults));
        }
    }
}

/// More before one than contenders could be, and leaving in any order.
#[test]
fn readers_and_writers_behind_others() {
    let _tally = Tally::of("readers and writers behind others");
    let downgraded = Faults { downgrades: 1, ..Faults::NONE };
    for (kind, faults) in KINDS {
        for (row, drivers) in rows_of_readers_and_writers(1) {
            let scenario = Scenario::of_readers_and_writers(&drivers).behind(3).with(faults.and(downgraded));
            holds(&format!("{row} behind 3 writers, {kind}"), scenario);
        }
    }
}

/// From there on, the server gives its last number to everybody.
#[test]
fn the_end_of_the_counter() {
    let _tally = Tally::of("the end of the counter");
    for (kind, faults) in KINDS {
        for left in 1..=2 {
            let scenario = Scenario::of(3).with_numbers_left(left).with(faults);
            holds(&format!("{scenario}, {kind}"), scenario.clone());
            holds(&format!("{scenario}, ids in the data, {kind}"), scenario.driven_by(ANONYMOUS));
        }
        for (row, drivers) in rows_of_readers_and_writers(2) {
            let scenario = Scenario::of_readers_and_writers(&drivers).with_numbers_left(2).with(faults);
            holds(&format!("{row}, {scenario}, {kind}"), scenario);
        }
    }
    let endless = Scenario::of_readers_and_writers(&[ENDLESS, ENDLESS]).with_numbers_left(0);
    breaks(TWO_OWNERS, "writers that know no end", endless);
}

#[test]
fn names_that_do_not_tell_whose_they_are() {
    let _tally = Tally::of("names that do not tell whose they are");
    let disconnect = KINDS[0].1;
    for (kind, faults) in KINDS {
        for scenario in [Scenario::of(3).with(faults), Scenario::of(2).with(faults.and(disconnect))] {
            holds(&format!("{scenario}, ids in the data, {kind}"), scenario.driven_by(ANONYMOUS));
        }
    }
}

/// Without this, the search could take for a quiet end what is in truth a contender that asks the same for ever.
#[test]
fn no_run_goes_round_in_circles() {
    let _tally = Tally::of("no run goes round in circles");
    for (kind, faults) in KINDS {
        for scenario in [Scenario::of(3), Scenario::of(2).behind(2)] {
            ends(&format!("{scenario}, {kind}"), &scenario.with(faults));
        }
    }
    ends("no directory", &Scenario::of(2).in_directories([false, false]));
    for (row, drivers) in (2..=3).flat_map(rows_of_readers_and_writers) {
        ends(&row, &Scenario::of_readers_and_writers(&drivers));
    }
    ends("looks again", &Scenario::of(3).driven_by(LOOKS_AGAIN));
}

#[test]
fn defects_are_found() {
    let _tally = Tally::of("defects are found");
    let [disconnect, _, _, lost_session, cancel, delete, write] = KINDS.map(|(_, faults)| faults);
    let cases = [
        (TWO_OWNERS, Scenario::of(2).with(lost_session).spoilt_by(Defect::AdoptsOverSessions)),
        (RIGHTFUL, Scenario::of(1).behind(1).with(delete).spoilt_by(Defect::IgnoresOwnWatch)),
        (SLEEPER, Scenario::of(2).spoilt_by(Defect::LosesAheadEvents)),
        (
            RIGHTFUL,
            Scenario::of(1).behind(1).with(delete.and(disconnect)).spoilt_by(Defect::KeepsWatchesOverConnections),
        ),
        (SLEEPER, Scenario::of(2).with(disconnect).spoilt_by(Defect::HidesInterruptions)),
        (
            RIGHTFUL,
            Scenario::of(1)
                .behind(1)
                .with(write.and(disconnect).and(delete))
                .spoilt_by(Defect::ReportsInterruptionsLate),
        ),
        (RIGHTFUL, Scenario::of(1).behind(1).with(delete).spoilt_by(Defect::ForgetsOrderOfEvents)),
        (SLEEPER, Scenario::of(1).behind(1).with(write).spoilt_by(Defect::ForgetsOneOfTwoEvents)),
        (SLEEPER, Scenario::of(2).with(cancel).spoilt_by(Defect::HasNoJanitor)),
        (LEFTOVER, Scenario::of(1).with(cancel).spoilt_by(Defect::HasNoJanitor)),
        (UNUSED, Scenario::of(1).in_directories([false, false]).spoilt_by(Defect::CreatesDirectoriesAlone)),
    ];
    for (property, scenario) in cases {
        breaks(property, &format!("{:?}", scenario.defect), scenario);
    }
    breaks(RIGHTFUL, "an impatient driver, others", Scenario::of(1).behind(2).driven_by(IMPATIENT));
    breaks(TWO_OWNERS, "an impatient driver", Scenario::of(3).with(cancel).driven_by(IMPATIENT));
    let overconfident = Scenario::of_readers_and_writers(&[WRITER, OVERCONFIDENT]);
    breaks(TWO_OWNERS, "a writer that believes its queue to be final", overconfident);
    let behind_two_writers = Scenario::of_readers_and_writers(&[WRITER, WRITER, READER]).with(cancel);
    let impatient = behind_two_writers.spoilt_by(Defect::TakesAnyDeletionForOwnership);
    breaks(TWO_OWNERS, "an impatient reader", impatient);
}
