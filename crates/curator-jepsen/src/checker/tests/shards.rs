//! Leases of shards: histories that violate each rule, and the same histories without the violation.

use super::story::{Story, on};
use crate::checker::Kind;
use crate::history::{CONDUCTOR, Event, Outcome, Phase, SHARDS, What};

const SECOND: u64 = 1_000_000_000;

const FIRST: &str = "/jepsen/shards/locks/0";
const SECOND_SHARD: &str = "/jepsen/shards/locks/1";

/// A strike from the tenth to the twentieth second. The first client serves both shards before the
/// strike, and one of them again since the 25th second, until the end in the 100th.
fn story() -> Story {
    let lease = |story: Story, shard, from, to, token| {
        story
            .acquires(from * SECOND, [on(shard, token)])
            .valid(to * SECOND)
    };
    let story = Story::of(SHARDS).client(0);
    let story = lease(story, FIRST, 1, 9, 1);
    let story = lease(story.owner("other"), SECOND_SHARD, 2, 9, 2);
    let story = lease(story.owner("third"), FIRST, 25, 99, 3);
    let mut story = strike(strike(story, 10, Phase::Begin), 20, Phase::End);
    story.events.push(of_conductor(100, What::Finishing));
    story
}

fn of_conductor(at: u64, what: What) -> Event {
    Event {
        at: at * SECOND,
        worker: CONDUCTOR,
        life: 0,
        what,
    }
}

fn strike(mut story: Story, at: u64, phase: Phase) -> Story {
    let what = What::Nemesis {
        name: "kill-leader".to_owned(),
        phase,
        detail: String::new(),
    };
    story.events.push(of_conductor(at, what));
    story
}

/// The second client serves the second shard since `from`.
fn served_again(from: u64) -> Story {
    story()
        .client(1)
        .acquires(from * SECOND, [on(SECOND_SHARD, 4)])
        .valid((from + 1) * SECOND)
}

#[test]
fn a_shard_that_nobody_serves_after_a_strike_is_found() {
    let unserved = story();
    assert_eq!(unserved.kinds(), [Kind::Unserved]);
    let detail = &unserved.findings().violations[0].detail;
    assert!(detail.contains(SECOND_SHARD), "{detail}");
    served_again(79).assert_clean();
    assert_eq!(served_again(81).kinds(), [Kind::Unserved]);
    // The next strike begins before the shard must be served.
    strike(story(), 79, Phase::Begin).assert_clean();
}

#[test]
fn two_members_with_one_shard_and_a_lost_write_are_found() {
    let twice = served_again(30)
        .client(2)
        .acquires(30 * SECOND + 1, [on(SECOND_SHARD, 5)]);
    assert_eq!(twice.valid(30 * SECOND + 5).kinds(), [Kind::Exclusivity]);
    let wrote = served_again(30).writes(31 * SECOND, "a", Outcome::Acknowledged);
    wrote.clone().ends_with(&["a"]).assert_clean();
    assert_eq!(wrote.ends_with(&[]).kinds(), [Kind::LostUpdate]);
}
