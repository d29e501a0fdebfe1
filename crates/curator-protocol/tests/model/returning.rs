//! Contenders that return, like the contenders of a leader latch: a contender leaves while it waits
//! or owns, or loses its session, and later contends again, in the current session or the next,
//! while its old node may still exist.

use super::defect::Defect;
use super::scenario::Fault::{Cancel, Disconnect, LostSession, Return};
use super::scenario::{KINDS, Scenario, pairs_of_kinds};
use super::search::{assert_properties, assert_runs_end, assert_violations};
use super::world::{LEFTOVER, STUCK_WAITER, TWO_OWNERS};

#[test]
fn properties_hold_for_contenders_that_return_after_owning() {
    assert_properties([
        Scenario::contenders(3).with(&[Return]),
        Scenario::contenders(2).with(&[Return, Return, Return]),
        Scenario::contenders(2).behind(1).with(&[Return]),
    ]);
}

#[test]
fn properties_hold_for_contenders_that_return_after_each_kind_of_fault() {
    for fault in KINDS {
        // A lost session stays alive on the server for a while, which multiplies the states.
        let most = if fault == LostSession { 2 } else { 3 };
        let scenarios = [
            Scenario::contenders(most),
            Scenario::contenders(2).behind(1),
            Scenario::contenders(1).behind(3),
        ];
        assert_properties(scenarios.map(|scenario| scenario.with(&[fault, Return])));
        // Two faults of this kind, and two returns.
        assert_properties([Scenario::contenders(1)
            .behind(1)
            .with(&[fault, fault, Return, Return])]);
    }
}

/// An example is a contender that leaves while its create is in flight, is disconnected, and
/// returns.
#[test]
fn properties_hold_for_contenders_that_return_after_two_faults() {
    assert_properties(pairs_of_kinds().map(|[one, other]| {
        Scenario::contenders(1)
            .behind(2)
            .with(&[one, other, Return])
    }));
    // Omits the pairs of faults that multiply the states.
    let pairs = pairs_of_kinds()
        .filter(|pair| !pair.contains(&LostSession) && *pair != [Disconnect, Disconnect]);
    assert_properties(
        pairs.map(|[one, other]| Scenario::contenders(2).with(&[one, other, Return])),
    );
}

#[test]
fn every_run_of_returning_contenders_ends() {
    assert_runs_end(KINDS.map(|fault| Scenario::contenders(2).with(&[fault, Return])));
}

#[test]
fn deliberate_defects_of_returning_contenders_are_found() {
    let cases = [
        (
            TWO_OWNERS,
            Scenario::contenders(2)
                .with(&[LostSession, Return])
                .with_defect(Defect::OwnsOverSessions),
        ),
        (
            TWO_OWNERS,
            Scenario::contenders(2)
                .with(&[Cancel, Disconnect, Return])
                .with_defect(Defect::ReturnsWithItsOldId),
        ),
        // The contender waits behind its old node.
        (
            STUCK_WAITER,
            Scenario::contenders(1)
                .behind(1)
                .with(&[Cancel, Return])
                .with_defect(Defect::HasNoJanitor),
        ),
        (
            LEFTOVER,
            Scenario::contenders(1)
                .behind(1)
                .with(&[Cancel, Return])
                .with_defect(Defect::HasNoJanitor),
        ),
    ];
    assert_violations(cases);
}
