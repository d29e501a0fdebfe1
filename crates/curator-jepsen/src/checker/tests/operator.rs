//! Guards that notice a delete, and guards that do not.

use super::story::{Story, mutex};
use crate::checker::Kind;
use crate::history::{DELETE_NODES, Outcome, Phase, What};

/// A millisecond: session timeouts are in milliseconds, other times in nanoseconds.
const MS: u64 = 1_000_000;

/// A guard of a client with a session timeout of 10 ms, whose node is deleted at 100 ms. The guard
/// stays valid for `time` after the delete.
fn valid_for(part: &'static str, time: u64) -> Story {
    let story = Story::of(part)
        .client(0)
        .session_of(0, 10)
        .acquires(MS, [mutex(1)])
        .valid(50 * MS);
    // The delete is confirmed a nanosecond later.
    story
        .valid(100 * MS + 1 + time)
        .operator_deletes(100 * MS, 1, 0)
}

fn disturbed(story: Story, name: &str, from: u64, to: u64) -> Story {
    let nemesis = |phase| What::Nemesis {
        name: name.to_owned(),
        phase,
        detail: String::new(),
    };
    story
        .conductor(from, nemesis(Phase::Begin))
        .conductor(to, nemesis(Phase::End))
}

#[test]
fn a_guard_that_does_not_notice_a_delete_is_found() {
    valid_for("mutex-guarded", 20 * MS).assert_clean();
    let late = valid_for("mutex-guarded", 20 * MS + 1);
    assert_eq!(late.kinds(), [Kind::UnnoticedDelete]);
    assert_eq!(late.findings().violations[0].at, 120 * MS + 2);
    // The check before a write also calls `is_valid()`.
    let wrote = |checked| {
        let story = valid_for("mutex-guarded", 0);
        let at = checked + 5;
        story
            .writes_until(checked, checked + MS, at, "a", Outcome::Acknowledged)
            .ends_with(&["a"])
    };
    wrote(120 * MS + 1).assert_clean();
    assert_eq!(wrote(120 * MS + 2).kinds(), [Kind::UnnoticedDelete]);
}

#[test]
fn a_variant_that_does_not_watch_its_node_need_not_notice_a_delete() {
    for part in [
        "mutex-plain",
        "mutex-transaction",
        "mutex-token",
        "kazoo-plain",
    ] {
        valid_for(part, 90 * MS).assert_clean();
    }
}

#[test]
fn an_unconfirmed_delete_need_not_be_noticed() {
    let story = |is_confirmed, created| {
        Story::of("mutex-guarded")
            .client(0)
            .session_of(0, 10)
            .acquires(MS, [mutex(1)])
            .valid(190 * MS)
            .operator_tries_to_delete(100 * MS, created, 0, is_confirmed)
    };
    assert_eq!(story(true, 1).kinds(), [Kind::UnnoticedDelete]);
    story(false, 1).assert_clean();
    story(true, 2).assert_clean();
}

#[test]
fn stops_and_other_nemeses_extend_the_time_to_notice_a_delete() {
    let late = || valid_for("mutex-guarded", 29 * MS);
    late().stopped(0, 105 * MS, 115 * MS).assert_clean();
    disturbed(late(), "flapping", 90 * MS, 110 * MS).assert_clean();
    // The disturbances overlap; the overlap counts once.
    let twice = disturbed(late(), "flapping", 104 * MS, 109 * MS).stopped(0, 105 * MS, 109 * MS);
    assert_eq!(twice.kinds(), [Kind::UnnoticedDelete]);
    disturbed(late(), "flapping", 104 * MS, 109 * MS)
        .stopped(0, 108 * MS, 113 * MS)
        .assert_clean();
    assert_eq!(
        disturbed(late(), DELETE_NODES, 90 * MS, 140 * MS).kinds(),
        [Kind::UnnoticedDelete]
    );
    assert_eq!(
        late().stopped(1, 105 * MS, 115 * MS).kinds(),
        [Kind::UnnoticedDelete],
        "another client was stopped"
    );
    let no_end = What::Nemesis {
        name: "flapping".into(),
        phase: Phase::Begin,
        detail: String::new(),
    };
    late().conductor(105 * MS, no_end).assert_clean();
}
