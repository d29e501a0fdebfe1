//! The order of tokens, and of places in the queue.

use super::story::{Story, leases, mutex, on, read, write};
use crate::checker::Kind;
use crate::history::Claim;

fn token(token: i64, claim: Claim) -> [Claim; 1] {
    [Claim {
        token: Some(token),
        place: None,
        ..claim
    }]
}

fn place(place: i64, claim: Claim) -> [Claim; 1] {
    [Claim {
        token: None,
        place: Some(place),
        ..claim
    }]
}

/// Two holds, one after the other.
fn after(part: &'static str, first: [Claim; 1], second: [Claim; 1]) -> Vec<Kind> {
    Story::of(part)
        .client(0)
        .acquires(10, first)
        .valid(15)
        .gives_back(20)
        .client(1)
        .acquires(30, second)
        .valid(35)
        .gives_back(40)
        .kinds()
}

#[test]
fn a_smaller_token_of_a_later_hold_is_found() {
    assert_eq!(
        after("mutex-plain", token(5, mutex(0)), token(6, mutex(0))),
        []
    );
    assert_eq!(
        after("mutex-plain", token(6, mutex(0)), token(5, mutex(0))),
        [Kind::Token]
    );
    assert_eq!(
        after("read-write-plain", token(6, read(0)), token(5, write(0))),
        [Kind::Token]
    );
    assert_eq!(
        after("read-write-plain", token(6, write(0)), token(5, read(0))),
        [Kind::Token]
    );
    assert_eq!(
        after("read-write-plain", token(6, read(0)), token(5, read(0))),
        [],
        "readers have no order"
    );
    assert_eq!(
        after(
            "semaphore-plain",
            token(6, leases(3, 0)),
            token(5, leases(1, 0))
        ),
        [Kind::Token]
    );
    assert_eq!(
        after(
            "semaphore-plain",
            token(6, leases(1, 0)),
            token(5, leases(2, 0))
        ),
        [],
        "leases that do not exclude each other have no order"
    );
}

#[test]
fn a_smaller_token_is_found_across_holds_in_between() {
    let readers = Story::of("read-write-plain")
        .client(0)
        .acquires(10, [write(9)])
        .valid(15)
        .gives_back(20)
        .client(1)
        .acquires(30, [read(10)])
        .valid(35)
        .gives_back(40);
    readers
        .clone()
        .client(2)
        .acquires(50, [read(11)])
        .valid(55)
        .assert_clean();
    assert_eq!(
        readers.client(2).acquires(50, [read(8)]).valid(55).kinds(),
        [Kind::Token, Kind::Fifo]
    );
}

#[test]
fn after_a_smaller_token_later_tokens_are_compared_with_the_greatest() {
    let smaller = Story::of("mutex-plain")
        .client(0)
        .acquires(10, [mutex(9)])
        .valid(15)
        .gives_back(20)
        .client(1)
        .acquires(30, token(5, mutex(0)))
        .valid(35)
        .gives_back(40);
    assert_eq!(
        smaller
            .client(0)
            .acquires(50, token(7, mutex(0)))
            .valid(55)
            .kinds(),
        [Kind::Token; 2]
    );
}

#[test]
fn two_acquires_with_one_token_are_found() {
    assert_eq!(
        after("mutex-plain", token(5, mutex(0)), token(5, mutex(0))),
        [Kind::Token]
    );
    let twice = Story::of("mutex-plain")
        .client(0)
        .acquires(10, [mutex(5)])
        .valid(15)
        .gives_back(20);
    assert_eq!(
        twice.acquires(30, [mutex(5)]).valid(35).kinds(),
        [Kind::Token],
        "by one owner"
    );
    Story::of("multi-plain")
        .client(0)
        .acquires(10, [on("/a", 5), on("/b", 5)])
        .valid(15)
        .assert_clean();
}

#[test]
fn a_downgraded_writer_keeps_its_token() {
    let writer = Story::of("read-write-plain")
        .client(0)
        .acquires(10, [write(5)])
        .valid(15)
        .gives_back(20);
    writer
        .clone()
        .downgrades(25, 5)
        .valid(30)
        .gives_back(35)
        .assert_clean();
    assert_eq!(writer.downgrades(25, 6).valid(30).kinds(), [Kind::Token]);
}

#[test]
fn a_contender_that_is_overtaken_is_found() {
    assert_eq!(
        after("mutex-plain", place(5, mutex(0)), place(6, mutex(0))),
        []
    );
    assert_eq!(
        after("mutex-plain", place(6, mutex(0)), place(5, mutex(0))),
        [Kind::Fifo]
    );
    assert_eq!(
        after("read-write-plain", place(6, read(0)), place(5, write(0))),
        [Kind::Fifo]
    );
    assert_eq!(
        after("read-write-plain", place(6, write(0)), place(5, read(0))),
        [Kind::Fifo]
    );
    assert_eq!(
        after("read-write-plain", place(6, read(0)), place(5, read(0))),
        [],
        "readers have no order"
    );
}

#[test]
fn a_contender_that_is_overtaken_at_one_path_is_found() {
    let story = Story::of("multi-plain")
        .client(0)
        .acquires(10, [on("/a", 6), on("/b", 6)])
        .valid(15)
        .gives_back(20);
    story
        .clone()
        .client(1)
        .acquires(30, [on("/c", 5), on("/d", 5)])
        .valid(35)
        .assert_clean();
    let overtaken = story
        .client(1)
        .acquires(30, [on("/b", 5), on("/c", 5)])
        .valid(35);
    assert_eq!(overtaken.kinds(), [Kind::Token, Kind::Fifo]);
}

#[test]
fn a_hold_that_was_never_valid_is_not_checked_for_order() {
    Story::of("mutex-plain")
        .client(0)
        .acquires(10, [mutex(6)])
        .lost(15)
        .gives_back(20)
        .client(1)
        .acquires(30, [mutex(5)])
        .valid(35)
        .assert_clean();
}
