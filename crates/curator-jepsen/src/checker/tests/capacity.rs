//! Exclusivity, and the promises of holds.

use super::story::{Story, leases, mutex, on, read, write};
use crate::checker::Kind;
use crate::history::Claim;

#[test]
fn two_certain_holders_of_a_mutex_are_found() {
    let first = Story::of("mutex-plain")
        .client(0)
        .acquires(10, [mutex(1)])
        .valid(11)
        .valid(50)
        .gives_back(55);
    first
        .clone()
        .client(1)
        .acquires(60, [mutex(2)])
        .valid(61)
        .gives_back(70)
        .assert_clean();
    let both = first
        .client(1)
        .acquires(40, [mutex(2)])
        .valid(41)
        .gives_back(70);
    assert_eq!(both.kinds(), [Kind::Exclusivity]);
    let findings = both.findings();
    assert_eq!(findings.parts["mutex-plain"].held_twice, 1);
    let holds: Vec<_> = findings.violations[0]
        .holds
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        holds,
        ["hold 2 of w1.0", "hold 1 of w0.0"],
        "the new hold comes first"
    );
}

#[test]
fn a_hold_counts_only_until_is_valid_last_returned_true() {
    // The process was stopped at 30, so it has not recorded its loss.
    let stopped = Story::of("mutex-plain")
        .client(0)
        .acquires(10, [mutex(1)])
        .valid_until(29, 35)
        .client(1)
        .acquires(36, [mutex(2)])
        .valid(40)
        .hold(1);
    stopped.clone().lost(90).gives_back(91).assert_clean();
    assert_eq!(
        stopped.valid(37).kinds(),
        [Kind::Exclusivity],
        "`is_valid()` was true once more after the stop"
    );
}

#[test]
fn a_hold_counts_only_until_the_clock_reading_before_its_check() {
    // `is_valid()` returned true between 20 and 80, perhaps at 20.
    let mut story = Story::of("mutex-plain")
        .client(0)
        .acquires(10, [mutex(1)])
        .valid(20)
        .gives_back(90)
        .client(1)
        .acquires(30, [mutex(2)])
        .valid(35)
        .gives_back(40);
    story.events[1].at = 80;
    story.assert_clean();
}

#[test]
fn the_lines_of_a_process_may_be_in_the_wrong_order() {
    let story = Story::of("mutex-plain")
        .client(0)
        .acquires(10, [mutex(1)])
        .valid(12)
        .lost(25)
        .valid(20);
    story
        .clone()
        .client(1)
        .acquires(21, [mutex(2)])
        .valid(30)
        .assert_clean();
    assert_eq!(
        story.client(1).acquires(19, [mutex(2)]).valid(30).kinds(),
        [Kind::Exclusivity]
    );
}

#[test]
fn a_guard_that_was_never_valid_does_not_count_as_a_hold() {
    Story::of("mutex-plain")
        .client(0)
        .acquires(10, [mutex(1)])
        .valid(11)
        .valid(50)
        .gives_back(55)
        .client(1)
        .acquires(40, [mutex(2)])
        .lost(41)
        .gives_back(42)
        .assert_clean();
}

#[test]
fn the_promise_of_a_killed_client_still_counts() {
    let killed = Story::of("mutex-plain")
        .client(0)
        .acquires(10, [mutex(1)])
        .valid_until(20, 60);
    killed
        .clone()
        .client(1)
        .acquires(61, [mutex(2)])
        .valid(62)
        .assert_clean();
    let early = killed.clone().client(1).acquires(59, [mutex(2)]).valid(70);
    assert_eq!(early.kinds(), [Kind::Promise]);
    // The promise counts even if the client reports the loss before its end.
    assert_eq!(early.hold(1).lost(40).kinds(), [Kind::Promise]);
    // A release ends the promise.
    killed
        .gives_back(25)
        .client(1)
        .acquires(26, [mutex(2)])
        .valid(30)
        .assert_clean();
}

#[test]
fn an_operators_delete_ends_a_hold_and_its_promise() {
    let next = Story::of("mutex-plain")
        .client(0)
        .acquires(10, [mutex(7)])
        .valid_until(20, 90)
        .valid_until(50, 90)
        .client(1)
        .acquires(31, [mutex(8)])
        .valid(40)
        .valid(60)
        .gives_back(70);
    assert_eq!(next.kinds(), [Kind::Exclusivity]);
    next.clone().operator_deletes(30, 7, 0).assert_clean();
    assert_eq!(
        next.clone().operator_deletes(30, 8, 1).kinds(),
        [],
        "after the delete of its node, the new hold claims nothing"
    );
    assert_eq!(
        next.operator_deletes(30, 6, 0).kinds(),
        [Kind::Exclusivity],
        "another node was deleted"
    );
}

#[test]
fn an_operators_delete_ends_leases() {
    let next = Story::of("semaphore-plain")
        .client(0)
        .acquires(10, [leases(2, 7)])
        .valid(50)
        .client(1)
        .acquires(31, [leases(2, 8)])
        .valid(60);
    assert_eq!(next.kinds(), [Kind::Exclusivity]);
    assert_eq!(
        next.clone().operator_deletes(30, 6, 0).kinds(),
        [Kind::Exclusivity],
        "this is its node in the queue, not its lease"
    );
    next.operator_deletes(30, 7, 0).assert_clean();
}

