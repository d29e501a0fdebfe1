//! Re-entries, and lost holds.

use super::story::{Story, mutex, on, read, write};
use crate::checker::Kind;

fn outer() -> Story {
    Story::of("mutex-plain")
        .client(0)
        .acquires(10, [mutex(5)])
        .valid(15)
}

#[test]
fn a_re_entry_into_a_lock_that_is_not_held_is_found() {
    outer()
        .enters_again(20, [mutex(5)])
        .valid(25)
        .gives_back(30)
        .hold(1)
        .valid(31)
        .gives_back(40)
        .assert_clean();
    let nothing = Story::of("mutex-plain")
        .client(0)
        .enters_again(20, [mutex(5)])
        .valid(25);
    assert_eq!(nothing.kinds(), [Kind::Reentry]);
    assert_eq!(
        outer().gives_back(16).enters_again(20, [mutex(5)]).kinds(),
        [Kind::Reentry],
        "released"
    );
    assert_eq!(
        outer().lost(16).enters_again(20, [mutex(5)]).kinds(),
        [Kind::Reentry],
        "known to be lost"
    );
    let other_owner = outer().owner("another").enters_again(20, [mutex(5)]);
    assert_eq!(other_owner.kinds(), [Kind::Reentry]);
    let other_client = outer().client(1).enters_again(20, [mutex(5)]);
    assert_eq!(other_client.kinds(), [Kind::Reentry]);
}

#[test]
fn a_re_entry_may_outlive_the_first_guard_and_be_entered_again() {
    outer()
        .enters_again(20, [mutex(5)])
        .valid(25)
        .hold(1)
        .gives_back(30)
        .enters_again(40, [mutex(5)])
        .valid(45)
        .assert_clean();
}

#[test]
fn a_waiting_acquire_of_the_owner_does_not_justify_a_re_entry() {
    let released = outer()
        .gives_back(16)
        .enters_again(20, [mutex(5)])
        .valid(25)
        .gives_back(30);
    assert_eq!(
        released
            .asks_and_acquires(12, 40, [mutex(6)])
            .valid(45)
            .kinds(),
        [Kind::Reentry]
    );
}

#[test]
fn a_re_entry_with_another_token_is_found() {
    assert_eq!(
        outer().enters_again(20, [mutex(6)]).valid(25).kinds(),
        [Kind::Reentry]
    );
}

#[test]
fn a_re_entry_into_other_paths_or_from_the_read_to_the_write_lock_is_found() {
    let multi = Story::of("multi-plain")
        .client(0)
        .acquires(10, [on("/a", 1), on("/b", 1)])
        .valid(15);
    assert_eq!(
        multi.enters_again(20, [on("/b", 1), on("/c", 1)]).kinds(),
        [Kind::Reentry]
    );
    let reader = Story::of("read-write-plain")
        .client(0)
        .acquires(10, [read(1)])
        .valid(15);
    assert_eq!(reader.enters_again(20, [write(1)]).kinds(), [Kind::Reentry]);
}

#[test]
fn the_holder_of_the_write_lock_enters_the_read_lock() {
    let writer = || {
        Story::of("read-write-plain")
            .client(0)
            .acquires(10, [write(1)])
            .valid(15)
    };
    writer()
        .enters_beside(20, 1)
        .valid(25)
        .gives_back(30)
        .hold(1)
        .valid(31)
        .gives_back(40)
        .assert_clean();
    assert_eq!(
        writer().enters_beside(20, 2).valid(25).kinds(),
        [Kind::Token, Kind::Reentry]
    );
    assert_eq!(
        writer()
            .gives_back(16)
            .enters_beside(20, 1)
            .valid(25)
            .kinds(),
        [Kind::Reentry],
        "released"
    );
    let new_acquire = writer().acquires(20, [read(2)]).valid(25).hold(1).valid(30);
    assert_eq!(
        new_acquire.kinds(),
        [Kind::Reentry],
        "the owner held the lock, but could not re-enter"
    );
    // Another writer can acquire the lock only after both holds are released.
    let both = writer()
        .enters_beside(20, 1)
        .valid(35)
        .hold(1)
        .gives_back(22);
    assert_eq!(
        both.client(1).acquires(30, [write(2)]).valid(40).kinds(),
        [Kind::Exclusivity]
    );
}

#[test]
fn a_new_acquire_of_a_lock_that_the_owner_certainly_holds_is_found() {
    let new_acquire = outer().acquires(20, [mutex(6)]).valid(25).hold(1);
    assert_eq!(new_acquire.clone().valid(30).kinds(), [Kind::Reentry]);
    new_acquire.clone().lost(18).assert_clean();
    new_acquire.gives_back(19).assert_clean();
}

#[test]
fn an_acquire_that_has_waited_for_its_owners_guard_may_be_a_new_hold() {
    outer()
        .valid(30)
        .gives_back(35)
        .asks_and_acquires(20, 40, [mutex(6)])
        .valid(45)
        .assert_clean();
    // The hold may have been lost before the acquire, and the loss reported late.
    outer()
        .asks_and_acquires(5, 20, [mutex(4)])
        .lost(21)
        .hold(1)
        .valid(30)
        .assert_clean();
}

#[test]
fn a_lost_lock_that_is_valid_again_is_found() {
    outer().valid(20).lost(25).gives_back(30).assert_clean();
    assert_eq!(outer().lost(20).valid(25).kinds(), [Kind::Revived]);
    assert_eq!(outer().lost(20).lost(22).valid(25).kinds(), [Kind::Revived]);
    // Two tasks of a process may write their lines in the wrong order.
    outer().lost(20).valid(18).assert_clean();
    // The validity of a peer depends only on its connection.
    let peer = Story::of("curator-plain")
        .client(0)
        .acquires(10, [mutex(5)])
        .valid(15)
        .lost(20)
        .valid(25);
    assert_eq!(peer.findings().of_peers, []);
}

#[test]
fn a_lock_lost_before_its_promise_ends_is_counted() {
    let lost_at = |at| outer().valid_until(18, 25).lost(at).gives_back(40);
    let early = |story: &Story| {
        story.assert_clean();
        story.findings().parts["mutex-plain"].lost_early
    };
    assert_eq!(early(&lost_at(24)), 1);
    assert_eq!(early(&lost_at(25)), 0, "the promise had ended");
    assert_eq!(early(&lost_at(24).operator_deletes(20, 5, 0)), 0);
    assert_eq!(
        early(&lost_at(24).operator_deletes(20, 6, 0)),
        1,
        "another node was deleted"
    );
    assert_eq!(
        early(&outer().valid_until(18, 25).gives_back(20).lost(24)),
        0,
        "the hold was released before"
    );
}
