//! Terms of leaders: overlaps, overlaps after an operator's delete, and the time without a leader.

use std::time::Duration;

use super::story::{Story, mutex};
use crate::checker::{Aftermath, Kind};
use crate::history::{DELETE_NODES, Phase, What};

fn strikes(story: Story, name: &str, from: u64, to: u64) -> Story {
    let nemesis = |phase| What::Nemesis {
        name: name.to_owned(),
        phase,
        detail: String::new(),
    };
    story
        .conductor(from, nemesis(Phase::Begin))
        .conductor(to, nemesis(Phase::End))
}

fn aftermath(
    nemesis: &str,
    terms: u64,
    overlaps: u64,
    without_node: u64,
    leaderless: u64,
) -> Aftermath {
    let nemesis = nemesis.to_owned();
    let part = PART.to_owned();
    let leaderless = Duration::from_nanos(leaderless);
    Aftermath {
        nemesis,
        part,
        terms,
        overlaps,
        without_node,
        leaderless,
    }
}

const PART: &str = "leader-latch-plain";

/// Two terms. The second one begins at `next`.
fn two(part: &'static str, next: u64) -> Story {
    Story::of(part)
        .client(0)
        .acquires(10, [mutex(1)])
        .valid(11)
        .valid(100)
        .gives_back(110)
        .client(1)
        .acquires(next, [mutex(2)])
        .valid(next + 1)
        .valid(150)
        .gives_back(160)
}

#[test]
fn overlapping_terms_are_found_and_attributed_to_the_strike_before_them() {
    two(PART, 111).assert_clean();
    assert_eq!(
        strikes(two(PART, 111), "kill-leader", 5, 50)
            .findings()
            .leaders[0]
            .overlaps,
        0
    );
    let both = strikes(
        strikes(two(PART, 99), "kill-leader", 5, 50),
        "pause-leader",
        60,
        70,
    );
    assert_eq!(both.kinds(), [Kind::Exclusivity]);
    let expected = [
        aftermath("kill-leader", 1, 0, 0, 5),
        aftermath("pause-leader", 1, 1, 0, 0),
    ];
    assert_eq!(both.findings().leaders, expected);
    // A violation by a peer does not fail the run, but is counted.
    let peers = strikes(two("curator-latch-session", 99), "kill-leader", 5, 50);
    peers.assert_clean();
    assert_eq!(
        (
            peers.findings().leaders[0].overlaps,
            peers.findings().of_peers.len()
        ),
        (1, 1)
    );
}

#[test]
fn overlapping_terms_after_an_operators_delete_are_counted_separately() {
    let deleted = strikes(two(PART, 99), DELETE_NODES, 5, 150).operator_deletes(90, 1, 0);
    deleted.assert_clean();
    let findings = deleted.findings();
    assert_eq!(findings.leaders, [aftermath(DELETE_NODES, 2, 0, 1, 5)]);
    assert_eq!(
        (
            findings.parts[PART].held_twice,
            findings.parts[PART].held_without_node
        ),
        (0, 1)
    );
    // The leader whose node was deleted had stopped leading before the next term began.
    let stopped = strikes(two(PART, 120), DELETE_NODES, 5, 150).operator_deletes(90, 1, 0);
    assert_eq!(stopped.findings().parts[PART].held_without_node, 0);
    // Locks are counted in the same way.
    assert_eq!(
        two("mutex-plain", 99)
            .operator_deletes(90, 1, 0)
            .findings()
            .parts["mutex-plain"]
            .held_without_node,
        1
    );
}

#[test]
fn the_longest_time_without_a_leader_is_measured_until_the_next_strike_or_the_end() {
    // The terms last from 10 to 100, from 130 to 150, and from 400 to 420.
    let terms = two(PART, 130)
        .client(0)
        .acquires(400, [mutex(3)])
        .valid(420);
    let longest = |story: Story| {
        story
            .findings()
            .leaders
            .iter()
            .map(|one| one.leaderless.as_nanos())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        longest(strikes(terms.clone(), "kill-leader", 20, 50)),
        [250]
    );
    // Terms that ended before the strike, or began after the next one, do not count for it.
    let both = strikes(
        strikes(terms.clone(), "kill-leader", 120, 125),
        "pause-leader",
        160,
        170,
    );
    assert_eq!(longest(both), [10, 240]);
    let end = strikes(terms.clone(), "kill-leader", 120, 125).conductor(200, What::Finishing);
    assert_eq!(longest(end), [50]);
    assert_eq!(
        longest(strikes(terms.clone(), "kill-leader", 410, 415).conductor(500, What::Finishing)),
        [80]
    );
    // Two nemeses that overlap are one strike.
    let nemesis = |phase| What::Nemesis {
        name: "b".to_owned(),
        phase,
        detail: String::new(),
    };
    let both = strikes(terms.conductor(131, nemesis(Phase::Begin)), "a", 135, 140)
        .conductor(145, nemesis(Phase::End));
    assert_eq!(both.findings().leaders, [aftermath("a + b", 1, 0, 0, 250)]);
}
