//! The acquire protocol, searched through: every order of events, and every fault at every moment, within bounds.
//!
//! What is searched is the contest that ships, with the driver that ships. Around it stand a server with one directory
//! and, for each contender, a session: a wire on which requests keep their order, one-shot watches whose events keep
//! their order, and the simplest shell that obeys a contest. See `model/` for what can happen.
//!
//! Bounds, and why these:
//!
//! - Four contenders or others before one suffice to have all plans of a waiter in play (nothing, one, two or more before
//!   it) and one node more, so that the queue changes behind its back.
//! - One fault of each kind alone with the most contenders, then each pair of faults with fewer: a fault in the middle of
//!   the recovery from another is where protocols break.
//! - All faults together are searched by the tests that are ignored by default, as they take minutes.
//!
//! The last part puts defects in on purpose: a search that cannot find those would prove nothing.

mod model {
    pub(crate) mod contender;
    pub(crate) mod scenario;
    pub(crate) mod search;
    pub(crate) mod server;
    pub(crate) mod world;
}

use model::scenario::{Anonymous, Defect, Faults, Impatient, LooksAgain, Scenario};
use model::search::{breaks, ends, holds};
use model::world::{LEFTOVER, RIGHTFUL, SLEEPER, TWO_OWNERS};

use curator_recipes::lock::driver::StandardLockInternalsDriver;

const MUTEX: StandardLockInternalsDriver = StandardLockInternalsDriver::new();
const LOOKS_AGAIN: &LooksAgain = &LooksAgain(MUTEX);
const ANONYMOUS: &Anonymous = &Anonymous(MUTEX);
const IMPATIENT: &Impatient = &Impatient(MUTEX);

/// One of each kind that can happen to any lock.
const KINDS: [(&str, Faults); 7] = [
    ("a lost connection", Faults { disconnects: 1, ..Faults::NONE }),
    ("a time-out", Faults { timeouts: 1, ..Faults::NONE }),
    ("lost watches", Faults { lost_watches: 1, ..Faults::NONE }),
    ("a lost session", Faults { lost_sessions: 1, ..Faults::NONE }),
    ("a cancel", Faults { cancels: 1, ..Faults::NONE }),
    ("a deleted node", Faults { deletes: 1, ..Faults::NONE }),
    ("a write", Faults { writes: 1, ..Faults::NONE }),
];

#[test]
fn without_faults() {
    for contenders in 1..=5 {
        holds(&format!("{contenders} contenders"), Scenario::of(contenders));
    }
    holds("behind 5 others", Scenario::of(2).behind(5));
}

#[test]
fn one_fault() {
    for (kind, faults) in KINDS {
        holds(&format!("4 contenders, {kind}"), Scenario::of(4).with(faults));
        holds(&format!("2 behind 3 others, {kind}"), Scenario::of(2).behind(3).with(faults));
    }
}

#[test]
fn two_faults() {
    for (i, (kind, faults)) in KINDS.into_iter().enumerate() {
        for (other_kind, other) in KINDS.into_iter().skip(i) {
            let faults = faults.and(other);
            // A lost session goes on to live at the server, which multiplies the states: one of the others stands in.
            let scenario = if faults.lost_sessions == 0 { Scenario::of(3) } else { Scenario::of(2).behind(1) };
            holds(&format!("{scenario}, {kind}, {other_kind}"), scenario.with(faults));
            let scenario = Scenario::of(1).behind(3).with(faults);
            holds(&format!("{scenario}, {kind}, {other_kind}"), scenario);
        }
    }
}

#[test]
fn the_directory_comes_and_goes() {
    let reaped = Faults { reaps: 1, ..Faults::NONE };
    holds("3 contenders, no directory", Scenario::of(3).without_directory());
    for (kind, faults) in KINDS {
        let scenario = Scenario::of(2).without_directory().with(faults.and(reaped));
        holds(&format!("2 contenders, no directory, removed again, {kind}"), scenario);
    }
}

