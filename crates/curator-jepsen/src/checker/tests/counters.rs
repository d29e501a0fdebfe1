//! Counters: histories that violate each rule, and the same histories without the violation.

use std::collections::BTreeMap;

use super::story::Story;
use crate::checker::{CounterTally, Kind};
use crate::history::{CounterKind, CounterSeen, Outcome, What};

const PART: &str = "counter-receipt";

fn story() -> Story {
    Story::of(PART).client(0)
}

/// An increment, and its result.
fn counted(story: Story, number: u64, value: Option<i64>, outcome: Outcome) -> Story {
    let at = 10 + 2 * number;
    story.counter(at, CounterSeen::Counting { number }).counter(
        at + 1,
        CounterSeen::Counted {
            number,
            value,
            outcome,
        },
    )
}

fn acknowledged(story: Story, number: u64, value: i64) -> Story {
    counted(story, number, Some(value), Outcome::Acknowledged)
}

fn ends(story: Story, value: i64, receipt: Option<u64>) -> Story {
    let receipts = receipt.map(|receipt| BTreeMap::from([("w0".to_owned(), receipt)]));
    let seen = CounterSeen::AtEnd { value, receipts };
    story.conductor(
        100,
        What::Counter {
            part: PART.to_owned(),
            seen,
        },
    )
}

#[track_caller]
fn assert_finds(story: &Story, kinds: &[Kind]) -> CounterTally {
    let findings = story.findings();
    assert_eq!(story.kinds(), kinds, "{:?}", findings.violations);
    findings.counters[PART]
}

#[test]
fn a_counter_equals_its_acknowledged_increments_plus_at_most_the_unknown_ones() {
    let two = acknowledged(acknowledged(story(), 0, 1), 1, 2);
    let sure = CounterTally {
        acknowledged: 2,
        value: 2,
        ..CounterTally::default()
    };
    assert_eq!(assert_finds(&ends(two.clone(), 2, None), &[]), sure);
    let lost = assert_finds(&ends(two.clone(), 1, None), &[Kind::CountLost]);
    assert_eq!(
        lost,
        CounterTally {
            value: 1,
            lost: 1,
            ..sure
        }
    );
    let twice = assert_finds(&ends(two.clone(), 4, None), &[Kind::CountedTwice]);
    assert_eq!(
        twice,
        CounterTally {
            value: 4,
            twice: 2,
            ..sure
        }
    );
    let unknown = counted(two, 2, None, Outcome::Unknown);
    for value in [2, 3] {
        let tally = assert_finds(&ends(unknown.clone(), value, None), &[]);
        assert_eq!(
            tally,
            CounterTally {
                unknown: 1,
                value,
                ..sure
            }
        );
    }
    assert_finds(&ends(unknown, 4, None), &[Kind::CountedTwice]);
}

#[test]
fn an_increment_that_was_refused_is_not_in_the_sum() {
    let refused = counted(acknowledged(story(), 0, 1), 1, None, Outcome::Refused);
    assert_eq!(
        assert_finds(&ends(refused.clone(), 1, None), &[]).refused,
        1
    );
    assert_finds(&ends(refused, 2, None), &[Kind::CountedTwice]);
}

#[test]
fn the_increment_of_a_killed_process_may_have_been_applied() {
    let begun = acknowledged(story(), 0, 1).counter(20, CounterSeen::Counting { number: 1 });
    assert_eq!(assert_finds(&ends(begun.clone(), 2, None), &[]).cut_off, 1);
    assert_finds(&ends(begun.clone(), 3, None), &[Kind::CountedTwice]);
    // The second increment has no reply, as its future was dropped.
    let again = begun.counter(22, CounterSeen::Counting { number: 2 });
    assert_eq!(assert_finds(&ends(again, 3, None), &[]).cut_off, 2);
}

#[test]
fn with_receipts_the_number_of_applied_increments_is_exact() {
    let begun = acknowledged(story(), 0, 1).counter(20, CounterSeen::Counting { number: 1 });
    assert_finds(&ends(begun.clone(), 2, Some(2)), &[]);
    assert_finds(&ends(begun, 2, Some(1)), &[Kind::CountedTwice]);
}

#[test]
fn receipts_are_checked_for_each_client() {
    // The sum is right, but not the receipt of each client.
    let two = |first, second| {
        let one = acknowledged(acknowledged(story(), 0, 1), 1, 2)
            .counter(20, CounterSeen::Counting { number: 2 });
        let other = acknowledged(one.client(1), 3, 3);
        let seen = CounterSeen::AtEnd {
            value: 4,
            receipts: Some(BTreeMap::from([
                ("w0".to_owned(), first),
                ("w1".to_owned(), second),
            ])),
        };
        other.conductor(
            100,
            What::Counter {
                part: PART.to_owned(),
                seen,
            },
        )
    };
    assert_finds(&two(3, 1), &[]);
    assert_finds(&two(2, 2), &[Kind::CountedTwice]);
    assert_finds(&two(1, 3), &[Kind::CountLost, Kind::CountedTwice]);
}

#[test]
fn two_increments_with_the_same_value_are_found() {
    let same = acknowledged(acknowledged(story(), 0, 1), 1, 1);
    assert_eq!(
        assert_finds(&ends(same, 2, None), &[Kind::SameValue]).same_value,
        1
    );
}

#[test]
fn counters_of_an_unfinished_run_are_not_checked() {
    assert_finds(&acknowledged(story(), 0, 1), &[]);
}

#[test]
fn counter_kinds_are_parsed_from_their_keys() {
    assert_eq!(
        CounterKind::of("counter-receipt"),
        Some(CounterKind::Receipt)
    );
    assert_eq!(CounterKind::of("curator-counter"), None);
}