#[test]
fn an_operators_delete_ends_a_downgraded_hold_whose_node_number_is_unknown() {
    let reader = || {
        [Claim {
            place: None,
            ..read(7)
        }]
    };
    let writer = Story::of("read-write-plain")
        .client(0)
        .acquires(10, [write(7)])
        .valid(15)
        .gives_back(20);
    let next = |reader: Story| reader.client(1).acquires(31, [write(9)]).valid(60);
    let downgraded = next(writer.clone().downgrades(25, 7).valid(50));
    assert_eq!(downgraded.kinds(), [Kind::Exclusivity]);
    downgraded.operator_deletes(30, 8, 0).assert_clean();
    // The owner re-enters after the delete, which the client has not noticed.
    let again = next(
        writer
            .downgrades(25, 7)
            .enters_again(40, reader())
            .valid(50),
    );
    assert_eq!(again.kinds(), [Kind::Exclusivity]);
    again.operator_deletes(30, 8, 0).assert_clean();
}

#[test]
fn readers_share_the_lock_and_a_writer_excludes_all_others() {
    let readers = Story::of("read-write-plain")
        .client(0)
        .acquires(10, [read(1)])
        .valid(50)
        .gives_back(60)
        .client(1)
        .acquires(20, [read(2)])
        .valid(55)
        .gives_back(60);
    readers.assert_clean();
    assert_eq!(
        readers
            .clone()
            .client(2)
            .acquires(40, [write(3)])
            .valid(41)
            .kinds(),
        [Kind::Exclusivity]
    );
    let writer = readers.client(2).acquires(61, [write(3)]).valid(99);
    writer.assert_clean();
    assert_eq!(
        writer.client(0).acquires(70, [read(4)]).valid(80).kinds(),
        [Kind::Exclusivity]
    );
}

#[test]
fn a_downgrade_leaves_no_gap_between_the_write_and_the_read_hold() {
    let writer = Story::of("read-write-plain")
        .client(0)
        .acquires(10, [write(1)])
        .valid(20)
        .gives_back(30);
    let reader = writer.clone().downgrades(50, 1).valid(60).gives_back(70);
    reader
        .clone()
        .client(1)
        .acquires(55, [read(2)])
        .valid(90)
        .assert_clean();
    let between = reader.client(1).acquires(40, [write(2)]).valid(45);
    assert_eq!(
        between.kinds(),
        [Kind::Exclusivity],
        "another writer has acquired between them"
    );
    writer
        .client(1)
        .acquires(40, [write(2)])
        .valid(45)
        .assert_clean();
}

#[test]
fn more_leases_held_than_the_limit_are_found() {
    let full = Story::of("semaphore-plain")
        .client(0)
        .acquires(10, [leases(2, 1)])
        .valid(50)
        .client(1)
        .acquires(20, [leases(1, 2)])
        .valid(50);
    full.assert_clean();
    assert_eq!(
        full.client(2)
            .acquires(30, [leases(1, 3)])
            .valid(35)
            .kinds(),
        [Kind::Exclusivity]
    );
}

#[test]
fn reentrant_holds_of_one_owner_count_once_and_by_the_greatest() {
    let story = Story::of("semaphore-plain")
        .client(0)
        .acquires(10, [leases(1, 1)])
        .valid(50);
    let full = story
        .enters_again(20, [leases(1, 1)])
        .valid(50)
        .client(1)
        .acquires(30, [leases(2, 2)])
        .valid(50);
    full.assert_clean();
    let other_owner = full
        .client(0)
        .owner("another")
        .acquires(40, [leases(1, 3)])
        .valid(50);
    assert_eq!(other_owner.kinds(), [Kind::Exclusivity]);
    let less = Story::of("semaphore-plain")
        .client(0)
        .acquires(10, [leases(2, 1)])
        .valid(50)
        .enters_again(20, [leases(1, 1)])
        .valid(50)
        .client(1);
    less.clone()
        .acquires(30, [leases(1, 2)])
        .valid(50)
        .assert_clean();
    assert_eq!(
        less.acquires(30, [leases(2, 2)]).valid(50).kinds(),
        [Kind::Exclusivity]
    );
}

#[test]
fn each_path_of_a_multi_lock_is_exclusive() {
    let story = Story::of("multi-plain")
        .client(0)
        .acquires(10, [on("/a", 1), on("/b", 1)])
        .valid(50);
    story
        .clone()
        .client(1)
        .acquires(20, [on("/c", 2), on("/d", 2)])
        .valid(50)
        .assert_clean();
    let shared = story
        .client(1)
        .acquires(20, [on("/b", 2), on("/c", 2)])
        .valid(50);
    assert_eq!(shared.kinds(), [Kind::Exclusivity]);
}

#[test]
fn violations_by_a_peers_lock_are_counted_separately_from_ours() {
    let findings = Story::of("kazoo-plain")
        .client(0)
        .acquires(10, [mutex(1)])
        .valid(50)
        .client(1)
        .acquires(20, [mutex(2)])
        .valid(50)
        .findings();
    assert_eq!(findings.violations, []);
    assert_eq!(findings.of_peers.len(), 1);
    assert_eq!(findings.parts["kazoo-plain"].held_twice, 1);
}