/// Before a writer that waits, a write lock may become a read lock.
#[test]
fn a_driver_whose_queue_is_not_final() {
    let downgraded = Faults { downgrades: 1, ..Faults::NONE };
    holds("3 contenders, look again", Scenario::of(3).driven_by(LOOKS_AGAIN));
    for (kind, faults) in KINDS {
        let scenario = Scenario::of(1).behind(2).with(faults.and(downgraded)).driven_by(LOOKS_AGAIN);
        holds(&format!("1 behind 2 others, a downgrade, look again, {kind}"), scenario);
        let scenario = Scenario::of(3).with(faults).driven_by(LOOKS_AGAIN);
        holds(&format!("3 contenders, look again, {kind}"), scenario);
    }
    let believes_it_is_final = Scenario::of(1).behind(1).with(downgraded);
    breaks(RIGHTFUL, "a downgrade that the driver has ruled out", believes_it_is_final);
}

#[test]
fn names_that_do_not_tell_whose_they_are() {
    for (kind, faults) in KINDS {
        holds(&format!("3 contenders, ids in the data, {kind}"), Scenario::of(3).with(faults).driven_by(ANONYMOUS));
        let lost = Faults { disconnects: 1, ..faults };
        holds(&format!("2 contenders, ids in the data, {kind}"), Scenario::of(2).with(lost).driven_by(ANONYMOUS));
    }
}

#[test]
fn no_run_goes_round_in_circles() {
    for (kind, faults) in KINDS {
        ends(&format!("3 contenders, {kind}"), &Scenario::of(3).with(faults));
        ends(&format!("2 behind 2 others, {kind}"), &Scenario::of(2).behind(2).with(faults));
    }
    ends("2 contenders, no directory", &Scenario::of(2).without_directory());
    ends("3 contenders, look again", &Scenario::of(3).driven_by(LOOKS_AGAIN));
}

#[test]
fn defects_are_found() {
    let one = |kind: usize| KINDS[kind].1;
    let [disconnect, _, _, lost_session, cancel, delete, _] = [0, 1, 2, 3, 4, 5, 6].map(one);
    let cases = [
        (TWO_OWNERS, Scenario::of(2).with(lost_session).spoilt_by(Defect::AdoptsOverSessions)),
        (RIGHTFUL, Scenario::of(1).behind(1).with(delete).spoilt_by(Defect::IgnoresOwnWatch)),
        (SLEEPER, Scenario::of(2).spoilt_by(Defect::LosesAheadEvents)),
        (RIGHTFUL, Scenario::of(1).behind(1).with(delete.and(disconnect)).spoilt_by(Defect::TrustsEventsAfterReconnect)),
        (RIGHTFUL, Scenario::of(1).behind(1).with(delete).spoilt_by(Defect::ForgetsOrderOfEvents)),
        (SLEEPER, Scenario::of(2).with(cancel).spoilt_by(Defect::HasNoJanitor)),
        (LEFTOVER, Scenario::of(1).with(cancel).spoilt_by(Defect::HasNoJanitor)),
    ];
    for (property, scenario) in cases {
        breaks(property, &format!("{:?}", scenario.defect), scenario);
    }
    breaks(RIGHTFUL, "an impatient driver, others", Scenario::of(1).behind(2).driven_by(IMPATIENT));
    breaks(TWO_OWNERS, "an impatient driver", Scenario::of(3).with(cancel).driven_by(IMPATIENT));
}

#[test]
#[ignore = "takes minutes; for a release build"]
fn all_faults() {
    let all = KINDS.into_iter().fold(Faults::NONE, |all, (_, faults)| all.and(faults));
    holds("1 behind 2 others, all faults", Scenario::of(1).behind(2).with(all));
    holds("1 behind 3 others, all faults", Scenario::of(1).behind(3).with(all));
    holds("2 contenders, all faults", Scenario::of(2).with(all));
}
