//! Contenders that return, as a leader latch does: it leaves while it waits or owns, or loses its session, and later
//! contends again, in the current session or the next, while its old node may still exist.

use super::defect::Defect;
use super::scenario::Fault::{Cancel, Disconnect, LostSession, Return};
use super::scenario::{KINDS, Scenario, pairs_of_kinds};
use super::search::{breaks, end, hold};
use super::world::{LEFTOVER, SLEEPER, TWO_OWNERS};

#[test]
fn contenders_that_return_after_owning() {
    hold([
        Scenario::of(3).with(&[Return]),
        Scenario::of(2).with(&[Return, Return, Return]),
        Scenario::of(2).behind(1).with(&[Return]),
    ]);
}

#[test]
fn contenders_that_return_after_each_kind_of_fault() {
    for fault in KINDS {
        // A lost session stays alive on the server for a while, which multiplies the states.
        let most = if fault == LostSession { 2 } else { 3 };
        let scenarios = [Scenario::of(most), Scenario::of(2).behind(1), Scenario::of(1).behind(3)];
        hold(scenarios.map(|scenario| scenario.with(&[fault, Return])));
        // Two returns, in the same way or in two ways.
        hold([Scenario::of(1).behind(1).with(&[fault, fault, Return, Return])]);
    }
}

/// For example a contender that leaves while its create is in flight, is disconnected, and returns.
#[test]
fn contenders_that_return_after_two_faults() {
    hold(pairs_of_kinds().map(|[one, other]| Scenario::of(1).behind(2).with(&[one, other, Return])));
    // Without the pairs that multiply the states.
    let pairs = pairs_of_kinds().filter(|pair| !pair.contains(&LostSession) && *pair != [Disconnect, Disconnect]);
    hold(pairs.map(|[one, other]| Scenario::of(2).with(&[one, other, Return])));
}

#[test]
fn every_run_of_returning_contenders_ends() {
    end(KINDS.map(|fault| Scenario::of(2).with(&[fault, Return])));
}

#[test]
fn deliberate_defects_of_returning_contenders_are_found() {
    let cases = [
        (TWO_OWNERS, Scenario::of(2).with(&[LostSession, Return]).spoilt_by(Defect::OwnsOverSessions)),
        (TWO_OWNERS, Scenario::of(2).with(&[Cancel, Disconnect, Return]).spoilt_by(Defect::ReturnsUnderItsOldName)),
        // Behind its old node.
        (SLEEPER, Scenario::of(1).behind(1).with(&[Cancel, Return]).spoilt_by(Defect::HasNoJanitor)),
        (LEFTOVER, Scenario::of(1).behind(1).with(&[Cancel, Return]).spoilt_by(Defect::HasNoJanitor)),
    ];
    breaks(cases);
}
